"""Bulk work: pure functions over small parts, and the runners that apply them.

::

    runner          the interface, and the in-process runner; spark_runner: on Spark
    session, java   starting Spark, and the Java for it
    store_location  where objects are, in words that travel; errors_as_json: errors that travel
    intervals       differences of trees cut into parts; differences: large diffs
    imports         bringing objects in; exports: copying them out
    gc              garbage collection; fsck: the bulk of checking

A job makes a plan on the driver (a list of small parts), a runner applies one function to each
part wherever it likes, and the driver puts the results together. Parts, functions and results
travel: they are made of strings, bytes and numbers, never of clients, environments or open files.
"""
