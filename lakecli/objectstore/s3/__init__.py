"""Amazon S3, and servers that speak its protocol.

::

    store       the adapter; config: the SDK's configuration and clients
    direct      plain requests without the SDK; plain: static keys found without the SDK
    conditions  ETags and conditions; streams: bodies; versions: versions of objects
    multipart   objects in parts; uploads: parts that survive the process
    presign     signed URLs; access: which credentials are in use
    errors      the SDK's errors in lakecli's
"""
