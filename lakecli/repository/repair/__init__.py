"""Repair what ``fsck`` finds, from intact copies.

::

    run        the verb; records: its report
    objects    data, ranges and metaranges; sources: where intact copies are
    history    commits, packs and refs
    losses     what cannot be repaired, and what it affects

`run.repair` checks, repairs and checks again, until it finds nothing more to repair.
`objects` repairs data objects, ranges and metaranges, from `sources`; `history` commits, packs and
refs. `losses` describes what stays lost, with the affected refs and paths.

Only damaged copies in the cache, and damaged packs whose commits are elsewhere, are deleted.
Objects are named by their content, so overwriting wrong bytes with the right ones is always safe.
"""
