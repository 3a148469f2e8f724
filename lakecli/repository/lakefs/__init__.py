"""Exchange with lakeFS: repositories made from its refs dumps, and dumps written for it.

::

    dump           reads a dump, by the manifest that names its three lists, and verifies it;
                   also reads the records of any table: ranges, metaranges and dumps
    restore        makes a repository from a dump, and updates it from newer dumps
    hooks          reports the hooks that a lakeFS server ran
    kept_dumps     the dumps that garbage collection keeps; namespaces taken over from lakeFS

A dump is three trees in the storage namespace, with the commits, branches and tags of a repository.
Each record of a tree is a Protobuf message in lakeFS's format. A dump is used only after all of it
was verified. The command `refs_dump` writes a dump. This package may import `stored_objects` and
the layers below.
"""
