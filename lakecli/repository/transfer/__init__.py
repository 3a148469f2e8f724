"""Building blocks of uploads and downloads.

::

    walk                list the files of a directory, and open them
    ignore_patterns     choose files: `.lakefsignore`, ``--include`` and ``--exclude``, and names
                        that are never data: those of Git, of lakecli and of the system
    plan                what a transfer would do, and its totals
    parallel            work on many objects concurrently, in bounded memory
    ingest              write files and streams into the namespace, durably, and claim them
    destination         write files below a directory
    multipart_upload    send large files to a bucket in parts; abort abandoned uploads
    multipart_download  fetch large objects of a bucket in parts, and verify them

This package may import `commit_attempts` and the layers below.
"""
