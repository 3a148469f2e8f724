"""Bulk work: pure functions over small parts, and the runners that apply them to parts.

::

    runner          runners apply a function to the parts of a plan
    spark_runner    the runner on Spark
    session         start Spark: its settings, its log, its Java, and whether a master answers
    scratch         large results of executors
    executors       before the first part runs on a cluster
    joins           joins on Spark
    worker_heap     the heap of an executor's Python
    store_location  where objects are
    errors_as_json  lakecli's errors as JSON, sent from an executor to the driver
    in_order        results of parts in the order of the parts
    steps           what a dry run would do with each path
    intervals       cut the differences of trees into intervals of keys
    differences     large diffs in parts

The driver plans a job as a list of small parts, a runner applies one function to each part in any
process, and the driver combines the results. Parts, functions and results are pickled, so they
consist of strings, bytes and numbers, never of clients, environments or open files.
"""
