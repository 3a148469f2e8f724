"""The work of ``fsck`` that grows with the data: hashing objects, and looking references up.

::

    bulk       what a runner does for a check
    hashing    data objects that are read: in parts that this process plans, or executors
    index      the references of a repository on Spark, looked up before ranges are checked one
               by one
    lookup     the job that looks them up: a join of references and listing; tasks: what executors
               do in it
    contents   the job that compares lakeFS's objects with the checksums of their entries

This process reads ranges with problems again, so the findings and their order are the same with
any runner.
"""
