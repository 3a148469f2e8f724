"""Uncommitted changes: staged records by staging token, and their view over committed records.

::

    area       staged records by token and path, and layers of records as one sorted view

This package may import `sstable`, `kv`, `stores`, `settings` and the layers below. A staged record
has the encoded value of a path, or marks the path as deleted; only ``committed`` decodes the
values.
"""
