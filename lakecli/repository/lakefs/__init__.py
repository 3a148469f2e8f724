"""Exchange with lakeFS: repositories made from its refs dumps, and dumps written for it.

::

    dump           reads and verifies a dump, given the manifest that names its three trees;
                   also reads the records of any table: ranges, metaranges and dumps
    restore        makes a repository from a dump, and updates it from newer dumps
    hooks          reports the hooks that a lakeFS server ran
    kept_dumps     the dumps that garbage collection keeps; namespaces taken over from lakeFS

A dump consists of three trees in the storage namespace: the commits, branches and tags of a
repository. Each record is a Protobuf message in lakeFS's format. A dump is verified completely
before it is used. The command `refs_dump` writes a dump. This package may import `stored_objects`
and the layers below.
"""
