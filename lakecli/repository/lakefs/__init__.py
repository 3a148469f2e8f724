"""In and out of lakeFS: repositories taken from its refs dumps, and dumps written for it.

::

    manifest       the document that names the three lists of a dump
    dump           reads a dump and verifies it
    restore        makes a repository of a dump
    update         brings what is new in a dump into a repository
    dump_records   what the tables of ranges, metaranges and dumps hold
    lists          writes the lists of a dump
    kept           which dumps garbage collection keeps
    taken_over     since when a namespace is lakecli's, and whether lakeFS has stopped

A dump is three trees in the storage namespace: the commits, branches and tags of a repository as
records of lakeFS's own messages. Nothing in it is believed before all of it was verified.
"""
