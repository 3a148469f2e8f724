"""What a ref reads as, and where its bytes are.

::

    view            a ref as one tree: its commit, and staging on top
    merge_points    two refs and what they have in common
    reader          the same for many paths, opened once
    addresses       from an entry to the store and the key of its bytes; addresses of one version;
                    places outside the namespace, and which of them this user allows
    recorded        objects outside the namespace, read only as they were recorded
    contents        the bytes of an object, verified; many objects outside, compared
    hadoop_names    which names Hadoop takes for the objects that have them
    lakefs_digests  what the checksum that lakeFS recorded of an object proves
    outside_counts  counts the places outside the namespace that entries name
    reflog          where branches and tags stood before

May import `journal` and what is below.
"""
