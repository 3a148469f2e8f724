"""What clones share in the bucket: ref objects and how they move, commit packs, the reflog.

::

    records       a ref object, and the moves in it
    refs          reading them: one, their listing, many in parallel
    move          moving one by compare-and-set: the only code that writes them
    reflog        moves that no longer fit into the ref object
    packs         commit packs: writing, reading, which to merge
    commit_data   a commit as it stands in a pack
    known         moves as the local store keeps them
    collection    garbage collection as all clones see it, and what keeps writers out of its way
    collection_state    the record of its state
    damage        what was left out because it cannot be believed

Knows nothing of repositories or trees: what has to be there before a ref moves is the business of
`lakecli.repository.sharing.publish`. May import kv, sstable, objectstore and what is below.
"""
