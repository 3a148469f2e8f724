"""Azure Blob Storage.

::

    store        the adapter
    client       the requests of Azure's SDK, and how it is set up; importing it loads the SDK
    credentials  credentials and endpoint of a storage account, and the signing of URLs
    names        names of blobs and their order, keys of their metadata, and their versions
    uploads      multipart uploads, which another process can resume
    errors       converts the errors of Azure's SDK to lakecli's

This package may import the modules of `lakecli.stores` and the layers below, but no other adapter.
"""
