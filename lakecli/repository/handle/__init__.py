"""Open and close lakes, and the repositories in them.

::

    lake          the repositories of one home, in one local store: the entry point of the library
    housekeeping  deletes expired operations, deleted repositories, and leftovers of killed commits
    namespace     the claim of a storage namespace, its repository.json, and whether this version
                  may read and write it
    shareable     whether several machines may write to a namespace

This package implements the protocols of `lakecli.repository.contract` with all packages below;
nothing below imports it. This package may import `staged` and the layers below.
"""
