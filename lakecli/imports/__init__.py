"""Import objects from elsewhere: a listing becomes the tree of a branch, without copying bytes.

::

    listing         A prefix of a bucket as a source
    copying         ``--copy``
    job             import into a branch
    report          import options and report
    shown           the progress of an import whose parts tell what they have done before they are
                    finished
    sources         the sources that ``--from`` names
    files           A directory of this machine as a source
    manifest        manifests as a source: their files, and dividing them into parts
    manifest_rows   the rows of manifests: columns, values, and reading them from text and Parquet
    inventory       an S3 Inventory as a source: its ``manifest.json`` names files in CSV or Parquet
    addresses       check the addresses of a source's objects, and whether the objects are there
    rows            objects of a source, column by column, and their failures
    part            import one part
    base            read the records of a branch in an interval of paths
    merging         merging the objects of a source with the records of the branch
    listed          the paths that a dry run of an import lists
    sink            write the ranges of one part of a tree
    packed          the result of a part as bytes: a line of JSON, then all records, concatenated
    rebuild         rebuild the trees of lakeFS that branches stand on
    sorting         sort a manifest, on this machine or on Spark
    finished_parts  the finished parts of an import

A *source* (`files`, `listing`, `manifest`, `inventory`) plans parts, each an interval of keys; a
part yields its objects as sorted `rows`. `part` merges them with the records of the branch and
writes ranges, in any process. `join_parts` joins the parts on the driver, and copies the records of
the branch outside the prefix. `job` combines these; `journal` lets an import continue after a kill.
"""
