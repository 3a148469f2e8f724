"""Uncommitted changes: staged records by staging token, and their view over what is committed.

::

    area       staged records by token and path
    overlay    layers of records as one sorted view

Imports kv and below. A staged record holds the encoded value of a path, or says that it is
deleted; what the values mean is known to ``committed`` alone.
"""
