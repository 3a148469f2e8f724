"""Google Cloud Storage.

::

    store        the adapter
    client       the requests of the SDK; importing this module loads the SDK
    credentials  application default credentials and the endpoint, found on first use
    presign      signed URLs, by the V4 process, and what signs them
    uploads      uploads in parts that outlive a process
    errors       the SDK's errors in lakecli's words
"""
