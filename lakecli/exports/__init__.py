"""Export: copy the objects of a ref to another place, under their paths.

::

    run          export the objects of a ref: plan the parts, run the rounds, write the report
    export_part  export one part: copy the objects of its interval to the destination, verified
    target       where an export writes: a directory, or a prefix of a bucket
    manifests    export paths only: a Parquet manifest, or symlink manifests
    entry_columns  entries as columns of Arrow, for manifests and DataFrames

`run.export` is the entry point. It plans intervals of keys (`lakecli.engine.differences`) in which
a commit has objects, or differs from an earlier commit. `export_part.export_part` exports one
interval in any process; `target` writes to a directory or a bucket.

An object named ``_SUCCESS`` marks its directory as complete. Such objects are exported in a later
round, after everything else has succeeded, and lakecli's own ``_SUCCESS`` is written last.

This package may import `imports` and the layers below.
"""
