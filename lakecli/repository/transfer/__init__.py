"""What uploads and downloads are made of.

::

    walk             files of a directory
    selection        which of them: patterns as in ``.gitignore``; names that are never data
    content_types    the content type of a file
    plan             what a transfer would do, and its totals
    parallel         many objects at once, in bounded memory
    readers          verified reading, and what an upload expects
    ingest           files and streams brought into the namespace
    destination      files written below a directory
    parts            large objects of a bucket, sent and fetched in parts
"""
