"""The operations: one module per verb, named as its command.

The only package where committed trees, refs and staging meet. May import everything below it;
re-exports nothing. Start at `lakecli.repository.core.lake`. Which module is about what::

    repositories      lake, repo, records, namespace; doctor
    branches, tags    branch, tag; tokens: their staging areas
    commits           transaction: the one way a branch moves, for commit, merge and pick (revert
                      and cherry-pick); clean: branches without changes; commits: how one is made;
                      overtaken: what others changed
    reading           view: what a ref reads as, for log, diff, objects, find_merge_base, rev_parse;
                      read, address, presign: the bytes of an object;
                      places: where they may lie outside the namespace;
                      pins: addresses of one version of an object;
                      outside: where they do; external: whether they changed there
    staging           stage: the one way into a staging area, for rearrange (rm, cp, mv) and deposit
    bytes             upload, download; transfer: what both are made of
    dates             clock: this machine's, held against the store's
    sharing           clone, fetch, push, pull, status, sync (with follow): the verbs
                      sharing: what they are made of
    taking back       operations: the log; op_log reads it, op_undo takes back, by op_apply here
                      (op_claims: what that brings into use) and op_pushed in the bucket;
                      reflog: how refs moved; housekeeping: expiry
    checking          fsck, fsck_shared, data_index; repair heals
    collecting        gate: the one way for objects and commits into use, past garbage collection;
                      reuse and unpushed: what it is made of
    handoff           for people who have no lakecli
"""
