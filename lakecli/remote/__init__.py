"""What clones share in the bucket: refs and how they move, commit packs, the reflog.

::

    ref_records       a ref object, and the moves in it
    refs              reads refs: one, their listing, many in parallel
    move              moves a ref by compare-and-set; nothing else writes them
    reflog            moves that no longer fit into the ref object
    packs             writes and reads commit packs, chooses those to merge
    commit_data       a commit as it stands in a pack
    known             moves as the local store keeps them
    collection        garbage collection as all clones see it, and how writers avoid its deletions
    collection_record its state, and the object that holds it
    damage            what was left out because it is not valid

Knows nothing of repositories or trees: `lakecli.repository.sharing` decides what must be in the
bucket before a ref moves. May import kv, sstable, stores and what is below.
"""
