"""Checks of a repository, of this machine, and of the bucket.

::

    fsck           everything that a repository's refs reach
    checker        one method for each check
    fsck_shared    the refs and packs in the bucket
    thoroughness   how much is checked
    objects        objects outside the namespace, and the contents of those that lakeFS wrote
    doctor         this machine, its configuration, and access to the bucket
"""
