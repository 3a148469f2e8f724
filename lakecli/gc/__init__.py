"""Garbage collection: condemn what nothing refers to, and delete it a grace period later.

::

    run           advance garbage collection as far as time allows, and undo it
    mark          find garbage: objects that are old, written by lakecli, and reached from no root
    sweep         delete condemned objects that are still old, still unreached, and not kept
    lease         move and end the state of a collection; the right to delete
    shared        refuse a namespace that another program uses besides lakecli
    roots         the roots of garbage collection: refs, their recent past, and what this clone has
    reach         follow trees to their data objects, reading each metarange and range once
    joined        the data objects in use, on Spark: compared with listings by joins
    live          the data objects in use, in this process: a set of digests on disk
    marks         the lists of condemned objects
    data_objects  list the data objects of lakecli and of lakeFS, in parts
    report        kinds of garbage, totals, the summary by branch, status and report
    options       what a collection works with: the caller's options, and its times
    known_refs    read the refs in the bucket, and refuse them if one vanished or went back
    rules         retention rules: how long commits keep their objects, per branch, as in lakeFS

Each module imports only modules below it. `run.advance` is the verb: it advances the state in the
bucket (`lakecli.remote.collection`) as far as time allows. What the work that grows with the data
does, in `reach` and `data_objects`, runs on any runner.

`lakecli.remote.collection` explains why no object in use is lost; `tests/gc/protocol.py`
checks the argument step by step. May import `lakecli.engine` and everything below it.
"""
