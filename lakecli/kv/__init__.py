"""The local store: ordered bytes on LMDB, and the records that no upper layer owns alone.

``env`` is the store and its transactions, ``paths`` keeps records under paths longer than LMDB's
keys, ``operations`` is the operation log, ``file_hashes`` the cache of local files' digests.
``tracking``, ``reflog``, ``intents`` and ``packed`` are what a clone knows of the bucket.
Imports lakecli.errors and lakecli.identity only, and is the only package that knows LMDB.
"""
