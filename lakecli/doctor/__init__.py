"""The checks of a store by `lakecli doctor`.

::

    run         runs the checks; presigned URLs and clocks are tried here
    objects     permissions and consistency
    conditions  conditional writes, which all sharing depends on
    check       the result of one check, and the objects that checks write

May import `stores`, `base` and `errors`.
"""
