"""What every verb stands on.

::

    repositories   lake: a handle; records, namespace: what is stored of one; clock: this machine's,
                   held against the store's; housekeeping: expiry
    reading        view: what a ref reads as; read, address: the bytes of an object;
                   places: where they may lie outside the namespace, outside: where they do;
                   pins: addresses of one version of an object; data_index; merge_base
    staging        stager: the one way into a staging area; staging_tokens, staged_conflicts
    moving refs    transaction: the one way a branch moves; operations: the log of what was done;
                   commit_record: how a commit is made; clean: branches without changes
    sharing        tracking, unsent, intents, pending, under_way: what was moved in the bucket, and
                   what is still to be
    collecting     gate: the one way for objects and commits into use; gc_guard, unpushed
"""
