"""The operations: one module for each verb, named as its command.

Committed trees, refs and staging meet only here. May import everything below it; re-exports
nothing. Start at `contract`. A room imports the rooms below it only, types included::

    verbs           repositories: repo
                    refs: branch, tag, rev_parse, reflog
                    history: commit, merge, cherry_pick, revert, log, annotate, bisect, diff,
                    status
                    objects: ls, find, du, stat, presign, rm, cp, mv, update_metadata;
                    across, cp and mv between repositories; deposit, for the library
                    transfers: upload, upload_tree, download
                    collaboration: clone, open_remote, push, pull; refs_dump, for lakeFS
    check, undo     fsck and doctor; the operation log, undo and redo
    sharing, handoff, lakefs   refs and commits in the bucket; data for people without lakecli;
                    lakeFS's refs dumps
    repair, transfer   repairing what fsck found; uploads and downloads
    handle          opening and closing
    moving, staged  a branch gets a commit; uncommitted changes
    guard, pending  claims against collection; the log, and what the bucket is still to get
    reading, bucket   what a ref reads as; what a namespace holds
    contract        `Repository`, as everything here takes it
    records         what a clone records of its repository
"""
