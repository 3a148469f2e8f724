"""Importing what lies elsewhere: a listing becomes the tree of a branch, without moving bytes.

::

    job           the verb; report: options and report; sources: what ``--from`` names
    files, listing, manifest, inventory   the kinds of sources
    manifest_file opens and names the files of a manifest; remote_file: reads one in a bucket
    addresses     where objects may be
    rows          objects, column by column; arrow and plain: read with and without Arrow
    part          one part on a runner; base: what the branch has there; copying: ``--copy``
    sink          writes the ranges of a part; packed: its result; join_parts: joins all
    sorting       sorts on disk; shuffle: on Spark
    journal       the results of finished parts, for the next run; finished_parts: their totals

A *source* (`files`, `listing`, `manifest`, `inventory`) plans parts, each an interval of keys; a
part gives its objects as sorted `rows`. `part` makes ranges of one part wherever a runner puts
it, merging what the branch has there. `join_parts` joins the parts on the driver, and copies
whatever the branch has outside of the prefix. `job` holds it together; `journal` lets it go on
after a kill.
"""
