"""Azure Blob Storage.

::

    store      the adapter; client: the SDK; login: credentials; access: which are in use
    uploads    uploads in parts; presign: signed URLs
    listing    Azure's order of names made lakecli's; names: what Azure cannot hold as it is
    errors     the SDK's errors in lakecli's
"""
