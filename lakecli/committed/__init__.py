"""Committed trees: immutable snapshots of a repository, kept as ranges under a metarange.

::

    values       the value of a record: an identity and an entry, decoded and encoded
    metaranges   a parsed metarange and its ranges, in key order, and the IDs they must have
    outline      data kept of a verified metarange, so that later reads need only some of its blocks
    cache        SSTables of a bucket kept as files on this machine, and counts of reads
    tree_store   `TreeStore`: the tables of a repository's trees, read from the nearest copy; which
                 lakeFS trees were rebuilt
    splitter     where a range ends
    writer       tree + changes -> tree (commit); `TreeWriter` writes every tree
    scan         scans, listings, and the cursor: step into a range or block, or skip it unread
    point_reads  point reads of open ranges, shared between threads
    merge_base   the base of a merge: a tree, or the result of merging several trees
    segments     trees cut at keys that no range spans, to compare ranges by ID
    decisions    which side wins each conflict of a merge: by a plan, patterns, or a strategy
    merge        base, source and destination -> a tree, conflicts, or what a merge would change
    diff         two trees -> their differences, all or at some paths; change_counts: by prefix
    check        verification of the tables in the bucket, for fsck

Every function that reads a tree raises `IntegrityError` if a table that it needs is missing or
damaged (`MissingTable`, `CorruptTable`, `MalformedValue`, …). A parameter `trees` is the
`TreeStore` that has the trees.

This package may import `sstable`, `kv`, `stores`, `settings` and the layers below.
"""
