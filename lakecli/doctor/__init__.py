"""Checks of a store, run by `lakecli doctor` and before a repository is first shared.

`lakecli.repository.doctor`, which implements the command, adds checks of this machine and of the
repository.

::

    probe       one run of all checks; presigned URLs and clocks are checked here
    conditions  checks of conditional writes, which sharing a repository requires
    checks      all other checks of the store, and the result of a check
    evidence    the results of earlier checks, kept in the namespace for all clones
    demands     finds the setting that a bucket requires, by trying settings

This package may import `sstable`, `kv`, `stores`, `settings` and the layers below.
"""
