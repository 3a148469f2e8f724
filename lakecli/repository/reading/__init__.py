"""What a ref reads as, and where its bytes are.

::

    view             a ref as one tree: its commit, and staging on top; common ancestors
    reader           the same for many paths, opened once
    contents         the bytes of an object, verified
    addresses        from an entry to the store and the key of its bytes; addresses of one version
    trust            places outside the namespace, and which of them this user allows
    outside_places   counts the places that entries name
    recorded         whether objects outside the namespace are as they were recorded
    presigner        URLs of entries
    reflog           where branches and tags stood before
"""
