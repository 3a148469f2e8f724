"""Amazon S3, and servers that speak its protocol.

::

    store       the adapter; reading: gets, heads and streams; listing: pages of a bucket
    config      endpoint and region; plain: static keys, found without the SDK
    connection  the SDK's session and clients; sdk_http: sends their requests within bounds
    direct      plain requests without the SDK's client; direct_settings: what they follow
    direct_http sends them by urllib3; signing: signatures
    conditions  ETags and conditions; versions: versions of objects
    multipart   large objects in one go; uploads: uploads that survive the process
    presign     signed URLs; access: which credentials are in use
    errors      the SDK's errors in lakecli's words
"""
