"""Check that everything a repository refers to is in the bucket, and repair problems.

::

    repair      repair what a check finds, from intact copies; then check again
    check       everything that a repository's refs reach; the refs and commit packs in the bucket
    findings    what is reported: problems, counts, and what cannot be repaired
    index       what a runner does: it hashes objects, and on Spark looks all references up
    hashing     data objects that are read and compared with their names, in parts
    spark_jobs  the jobs on Spark, and what executors do for them

With any runner, this process reads the ranges with problems again, so the findings and their order
do not depend on the runner. May import `imports` and what is below.
"""
