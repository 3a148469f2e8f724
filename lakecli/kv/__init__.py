"""The local store: ordered bytes on LMDB, and the records that several upper layers share.

::

    local_store         `LocalStore`, its tables and its transactions; records under long paths
    lmdb_environment    one LMDB environment for each directory and process, and whether its file
                        may be opened: whole, closed, on a disk of this machine
    sentinel            who has a store open, and whether it was closed
    compaction          the unused space of a store, returned to the disk
    store_errors        the errors of LMDB and of the disk, as lakecli's
    operations          the operation log, and the store as of an operation
    bucket              what this clone knows of the bucket: refs, moves, commits
    file_digests        digests of files of this machine
    unfinished_uploads  multipart uploads that this machine began

May import `base` and what is below. It is the only package that knows LMDB.
"""
