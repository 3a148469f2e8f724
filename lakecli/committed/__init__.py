"""Committed trees: immutable snapshots of a repository, kept as ranges under a metarange.

::

    values       the value of a record: an identity and an entry, decoded
    encode       entries encoded: one at a time, or columns of them
    splitter     where a range ends: a function of the keys alone
    metaranges   a parsed metarange: the ranges of one tree, in key order
    cache        SSTables of a bucket kept as files of this machine
    sources      where the bytes of one table come from
    points       point reads of open ranges, shared between threads
    open_ranges  what point reads keep of a range, and of a tree
    fill         a thread that reads a tree into memory for point reads
    lru_cache    what was used last, up to a size
    reads        how many reads memory, the disk and the bucket answered
    tree_store   `TreeStore`: opens and writes tables by their ID
    naming       the ID that a table must have
    keys         intervals of keys; ranges: the records of one range
    writer       `TreeWriter`: the one way a tree comes to be, and why trees are canonical
    rebuild      trees of lakeFS written again, once each
    cursor       the two-level cursor: step into a range or block, or skip it unread
    apply        tree + changes -> tree (commit)
    diff         two trees -> their differences; pairs: records that differ
    touched      which of some paths differ between two trees
    change_counts  differences counted by prefix
    merge        three trees -> tree, or conflicts; `compare` tells beforehand
    conflicts    the error that lists conflicts, and what contents decide of them
    threeway     three trees side by side
    scan         point reads, scans and the ranges of a tree
    entry_counts how many entries ranges hold, whatever a metarange claims
    listing      prefix and delimiter over any sorted stream of records
    check        verification of what the bucket holds, for fsck

May import sstable, objectstore, layout, model and what is below.
"""
