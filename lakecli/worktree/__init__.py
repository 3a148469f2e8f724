"""Working directories: a directory of this machine linked with a path of a ref.

Three trees meet here: the files of the directory, the commit that it was last synced with (the
base), and the ref now. Contents decide: a file is changed when its bytes are, whatever its time.

::

    commit      committing the changes of a working directory, without staging them first
    flat_yaml   the small part of YAML that `.lakefs_ref.yaml` needs
    link        `.lakefs_ref.yaml`
    names       which paths of a ref can be files below a working directory
    ignore      which files a working directory leaves alone
    index       the index: the state of each file that was seen to have its object's contents
    scan        how the files of a working directory differ from its base
    worktree    a linked directory
    compare     how a working directory, its base and its ref differ: `status` and `diff`
    linking     files that share their blocks with the objects of a namespace on the same file
                system
    hard_links  objects of the namespace that were overwritten through a hard link in a working
                directory
    fetching    fetching the objects of files into a directory of their own
    writer      writing files into a working directory: beside, made durable together, then renamed
    bring       bringing a working directory to a commit
    keep        what a command overwrites or deletes in a working directory on request
    restore     giving files of a working directory the contents that a commit has: `restore`
    create      linking a directory with a path of a ref: `local init` and `local clone`
    git         a Git repository around a working directory

A command that writes announces its target in `.lakefs_ref.yaml` first and moves `at_head` last.
Between the two, each file has its bytes of the base, of the target, or of the user. So a killed
command is continued by any later one: a file with the bytes of base or target is no change.
"""
