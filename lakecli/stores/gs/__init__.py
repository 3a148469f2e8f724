"""Google Cloud Storage.

::

    store        the adapter
    client       the requests of the SDK; importing this module loads the SDK
    credentials  application default credentials, the endpoint, and the signing of URLs
    generations  versions of objects, which are generations
    uploads      multipart uploads, which another process can resume
    errors       converts the SDK's errors to lakecli's

This package may import the modules of `lakecli.stores` and the layers below, but no other adapter.
"""
