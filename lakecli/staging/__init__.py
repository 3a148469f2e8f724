"""Uncommitted changes: staged records by staging token, and their view over committed records.

::

    area       staged records by token and path, and layers of records as one sorted view

May import `sstable`, `kv`, `stores`, `settings` and what is below. A staged record holds the
encoded value of a path, or marks it as deleted; only ``committed`` interprets the values.
"""
