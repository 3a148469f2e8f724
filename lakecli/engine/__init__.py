"""Bulk work: pure functions over small parts, and the runners that apply them to parts.

::

    runner          the interface, and the in-process runner; spark_runner: on Spark
    session, java   starting Spark, and the Java for it; master: whether its master answers
    scratch         large results of executors, in the bucket
    joins           joins on Spark, with such results
    worker_heap     the heap of an executor's Python
    executors       waiting for the executors of a cluster, and checking them
    data_prefixes   divides data/ by the number of its objects
    store_location  where objects are, as plain values; errors_as_json: errors as plain values
    in_order        results in the order of the parts; steps: the paths of dry runs as bytes
    intervals       cuts differences of trees into parts; differences: large diffs

The driver plans a job as a list of small parts, a runner applies one function to each part in any
process, and the driver combines the results. Parts, functions and results are pickled, so they
consist of strings, bytes and numbers, never of clients, environments or open files.
"""
