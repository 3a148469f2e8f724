"""Azure Blob Storage.

::

    store    the adapter of Azure Blob Storage
    reading  reading blobs: whole, in part, and as files; all bytes of one read are of one version
    listing  listing blobs in byte order
    client   the requests of Azure's SDK; importing this module loads the SDK
    service  the SDK's service client, as lakecli sets it up: credentials, connections and retries
    login    credentials and endpoint of a storage account
    uploads  uploads in parts that outlive a process, on Azure; see `lakecli.stores.capabilities`
    presign  signed URLs for Azure: shared access signatures of single blobs
    names    names of blobs, keys of their metadata, and their versions
    errors   the errors of Azure's SDK in lakecli's words
"""
