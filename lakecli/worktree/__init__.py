"""Working directories: a directory of this machine linked with a path of a ref.

This package compares three trees: the files of the directory, the commit that the directory was
last synced with (the base), and the ref now. A file counts as changed if its bytes differ, whatever
its modification time.

::

    link           `.lakefs_ref.yaml`, which links a directory with a path of a ref
    index          the state of each file that was seen to have its object's contents
    obstacles      files and directories that are in the way of a file
    scan           how the files differ from the base
    worktree       `Worktree`: a linked directory, opened and locked
    status         how the files, the base and the ref differ: `status` and `diff`
    linked_files   reflinks and hard links to objects; the executable bit
    fetching       fetching files into a temporary directory: linked, copied or downloaded
    writer         writing files: fetched, made durable together, then renamed
    kept_for_undo  files that a command overwrites or deletes on request, kept for `undo`
    checkout       updating a directory to a commit: `pull`, `checkout`, `restore`
    create         linking a directory: `local init` and `local clone`
    commit         committing the changes of a directory, without staging them first
    git            the Git repository that contains the directory

Before a command writes files, it records its target commit in `.lakefs_ref.yaml`; afterwards it
sets `at_head` to this commit. Meanwhile, each file has the bytes of the base, of the target, or of
the user. So any later command can finish the work of a killed command: a file with the bytes of
base or target is not a change.

This package may import `repository` and the layers below.
"""
