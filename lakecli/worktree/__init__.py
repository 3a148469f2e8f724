"""Working directories: a directory of this machine linked with a path of a ref.

Three trees meet here: the files of the directory, the commit that it was last synced with (the
base), and the ref now. Contents decide: a file is changed when its bytes are, whatever its time.

::

    flat_yaml, link     `.lakefs_ref.yaml`, in lakectl's format: what a directory is linked with
    names, ignore       which paths can be files here; `.lakefsignore` and the sparse selection
    index               cached states of the files that equal the base, so that none is read twice
    prune               index files that nobody uses any more
    scan                how the files differ from the base
    worktree            a linked directory, opened: its lock, its trees and its scan
    compare             how directory, base and ref differ: `status` and `diff`
    posix               the executable bit
    linking             reflinks and hard links to objects of a directory
    hard_links          objects that were overwritten through a hard link
    fetching            objects, verified beside the files that they replace
    writer, bring       writing files, and bringing a directory to a commit
    keep                what is overwritten on request, kept for `undo`; overwritten by `redo`
    restore             `restore`
    create              `local init` and `local clone`
    commit              `local commit`
    find                linked directories below a directory
    git                 a Git repository around a linked directory

A command that writes announces its target in `.lakefs_ref.yaml` first and moves `at_head` last.
Between the two, each file has its bytes of the base, of the target, or of the user. So a killed
command is continued by any later one: a file with the bytes of base or target is no change.
"""
