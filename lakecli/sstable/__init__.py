"""The file format of ranges, metaranges and commit packs: bytes in, bytes out.

`format` describes the file, `writer.TableWriter` makes one, `reader.Table` reads one through a
`source`; `block` and `index` are their parts. Imports nothing of lakecli but ``errors``.
"""
