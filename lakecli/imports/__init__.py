"""Import objects from elsewhere: a listing becomes the tree of a branch, without copying bytes.

::

    job            import into a branch
    report         options, progress and report of an import; the journal of its finished parts
    sorting        sort a manifest, on this machine or on Spark
    import_part    import one part: merge its objects with the branch; copy bytes with ``--copy``
    sources        the sources that ``--from`` names; a directory of this machine as a source
    inventory      an S3 Inventory as a source: its ``manifest.json`` names files in CSV or Parquet
    manifest       manifests as a source: their files, and dividing them into parts
    manifest_rows  the rows of manifests: columns, values, and reading them from text and Parquet
    bucket         a prefix of a bucket as a source
    address_checks check the addresses of a source's objects, and whether the objects exist
    dry_run        the paths that a dry run of an import lists
    model          the task, parts, rows, failures and results of an import
    tree_parts     one part of a tree: read it, write it, join all parts; rebuild trees of lakeFS

A *source* (`sources`, `bucket`, `manifest`) plans parts, each an interval of keys; a part yields
its objects as sorted rows. `import_part` merges them with the records of the branch and writes
ranges, in any process. `join_parts` joins the parts on the driver, and copies the records of the
branch outside the prefix. `job` combines these steps. The journal lets an import continue after it
was killed.

This package may import `engine` and the layers below.
"""
