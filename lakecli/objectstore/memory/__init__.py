"""A bucket in memory, for tests and for trying things out.

::

    store      the adapter; uploads: uploads in parts; versions: kept versions
"""
