"""Garbage collection: condemn what nothing refers to, and delete it a grace period later.

::

    run         advance garbage collection as far as time allows, and undo it
    records     garbage collection options, status and report
    roots       the roots of garbage collection: refs, their recent past, and what this clone has
    rules       retention rules: how long commits keep their objects, per branch, as in lakeFS
    known_refs  read the refs in the bucket, and refuse them if one vanished or went back
    positions   where the refs of the bucket point
    packs       commit packs for garbage collection
    reach       follow trees to their data objects, reading each distinct metarange and range once
    live        the data objects in use: a set of digests on disk, of any size
    compare     compare listings of data objects with those in use
    joined      the data objects in use
    lakefs      the data objects of lakeFS, in a namespace that was taken over from it
    ahead       refusing to delete objects of lakeFS that has written since the last refs dump
    shared      refusing a namespace that another program uses besides lakecli
    mark        find garbage: objects that are old, written by lakecli, and reached from no root
    marks       the lists of condemned objects
    summary     what a collection is about to delete
    sweep       delete condemned objects that are still old, still unreached, and not kept
    lease       move and end the state of a collection
    tasks       the work of garbage collection that grows with the data

`run.advance` is the verb: it advances the state in the bucket (`lakecli.remote.collection`) as far
as time allows. `roots` finds the commits to keep, `mark` reads what they refer to and lists the
rest, `marks` stores that list in the bucket, and `sweep` deletes what is still on the list and
still unreached. The work that grows with the data is in `tasks`, for any runner.

`lakecli.remote.collection` explains why no object in use is lost; `tests/gc/protocol.py`
checks the argument step by step.
"""
