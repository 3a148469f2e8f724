"""The operations on repositories: one module for each verb, named like its command.

Only this package uses committed trees, refs and staging together. This package may import
`committed`, `refs`, `staging`, `remote`, `doctor` and the layers below. It re-exports nothing.
Start reading at `contract`. Each row of this list imports only from the rows below it, even for
types::

    verbs           repositories: repo
                    refs: branch, tag, reflog; branch_protect
                    history: commit, merge, cherry_pick, revert, annotate, bisect, diff, status;
                    check, with approve; publish; run;
                    log, with rev-parse and show commit
                    objects: stat, du, rm, mv; ls, with find; cp, with update-metadata;
                    cp_between_repositories, with mv
                    workspace: changes that are private until they become one commit
                    transfers: upload, upload_tree, download, download_tree; doctor
                    collaboration: clone, open_remote, push, pull; refs_dump, for lakeFS
    undo            the operation log, undo and redo
    sharing, handoff, lakefs   refs and commits in the bucket; data for people without lakecli;
                    lakeFS's refs dumps
    stored_objects, transfer   index all data objects, and restore damaged ones from copies;
                    uploads and downloads
    commit_attempts the protocol by which every commit on a branch is made
    handle          opening and closing lakes and repositories; the claim of a namespace
    staged          uncommitted changes
    guard           objects and commits claimed against garbage collection
    reading         the contents of a ref, and where the bytes of its objects are
    journal         the operation log, unfinished moves of refs, moves not yet sent to the bucket
    policy          the rules about refs in the bucket, and what they forbid
    contract        `Repository`, the first argument of every verb that changes something
    readable, runtime   `Refs` and `Trees`, the parts that reading needs; clocks and stores
"""
