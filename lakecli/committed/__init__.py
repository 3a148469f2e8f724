"""Committed trees: immutable snapshots of a repository, kept as ranges under a metarange.

::

    values       the value of a record: an identity and an entry, decoded
    encode       entries encoded: one at a time, or columns of them
    splitter     where a range ends: a function of the keys alone
    metaranges   a parsed metarange and its ranges, in key order, and the IDs they must have
    cache        SSTables of a bucket kept as files of this machine; where a table's bytes are
    points       point reads of open ranges, shared between threads
    tree_store   `TreeStore`: opens and writes tables by their ID
    writer       `TreeWriter`: the one way a tree comes to be, and why trees are canonical
    rebuild      trees of lakeFS written again, once each
    cursor       the two-level cursor: step into a range or block, or skip it unread
    apply        tree + changes -> tree (commit)
    diff         two trees -> their differences, or those of some paths, or counts by prefix
    merge        three trees -> tree, or conflicts; `compare` tells beforehand
    threeway     three trees side by side, and what conflicts are
    scan         point reads, scans and the ranges of a tree
    listing      prefix and delimiter over any sorted stream of records
    check        verification of what the bucket holds, for fsck

May import sstable, stores, base and what is below.
"""
