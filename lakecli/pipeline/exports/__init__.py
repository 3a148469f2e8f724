"""Copying what a ref holds to another place, under its logical names.

::

    run        the verb: plan, rounds, what is left at the destination
    part       one part; target: the destination; status: report and marker
    records    options and report

`run.export` is the verb. The plan is intervals of keys (`pipeline.intervals`) of what a commit
holds, or holds otherwise than an earlier one; `part.export_part` does one of them, wherever a
runner takes it; `target` writes to a directory or a bucket.

Keys that end in ``_SUCCESS`` tell others that the rest is complete. They are left to a second
round, after everything else has succeeded, and our own ``_SUCCESS`` comes last.
"""
