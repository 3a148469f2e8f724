"""Uncommitted changes: staged records by staging token, and their view over what is committed.

Imports kv and below. A staged record holds the encoded value of a path, or says that it is
deleted; what the values mean is known to ``committed`` alone.
"""
