"""Object stores in buckets and directories, all with the protocol `contract.ObjectStore`.

::

    contract          the protocols of object stores and of a guard of objects; records and errors
    capabilities      what only some stores can do: multipart uploads, versions, their clock, …
    registry          finds the adapter of a URI's scheme; its module is imported when first needed
    uri               URIs of storage namespaces, in one canonical spelling
    streams           bodies of requests and responses
    presigned_urls    presigned URLs: what one permits, what all stores share, and V4 signing
    read_only         stores for reading only: a namespace, or one version of an object
    overlay           a namespace that others own, with changes in a directory on this machine
    responses         checks of a store's responses, and its clock by their ``Date`` header
    cloud_store       what the adapters of the clouds share, and the batch of parallel requests
    cloud_errors      how the adapters of the clouds convert an SDK's errors to lakecli's
    obstacles         why no request reaches a server: its certificate, or a proxy
    proxies           the proxy that the environment names, and connections through it
    answer_limits     how slowly a server may answer: a deadline, and a minimum rate for bodies
    bounded_requests  limits for responses that the SDKs receive through the package `requests`
    azure, gs, s3     the adapters of the clouds
    local             the adapter of a directory on this machine

`registry.open_store` finds the adapter of a namespace's URI and imports it on first use, so only a
command that uses a cloud loads its SDK. A new adapter is one package, one case in
`registry._open`, a scheme in `uri.parse` and one subclass of the contract in
``tests/stores/ADAPTER/test_store.py``. Adapters know nothing of each other.

This package may import `base` and the layers below.
"""
