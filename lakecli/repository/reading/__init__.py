"""Read a ref: its entries, and the bytes of its objects.

::

    view            a ref as one tree: its commit, and staging on top
    merge_points    two refs and their common ancestors
    reader          a view for reading many paths, opened once
    addresses       finds the store and the key of an entry's bytes; addresses of one version;
                    places outside the namespace that this user allows
    recorded        objects outside the namespace, read only if they are unchanged
    contents        the verified bytes of an object; compares many objects outside the namespace
    hadoop_names    names for which Hadoop reads another object, or none
    lakefs_digests  verifies bytes by the checksum that lakeFS recorded
    outside_counts  counts objects by their places outside the namespace
    reflog          former commits of branches and tags

This package may import `journal` and the layers below.
"""
