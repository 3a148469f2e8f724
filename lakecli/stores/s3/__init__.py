"""Amazon S3, and servers with the same protocol.

::

    store            the adapter
    reading          the adapter's methods that list, and that read objects, parts and versions
    direct_requests  plain requests without the SDK's client, signed by Signature Version 4
    direct_http      sends direct requests
    connection       what the requests of one store share: settings, credentials, clients and clock
    settings         endpoint, region and static keys, from the places that AWS's tools read
    client           the SDK's client, which reads responses within limits
    uploads          multipart uploads, which another process can resume; streams and large copies
    signing          Signature Version 4: of URLs, and in the headers of requests
    errors           converts the SDK's errors to lakecli's

This package may import the modules of `lakecli.stores` and the layers below, but no other adapter.
"""
