"""In and out of lakeFS: repositories taken from its refs dumps, and dumps written for it.

::

    dump           reads a dump, by the manifest that names its three lists, and verifies it;
                   what the tables of ranges, metaranges and dumps hold
    restore        makes a repository of a dump, and brings newer dumps into it
    hooks          hooks that lakeFS ran
    kept_dumps     which dumps garbage collection keeps; namespaces taken over from lakeFS

A dump is three trees in the storage namespace: the commits, branches and tags of a repository as
records of lakeFS's own messages. Nothing in it is believed before all of it was verified. The verb
`refs_dump` writes one. May import `stored_objects` and what is below.
"""
