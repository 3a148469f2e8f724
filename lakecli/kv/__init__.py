"""The local store: ordered bytes on LMDB, and the records that no upper layer owns alone.

::

    data_file         whether the file may be opened: whole, closed, on a disk of this machine
    lmdb_environment  one LMDB environment for each directory and process; LMDB's errors
    local_store       `LocalStore`, its tables and its transactions
    paths             records under paths longer than LMDB's keys
    operations        the operation log, and the store as of an operation
    bucket            what this clone knows of the bucket: refs, moves, commits
    file_hashes       digests of local files
    transfers         uploads in parts that were begun

Imports lakecli.errors, ids, identity and model only, and is the only package that knows LMDB.
"""
