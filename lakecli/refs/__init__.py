"""Names, ref expressions and history.

::

    names        which names are allowed
    expression   the grammar of ref expressions, and of the times in their braces
    resolve      from an expression to a commit
    ref_store    branches, tags and commits in the local store
    reader       the protocols through which history is read; from a commit to its parents
    graph        merge bases and ancestors
    bisection    which commit to test next
    history      the order of the log, and the drawing beside it

May import kv, base and what is below.
"""
