"""Buckets and directories behind one small protocol, `protocol.ObjectStore`.

::

    protocol      the protocol `ObjectStore`; capabilities: what only some stores can do
    base          the errors, conditions and records of all stores
    registry      finds the adapter of a URI; uri: storage namespace URIs
    s3, gs, azure adapters of the clouds
    local, memory adapters of a directory, and of a bucket in memory
    overlay       writes to one namespace, reads from two; read_only: refuses writes
    uploads       uploads in parts that survive the process
    streams       request and response bodies; seekable: with seek; ranges: parts of objects
    contents      writes objects named by their contents; parallel_batch: many at once
    answer_checks what every client checks of an answer
    bounded_adapter  how the SDKs that use `requests` receive answers
    presigned     presigned URLs; presigning: what making them shares in all stores
    dates         the store's clock
    versions      reads one version of an object
    request_log   a debug message for each response
    access        which credentials are in use
    cloud_store   what the adapters of the clouds share; cloud_errors: their errors

`registry.open_store` finds the adapter of a namespace's URI and imports it on first use, so only a
command that talks to a cloud loads its SDK. A new adapter is one module, one row in
`registry.ADAPTERS`, a scheme in `uri.parse` and one subclass of the contract in
``tests/stores/``.
"""
