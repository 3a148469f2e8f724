"""What a ref reads as, and where its bytes are.

::

    view            a ref as one tree: its commit, and staging on top
    merge_points    two refs and their best common ancestor
    reader          the same for many paths, opened once
    addresses       how the addresses of entries are written, also those of one version
    places          from an address to the store and the key of its bytes; places outside the
                    namespace, and which of them this user allows
    contents        the bytes of an object, verified; whether objects outside are as recorded
    outside_counts  counts the places outside the namespace that entries name
    reflog          where branches and tags stood before
"""
