"""The data that clones share in the bucket: refs and how they move, commit packs, the reflog.

::

    ref_records   a ref object, and the moves in it
    refs          reads refs and their moves, and moves refs by compare-and-set
    packs         the records of commits; writes, reads and merges packs of commits
    attestations  statements about trees: checks that passed, and approvals
    policy        the rules about refs: their document, versions, and compare-and-set
    gc_protocol   garbage collection as all clones see it, and how writers avoid its deletions

This package does not know repositories and trees: `lakecli.repository.sharing` decides which
objects must be in the bucket before a ref moves. This package may import `sstable`, `kv`, `stores`,
`settings` and the layers below.
"""
