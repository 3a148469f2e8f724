"""Garbage collection: what nothing reaches is condemned, and deleted a grace period later.

::

    run        the verb; records: options and report
    roots      which commits count; history: retention; rules: the JSON; own: this clone
    positions  where refs in the bucket stood; packs: commit packs
    reach      from trees to objects; live: the set of those in use
    mark       finds garbage; marks: keeps the list in the bucket
    sweep      deletes; lease: the right to; ending: moves and ends the state
    tasks      the part that runners do

`run.advance` is the verb: it takes the state in the bucket (`lakecli.remote.collection`) as far as
time allows. `roots` says which commits count, `mark` reads what they refer to and lists the rest,
`marks` keeps that list in the bucket, `sweep` deletes what is still on it and still unreached.
The work that grows with the data is in `tasks`, for any runner.

Why nobody loses anything is in `lakecli.remote.collection`, and `tests/pipeline/gc/protocol.py`
goes through it step by step.
"""
