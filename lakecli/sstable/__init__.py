"""The file format of ranges, metaranges and commit packs: bytes in, bytes out.

RocksDB's bindings for Python can neither read a single file nor write the properties that lakeFS
reads. With this package, two requests are enough to find a path in a range in the bucket, a commit
copies the blocks that do not change, and a forged file cannot use unlimited memory.

::

    format      the layout of the file, its constants, its errors; the framing of values
    block       one block, and runs of many blocks that are read and decoded together
    writer      makes a file: blocks, their index, the properties
    directory   the end of a file: its properties, and its index, searched in its stored form
    reader      reads the blocks of a file, or finds single keys

`format` describes the file, `writer.TableWriter` makes one, `reader.SSTable` reads one through a
`Source`. This package may import `base` and the layers below.
"""
