"""Claims against garbage collection, before anything refers to an object.

::

    claims      objects, and commits with all they reach, are claimed
    gc_guard    how existing objects are protected in the bucket
"""
