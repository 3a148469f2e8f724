"""Google Cloud Storage.

::

    store        the adapter of Google Cloud Storage
    client       the requests of Google Cloud Storage's SDK; importing this module loads the SDK
    credentials  application default credentials and the endpoint of Google's storage
    streams      bodies of requests to and responses of Google Cloud Storage
    uploads      uploads in parts that outlive a process, on Google Cloud Storage
    presign      signed URLs for Google Cloud Storage, by the V4 process
    errors       the errors of Google Cloud Storage's SDK in lakecli's words
    attempts     retries of the SDK of Google Cloud Storage, limited to a number of attempts
"""
