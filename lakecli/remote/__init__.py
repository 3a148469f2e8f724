"""What clones share in the bucket: refs and how they move, commit packs, the reflog.

::

    ref_records   a ref object, and the moves in it
    refs          reads refs and their moves, and moves refs by compare-and-set
    packs         commits as they are recorded; writes, reads and merges packs of them
    attestations  statements about trees: checks that passed, and approvals
    gc_protocol   garbage collection as all clones see it, and how writers avoid its deletions

Knows nothing of repositories or trees: `lakecli.repository.sharing` decides what must be in the
bucket before a ref moves. May import `sstable`, `kv`, `stores`, `settings` and what is below.
"""
