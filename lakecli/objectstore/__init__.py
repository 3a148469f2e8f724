"""Buckets and directories behind one small protocol, `base.ObjectStore`.

::

    base           the protocol `ObjectStore`; registry: which adapter serves a URI; uri: URIs
    s3, gs, azure  the clouds
    local, memory  a directory; a bucket in memory
    probe          what `lakecli doctor` tries
    uploads        uploads in parts that survive the process; spool: large files on their way
    streams        bodies; seekable: of known size; ranges: parts of objects
    contents       objects named by their contents; parallel_batch: many of them
    copying        copies made by the store; renewing: a new date; deleting: only a known version
    presigning     what presigned URLs share; dates: the store's clock
    versions       reading one version of an object
    leftovers      temporary files of killed processes
    access         which credentials are in use; wording: an SDK's errors in lakecli's

`registry.open_store` finds the adapter of a namespace's URI and imports it on first use: a cloud
SDK is loaded by the command that talks to that cloud and by no other. Imports nothing of lakecli
above `errors`. A new adapter is one module, one row in `registry.ADAPTERS`, and one subclass of
the contract in ``tests/objectstore/``.
"""
