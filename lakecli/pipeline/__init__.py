"""Bulk work: pure functions over small parts, and the runners that apply them.

A job makes a plan on the driver (a list of small parts), a runner applies one function to each
part wherever it likes, and the driver puts the results together. Parts, functions and results
travel: they are made of strings, bytes and numbers, never of clients, environments or open files.
"""
