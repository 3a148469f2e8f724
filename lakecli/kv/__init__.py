"""The local store: ordered bytes on LMDB, and the records that several upper layers share.

::

    local_store         `LocalStore`, its tables and its transactions; records under long paths
    lmdb_environment    one LMDB environment for each directory and process; checks that its file is
                        undamaged and on a local disk before opening it
    sentinel            shows who has a store open, and whether it was closed
    compaction          returns the unused space of a store to the disk
    store_errors        converts the errors of LMDB and of the disk to lakecli's
    operations          the operation log, and the store as of an operation
    bucket              what this clone knows about the bucket: refs, moves, commits
    file_digests        digests of files on this machine
    unfinished_uploads  multipart uploads that this machine began

This package may import `base` and the layers below. It is the only package that knows LMDB.
"""
