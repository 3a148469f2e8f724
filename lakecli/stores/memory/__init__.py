"""A bucket in memory, for tests and examples of the library.

::

    store      the adapter; uploads: uploads in parts; versions: kept versions
"""
