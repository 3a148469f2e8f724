"""Bulk work: pure functions over small parts, and the runners that apply them to parts.

::

    runner          runners apply a function to the parts of a plan; where parts find objects
    spark_runner    the runner on Spark
    session         start Spark: its settings, its log, its Java, and whether a master responds
    working_directory  the working directory of an embedded Spark; relative paths made absolute
    executors       wait for executors, and check that each can run lakecli
    scratch         storage for large results of executors; results in the order of the parts
    object_reader   pieces of a table's objects, and the process that reads them for Spark's Java
    errors_as_json  lakecli's errors as JSON, sent from an executor to the driver
    spark_joins     joins on Spark
    differences     divide the differences of trees into intervals of keys; large diffs in parts

The driver plans a job as a list of small parts, a runner applies one function to each part in any
process, and the driver combines the results. Parts, functions and results are pickled, so they
consist of strings, bytes and numbers, never of clients, environments or open files.

This package may import `opening`, `worktree`, `blocks` and the layers below.
"""
