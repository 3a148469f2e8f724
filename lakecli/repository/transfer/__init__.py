"""What uploads and downloads are made of.

::

    walk                files of a directory, and opening them
    ignore_patterns     which of them: `.lakefsignore`, ``--include`` and ``--exclude``; names that
                        are never data: those of Git, of lakecli and of the system
    plan                what a transfer would do, and its totals
    parallel            many objects at once, in bounded memory
    ingest              files and streams brought into the namespace, durable and claimed
    destination         files written below a directory
    multipart           large objects of a bucket, sent and fetched in parts

May import `commit_attempts` and what is below.
"""
