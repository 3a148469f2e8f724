"""Checks of a repository, of this machine, and of the bucket.

::

    fsck          everything that a repository's refs reach: checker, one method for each check;
                  fsck_shared: the refs and packs in the bucket; thoroughness: how much is checked;
                  contents: objects of lakeFS, compared with the checksums of their entries
    external      whether objects outside the namespace have changed
    doctor        this machine, its configuration, and access to the bucket; machine, purposes:
                  its checks of this machine, and which commands can work
"""
