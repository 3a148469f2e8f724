"""Google Cloud Storage.

::

    store        the adapter; client: the SDK's requests; attempts: its retries
    credentials  application default credentials; access: which are in use
    streams      bodies; uploads: uploads in parts; presign: signed URLs
    errors       the SDK's errors in lakecli's words
"""
