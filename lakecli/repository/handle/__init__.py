"""Opening and closing: a lake, and the repositories in it.

::

    lake          the repositories of one home, in one local store: the entry point of the library
    housekeeping  expired operations, deleted repositories, and what killed commits left
    namespace     the claim of a storage namespace, its repository.json, and whether it can be read
                  and written
    shareable     whether several machines may write to it

It makes what `lakecli.repository.contract` describes out of all rooms below; nothing below imports
it. May import `staged` and what is below.
"""
