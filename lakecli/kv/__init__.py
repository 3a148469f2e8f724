"""The local store: ordered bytes on LMDB, and the records that no upper layer owns alone.

::

    env            the store, its tables and transactions; environment: LMDB below it
    paths          records under paths longer than LMDB's keys
    operations     the operation log; past: the store as of an operation
    file_hashes    digests of local files; transfers: uploads that were begun
    tracking       where the refs in the bucket stood; reflog: how they moved there
    intents        moves in the bucket that were begun; packed: which commits are there
    mounts         refuses network file systems; sentinel and pages: whether the file is whole
    usage          how full it is; failures: LMDB's errors in lakecli's

Imports lakecli.errors and lakecli.identity only, and is the only package that knows LMDB.
"""
