"""Checking what is there.

::

    fsck     a repository; fsck_shared: its refs and packs in the bucket
    external whether objects outside the namespace changed
    doctor   this machine, its configuration, and access to the bucket
"""
