"""Building blocks of uploads and downloads.

::

    walk                list the files of a directory, and open them
    ignore_patterns     choose files: `.lakefsignore`, ``--include`` and ``--exclude``, and names
                        that are never data: those of Git, of lakecli and of the system
    plan                what a transfer would do, and its totals
    parallel            many objects at once, in bounded memory
    ingest              files and streams brought into the namespace, durable and claimed
    destination         files written below a directory
    multipart_upload    large files sent to a bucket in parts; abandoned uploads aborted
    multipart_download  large objects of a bucket fetched in parts, and verified

This package may import `commit_attempts` and the layers below.
"""
