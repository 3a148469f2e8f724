"""The operations: one module for each verb, named as its command.

Committed trees, refs and staging meet only here. May import everything below it; re-exports
nothing. Start at `lakecli.repository.core.lake`. A room imports the rooms below it only::

    verbs           repositories: repo
                    refs: branch, tag, rev_parse, reflog
                    history: commit, merge, cherry_pick, revert, log, annotate, bisect, diff,
                    status
                    objects: ls, find, du, stat, presign, rm, cp, mv, update_metadata;
                    across, cp and mv between repositories; deposit, for the library
                    transfers: upload, upload_tree, download
                    collaboration: clone, open_remote, push, pull; refs_dump, for lakeFS
    check | undo    fsck and doctor; the operation log, undo and redo
    sharing | handoff | lakefs    refs and commits in the bucket: fetch, and automatic sync; data
                    for people without lakecli; lakeFS's refs dumps
    transfer | repair    uploads and downloads; repairing what fsck found
    core            what every verb stands on
"""
