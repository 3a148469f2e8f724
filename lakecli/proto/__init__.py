"""lakeFS's protobuf messages, encoded and decoded without the protobuf library.

With it each short command that reads an entry would start later, and large imports and listings
would take much longer. Tests compare every message with protobuf's reading.

::

    varint      numbers of variable size, as protobuf and SSTables write them
    messages    the table of lakeFS's messages; encodes and decodes one by the types of its fields

May import nothing of lakecli.
"""
