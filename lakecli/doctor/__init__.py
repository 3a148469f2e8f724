"""Checks of a store, for `lakecli doctor` and before a repository is first shared.

`lakecli.repository.doctor`, the verb, adds those of this machine and of the repository.

::

    probe    one run of all checks; presigned URLs and clocks are tried here
    checks   each check of permissions, consistency and conditional writes, and its result
    demands  the setting with which a bucket does what it refused

May import `sstable`, `kv`, `stores`, `settings` and what is below.
"""
