"""Azure Blob Storage.

::

    store        the adapter
    client       the requests of Azure's SDK, and how it is set up; importing it loads the SDK
    credentials  of a storage account, from the variables of Azure's tools, its endpoint, and the
                 URLs they sign
    names        names of blobs and their order, keys of their metadata, and their versions
    uploads      uploads in parts that outlive a process
    errors       the errors of Azure's SDK in lakecli's words

May import the modules of `lakecli.stores` and what is below, but no other adapter.
"""
