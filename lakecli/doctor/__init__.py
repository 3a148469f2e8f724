"""The checks of a store by `lakecli doctor`.

::

    run         runs the checks; check: the result of one
    objects     permissions and consistency; conditions: conditional writes
    url         presigned URLs; scratch: objects that are removed in the end
"""
