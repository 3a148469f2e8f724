"""What every verb stands on.

::

    repositories   lake: a handle; notice: what verbs find out besides; records, namespace: what is
                   stored of one; clock: this machine's, compared with the store's;
                   housekeeping: expiry
    reading        view: what a ref reads as; reader: the same, for many paths and for the
                   library's callers; read, address: the bytes of an object; presigner;
                   places: where they may lie outside the namespace, outside: where they do;
                   pins: addresses of one version of an object; data_index; merge_base;
                   uncommitted: staging compared with the commit; ref_moves: the past of a ref;
                   level: the names in one directory of a ref
    staging        stager: the one way into a staging area; staging_tokens, staged_conflicts;
                   subtree: all objects below a directory; attributes: other metadata for an
                   entry; walk: files of a local directory; own_files: those that are no data
    moving refs    transaction: building a commit and moving a branch to it; mover: the protocol for
                   the move, and its local form; landing: what the move changes here;
                   left_staged: what a commit of a part leaves;
                   operations: the log of what was done; ref_changes: refs in it;
                   answer: the one that a command is still to give about an operation;
                   commit_record: how a commit is made; clean: branches without changes;
                   apply_change: the change of one commit, applied to another branch;
    sharing        tracking, unsent, intents, pending, under_way: what was moved in the bucket, and
                   what is still to be; deletion_lease: from where; packs: commits in the bucket
    lakeFS         rebuilt: trees of lakeFS that were written again
    collecting     gate, commit_gate: the one way for objects and commits into use; gc_guard,
                   unpushed
    checking       findings: what fsck reports; listed_less: when a listing is done twice
"""
