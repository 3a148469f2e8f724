"""The S3 protocol: signatures, bodies, conditions, listings, and the operations of an endpoint.

The protocol itself does no I/O::

    signature.py   verifies Signature Version 4, in headers and in URLs
    bodies.py      decodes and verifies the body of a request, piece by piece
    checksums.py   CRCs and digests of objects, and of the parts of an upload
    xml.py         reads and writes documents
    errors.py      S3's errors, and lakecli's errors as S3's
    conditions.py  If-Match and its like, and ranges

The operations are built on these modules::

    routes.py      finds the operation of a request; buckets, and fixed responses; errors
    listing.py     listings of objects, their parameters and tokens
    multipart.py   uploads in parts
    objects.py     reads, writes, copies and deletes objects
    parts.py       unfinished uploads; stores their parts and joins them
    call.py        a request and its body; responses
"""
