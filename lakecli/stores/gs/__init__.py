"""Google Cloud Storage.

::

    store        the adapter; client: the SDK's requests; attempts: its retries
    credentials  application default credentials; access: which are in use
    key_file     the key of a service account, without the SDK
    streams      bodies; uploads: uploads in parts; presign: signed URLs
    errors       the SDK's errors in lakecli's words
"""
