"""Healing what ``fsck`` finds, from whatever still has the right bytes.

::

    run        the verb; records: its report
    objects    data, ranges and metaranges; sources: where right bytes are
    history    commits, packs and refs
    losses     what cannot be repaired, and whom it affects

`run.repair` checks, mends and checks again, until nothing is left or nothing more can be done.
`objects` mends data objects, ranges and metaranges, from `sources`; `history` commits, packs and
refs. What stays lost is told by `losses`, with the refs and paths that it hurts.

Nothing is deleted but damaged copies in the cache and damaged packs whose commits lie elsewhere.
Objects are named by their content, so that writing the right bytes over wrong ones is always safe.
"""
