"""The local store: ordered bytes on LMDB, and the records that no upper layer owns alone.

::

    env          the store, its tables and transactions; environment: LMDB below it
    data_file    whether the file may be opened: whole, closed, on a disk of this machine
    failures     LMDB's errors in lakecli's
    paths        records under paths longer than LMDB's keys
    operations   the operation log, and the store as of an operation
    bucket       what this clone knows of the bucket: refs, moves, commits
    file_hashes  digests of local files; transfers: uploads that were begun

Imports lakecli.errors, ids, identity and model only, and is the only package that knows LMDB.
"""
