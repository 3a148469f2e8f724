"""Garbage collection: condemn objects that nothing refers to, and delete them a grace period later.

::

    run         the verb: condemn garbage; later delete the objects that are still garbage
    lease       the right to delete, which one process has at a time; a sweep deletes only with it
    mark        find the objects in use, and garbage: old objects that no root reaches
    roots       the roots of garbage collection: refs, their recent past, this clone's own work
    live_set    the data objects in use: digests on disk, or on Spark; compared with listings
    tasks       list data objects in parts, read trees and ranges, by any runner
    state       the state in the bucket: condemned objects, status, undo
    report      kinds of garbage, totals, the summary by branch, reports in the bucket
    policy      options, the inputs of a run, retention rules; reasons to delete nothing
    known_refs  read the refs in the bucket; raise an error if one is missing or older than before

Each module imports only modules below it. `run.prepare` and `run.take` advance the state in the
bucket (`lakecli.remote.gc_protocol`) as far as time allows. The work that grows with the data, in
`tasks`, runs on any runner.

`lakecli.remote.gc_protocol` explains why no object in use is lost; `tests/gc/protocol.py` checks
the argument step by step. This package may import `imports` and the layers below.
"""
