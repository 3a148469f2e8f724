"""The work of ``fsck`` that grows with the data: hashing objects, and looking references up.

::

    hashing   data objects that are read and compared with their names, in parts of bounded size
    index     the references of a repository, looked up on Spark before its ranges are checked
    tasks     looking references up: the job, and what executors do for it
    contents  the job that compares lakeFS's objects with the checksums of their entries

This process reads ranges with problems again, so the findings and their order are the same with
any runner.
"""
