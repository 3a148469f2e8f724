"""Buckets and directories behind one small protocol, `protocol.ObjectStore`.

::

    protocol         the protocol of object stores
    capabilities     what some stores can do beyond `protocol.ObjectStore`
    base             what adapters and callers of object stores share at run time
    registry         finds the adapter of a URI's scheme; its module is imported when first needed
    uri              URIs of storage namespaces, in one canonical spelling
    overlay          namespaces that belong to others
    uploads          uploads in parts that outlive the process which began them
    streams          bodies of requests and responses
    parallel_batch   creates many objects, which are named by their contents, by parallel requests
    answer_checks    checks of what a store answers
    bounded_adapter  how the SDKs that send requests by the package `requests` receive answers
    presigning       presigned URLs: what one permits, what all stores share, and the V4 process
    dates            the clock of a store, from the ``Date`` of its responses; it needs no request
    versions         reading one version of an object
    access           which credentials a store is accessed with; nothing in here is secret
    cloud_store      what the adapters of the clouds share
    cloud_errors     how the adapters of the clouds turn an SDK's errors into lakecli's
    azure            the adapter
    gs               the adapter
    local            the adapter
    memory           the adapter
    s3               the adapter

`registry.open_store` finds the adapter of a namespace's URI and imports it on first use, so only a
command that talks to a cloud loads its SDK. A new adapter is one module, one row in
`registry.ADAPTERS`, a scheme in `uri.parse` and one subclass of the contract in
``tests/stores/``.
"""
