"""Garbage collection: condemn what nothing refers to, and delete it a grace period later.

::

    run        the verb; records: options and report
    roots      which commits are kept; history: retention; rules: the JSON; own: this clone's
    known_refs  the refs in the bucket, none of which may vanish or go back; observations: what
               collections saw of them
    positions  where refs in the bucket stood; packs: commit packs
    reach      from trees to data objects; live: the set of those in use
    compare    listings with that set; joined, join_tasks: the same by joins on Spark
    lakefs     objects of the lakeFS from which the namespace was taken over
    ahead      refuses if lakeFS has written since the last refs dump
    shared     refuses a namespace that another program uses
    mark       finds garbage; marks: the list of it in the bucket; summary: by branch and tag
    sweep      deletes garbage; lease: the right to delete; ending: moves and ends the state
    tasks      the functions that runners apply

`run.advance` is the verb: it advances the state in the bucket (`lakecli.remote.collection`) as far
as time allows. `roots` finds the commits to keep, `mark` reads what they refer to and lists the
rest, `marks` stores that list in the bucket, and `sweep` deletes what is still on the list and
still unreached. The work that grows with the data is in `tasks`, for any runner.

`lakecli.remote.collection` explains why no object in use is lost; `tests/gc/protocol.py`
checks the argument step by step.
"""
