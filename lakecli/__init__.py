"""lakeFS without the server: Git for the objects of a data lake.

Layers, each importing only what stands below it (a test enforces it)::

    cli                          prints, reads the environment, exits; typer and rich only here
    repository                   one module per verb; moving a branch is transaction.py alone
    committed | refs | staging   ranges and trees | names and history | uncommitted changes
    sstable | kv | objectstore   the file format | LMDB | buckets; cloud SDKs only here
    config | layout | uri        typed settings | keys in the bucket | lakefs:// URIs
    model, identity, errors      records, digests, the error tree

How a commit flows: ``cli/commands/commit.py`` → ``repository/commit.py`` →
``repository/transaction.py`` seals the branch's staging area → ``staging/overlay.py`` gives the
sealed changes as one sorted stream → ``committed/apply.py`` rewrites only the ranges they touch →
``objectstore`` keeps the new ranges and the metarange → one LMDB transaction moves the branch.
"""

__version__ = "0.1.0"
