"""Reading a ref: its entries, and where their bytes are.

::

    view            a ref as one tree: its commit, and staging on top
    merge_points    two refs and their common ancestors
    reader          a view for reading many paths, opened once
    addresses       from an entry to the store and the key of its bytes; addresses of one version;
                    places outside the namespace, and which of them this user allows
    recorded        objects outside the namespace, read only if they are unchanged
    contents        the bytes of an object, verified; comparing many objects outside
    hadoop_names    whether Hadoop reads exactly the object that a name is for
    lakefs_digests  what the checksum that lakeFS recorded of an object proves
    outside_counts  counts the places outside the namespace that entries name
    reflog          former commits of branches and tags

May import `journal` and what is below.
"""
