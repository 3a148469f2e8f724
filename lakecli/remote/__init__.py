"""What clones share in the bucket: refs and how they move, commit packs, the reflog.

::

    ref_records   a ref object, and the moves in it
    refs          reads refs, one or many, and their moves; the moves that the local store keeps
    move          moves a ref by compare-and-set; nothing else writes them
    packs         writes and reads commit packs, chooses those to merge
    commit_data   a commit as it is recorded in a pack
    collection    garbage collection as all clones see it, and how writers avoid its deletions

Knows nothing of repositories or trees: `lakecli.repository.sharing` decides what must be in the
bucket before a ref moves. May import kv, sstable, stores and what is below.
"""
