"""Checks of a store, for `lakecli doctor` and before a repository is first shared.

`lakecli.repository.doctor`, the verb, adds those of this machine and of the repository.

::

    probe       one run of all checks; presigned URLs and clocks are tried here
    conditions  checks of conditional writes: what sharing depends on
    checks      each other check of what the store does, and its result
    evidence    what such tests have shown, kept in the namespace for all clones
    demands     the setting with which a bucket does what it refused

May import `sstable`, `kv`, `stores`, `settings` and what is below.
"""
