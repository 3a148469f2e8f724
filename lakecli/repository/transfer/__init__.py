"""What uploads and downloads are made of.

::

    walk, own_files  files of a directory; those that are no data
    content_types    the content type of a file
    selection        which files: patterns as in ``.gitignore``
    plan             what a transfer would do, and its totals
    parallel         many objects at once, in bounded memory
    readers          verified reading, and copying large files into a directory
    ingest, send     files and streams brought in; large files sent in parts
    expected         recognising what the branch has at a path already
    destination      files written below a directory, also in parts
    receive          large objects fetched in parts
"""
