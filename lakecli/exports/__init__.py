"""Export: copy the objects of a ref to another place, under their paths.

::

    run        the verb: plan and rounds
    part       one part; target: the destination; status: report and marker
    records    options and report
    manifest   paths only, in Parquet; symlinks: for Trino, Athena and Hive

`run.export` is the verb. It plans intervals of keys (`lakecli.engine.intervals`) in which a
commit has objects, or other objects than an earlier commit; `part.export_part` exports one of them
in any process; `target` writes to a directory or a bucket.

Objects named ``_SUCCESS`` mark others as complete. They are left to a later round, after everything
else has succeeded, and lakecli's own ``_SUCCESS`` is written last.
"""
