"""Check that everything a repository refers to is in the bucket, and repair problems.

::

    repair      repair what a check finds, from intact copies; then check again
    check       everything that a repository's refs reach; the refs and commit packs in the bucket
    findings    the reports: problems, counts, and unrecoverable losses
    index       the index of data objects; on Spark, executors hash objects and look up references
    hashing     read data objects and compare them with their names, in parts
    spark_jobs  the jobs on Spark, and their tasks on executors

Whatever the runner is, this process itself reads the ranges with problems, so the findings and
their order do not depend on the runner. This package may import `imports` and the layers below.
"""
