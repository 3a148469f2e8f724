"""The operations: one module for each verb, named as its command.

Committed trees, refs and staging meet only here. May import `committed`, `refs`, `staging`,
`remote`, `doctor` and what is below. Re-exports nothing. Start at `contract`. A room imports the
rooms below it only, types included::

    verbs           repositories: repo
                    refs: branch, tag, reflog
                    history: commit, merge, cherry_pick, revert, annotate, bisect, diff, status;
                    check, with approve; publish; run;
                    log, with rev-parse and show commit
                    objects: stat, du, rm, mv; ls, with find; cp, with update-metadata;
                    cp_between_repositories, with mv
                    workspace: staged changes that nobody sees before they are one commit
                    transfers: upload, upload_tree, download, download_tree; doctor
                    collaboration: clone, open_remote, push, pull; refs_dump, for lakeFS
    undo            the operation log, undo and redo
    sharing, handoff, lakefs   refs and commits in the bucket; data for people without lakecli;
                    lakeFS's refs dumps
    stored_objects, transfer   an index of all data objects, and damaged ones restored from copies;
                    uploads and downloads
    commit_attempts the one way in which a branch gets a commit
    handle          opening and closing lakes and repositories; the claim of a namespace
    staged          uncommitted changes
    guard           objects and commits claimed against garbage collection
    reading         what a ref reads as, and where its bytes are
    journal         the operation log, moves that were begun, what the bucket is still to get
    contract        `Repository`, as every verb takes it that changes something
    readable, runtime   `Refs` and `Trees`, all that reading takes of it; clocks and stores
"""
