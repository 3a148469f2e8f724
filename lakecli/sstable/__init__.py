"""The file format of ranges, metaranges and commit packs: bytes in, bytes out.

::

    format      the layout of the file, its constants, and what can be wrong
    writer      makes a file; reader: reads one; source: where its bytes are
    block       one block; run: many blocks at the cost of one
    index       of the blocks; properties: of the table; directory: finds these
    framing     lakeFS's framing of values

`format` describes the file, `writer.TableWriter` makes one, `reader.Table` reads one through a
`source`; `block` and `index` are their parts. Imports nothing of lakecli but ``errors``
and ``proto.varint``.
"""
