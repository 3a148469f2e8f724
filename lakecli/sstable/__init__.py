"""The file format of ranges, metaranges and commit packs: bytes in, bytes out.

::

    format      the layout of the file, its constants, what can be wrong; the framing of values
    writer      makes a file; reader: reads one
    block       one block, and runs of many blocks at the cost of one
    index       of the blocks, and the properties of the table
    directory   finds both in a file, through a source of its bytes

`format` describes the file, `writer.TableWriter` makes one, `reader.SSTable` reads one through a
`Source`; `block` and `index` are their parts. Imports nothing of lakecli but ``errors``
and ``proto.varint``.
"""
