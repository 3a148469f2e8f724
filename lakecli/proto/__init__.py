"""lakeFS's protobuf messages, encoded and decoded without the protobuf library.

The library would delay the start of each short command that reads an entry, and make large imports
and listings take much longer. Tests compare the results for every message with the library's.

::

    varint      numbers of variable size, as protobuf and SSTables write them
    messages    encodes and decodes lakeFS's messages, which tables of their fields describe

This package imports nothing from lakecli.
"""
