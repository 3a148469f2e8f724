"""Azure Blob Storage.

::

    store      the adapter; reading: gets, heads and streams
    client     the SDK's requests; service: its client; login: credentials
    uploads    uploads in parts; presign: signed URLs; access: which credentials are in use
    listing    listings in byte order; names: what Azure cannot hold as it is
    versions   ETags and version IDs
    errors     the SDK's errors in lakecli's words
"""
