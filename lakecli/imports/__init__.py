"""Import objects from elsewhere: a listing becomes the tree of a branch, without copying bytes.

::

    job           the verb; report: options and report; shown: its progress
    sources       what ``--from`` names
    files, listing, manifest, inventory   the kinds of sources
    manifest_file opens and names the files of a manifest; remote_file: reads one in a bucket
    json_rows     validates the values of JSON lines
    listing_split divides a long listing
    addresses     where objects may be; verify: whether they are there
    rows          objects, column by column; arrow and plain: read with and without Arrow
    part          imports one part; base: records of the branch there; copying: ``--copy``
    merging       merges both, and counts; listed: the paths that a dry run lists
    sink          writes the ranges of a part; packed: its result; join_parts: joins parts
    rebuild       trees of lakeFS written again as lakecli cuts them
    sorting       sorts on disk; shuffle: on Spark; bounds: into intervals of about equal size
    line_ranges   parts of a text file that begin and end at line ends
    journal       the results of finished parts, for the next run; finished_parts: their totals

A *source* (`files`, `listing`, `manifest`, `inventory`) plans parts, each an interval of keys; a
part yields its objects as sorted `rows`. `part` merges them with the records of the branch and
writes ranges, in any process. `join_parts` joins the parts on the driver, and copies the records of
the branch outside the prefix. `job` combines these; `journal` lets an import continue after a kill.
"""
