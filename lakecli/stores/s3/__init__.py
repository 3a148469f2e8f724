"""Amazon S3, and servers that speak its protocol.

::

    store            the adapter of Amazon S3, and of servers that speak its protocol
    reading          reading objects from S3: whole, in part, and as files
    listing          listings of a bucket
    config           endpoint, region and addressing style, from the places that AWS's tools read
    connection       what the requests of one S3 store share
    sdk_http         sends the SDK's requests by its own HTTP client
    direct           plain requests to S3 without the SDK's client, signed by Signature Version 4
    direct_settings  what direct requests follow
    direct_http      sends direct requests by `urllib3`
    versions         conditions and versions of objects, as S3 has them
    uploads          uploads in parts, on S3: of streams, and those that outlive a process
    presign          signed URLs for S3, computed without a request, a service model or a client
    access           describes the AWS credentials in use, and where the SDK found them
    errors           the S3 SDK's errors in lakecli's words
"""
