"""Import objects from elsewhere: a listing becomes the tree of a branch, without copying bytes.

::

    job            import into a branch
    report         options, progress and report of an import, and its finished parts
    journal        the results of finished parts on disk
    sources        the sources that ``--from`` names
    directory      a directory of this machine as a source
    bucket         a prefix of a bucket as a source
    manifest       manifests as a source: their files, and dividing them into parts
    manifest_rows  the rows of manifests: columns, values, and reading them from text and Parquet
    inventory      an S3 Inventory as a source: its ``manifest.json`` names files in CSV or Parquet
    sorting        sort a manifest, on this machine or on Spark
    part           import one part, and copy the bytes with ``--copy``
    addresses      check the addresses of a source's objects, and whether the objects are there
    merging        merge the objects of a source with the records of the branch
    dry_run        the paths that a dry run of an import lists
    task           the task, parts, rows, failures and results of an import
    tree_parts     one part of a tree: read it, write it, and join all parts
    rebuild        rebuild the trees of lakeFS that branches stand on

A *source* (`directory`, `bucket`, `manifest`) plans parts, each an interval of keys; a part yields
its objects as sorted rows. `part` merges them with the records of the branch and writes ranges, in
any process. `join_parts` joins the parts on the driver, and copies the records of the branch
outside the prefix. `job` combines these; `journal` lets an import continue after a kill.
"""
