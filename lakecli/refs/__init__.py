"""Names, ref expressions and history.

::

    names        which names branches and tags may have
    expression   the grammar of ref expressions: modifiers, and the times in them
    resolve      from an expression to a commit
    ref_store    branches, tags and commits: how they are read, and how the local store keeps them
    graph        merge bases and ancestors
    bisection    which commit to test next
    history      the order of the log, and the graph drawn beside the log

This package may import `sstable`, `kv`, `stores`, `settings` and the layers below.
"""
