"""Uncommitted changes: staged records by staging token, and their view over committed records.

::

    area       staged records by token and path, and layers of records as one sorted view

May import `sstable`, `kv`, `stores`, `settings` and what is below. A staged record has the encoded
value of a path, or marks the path as deleted; only ``committed`` decodes the values.
"""
