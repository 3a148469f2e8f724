"""lakeFS's protobuf messages, encoded and decoded without the protobuf library.

With it ``fs stat`` would take a quarter longer, and an entry of a large import or listing would be
encoded or decoded in three times the time. Tests compare every message with protobuf's reading.

::

    varint      numbers of variable size, as protobuf and SSTables write them
    messages    the table of lakeFS's messages; encodes and decodes one by the types of its fields

May import nothing of lakecli.
"""
