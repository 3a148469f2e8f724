"""Committed trees: immutable snapshots of a repository, kept as ranges under a metarange.

::

    values       the value of a record: an identity and an entry, decoded
    encode       entries encoded: one at a time, or columns of them
    splitter     where a range ends: a function of the keys alone
    metaranges   a parsed metarange and its ranges, in key order, and the IDs they must have
    cache        SSTables of a bucket kept as files of this machine; where a table's bytes are
    tables       `TableStore`: ranges and metaranges by their ID, from the nearest copy
    points       point reads of open ranges, shared between threads
    tree_store   `TreeStore`: the trees of a repository, read and written
    writer       `TreeWriter`: the one way a tree comes to be; trees of lakeFS written again
    listing      prefix and delimiter over any sorted stream of records
    scan         scans, and the cursor: step into a range or block, or skip it unread
    apply        tree + changes -> tree (commit)
    diff         two trees -> their differences, or those of some paths, or counts by prefix
    threeway     three trees side by side, and what conflicts are
    merge        three trees -> tree, or conflicts
    check        verification of what the bucket holds, for fsck

May import sstable, stores, base and what is below.
"""
