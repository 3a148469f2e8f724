"""Names, ref expressions and history; may import kv, layout, uri, model and what is below.

::

    names       which names are allowed
    expression  the grammar of ref expressions; dates: times in braces; resolve: to a commit
    store       branches, tags and commits in the local store; reader: what history is read through
    graph       merge bases and ancestors; history: log order; graph_lines: its drawing
"""
