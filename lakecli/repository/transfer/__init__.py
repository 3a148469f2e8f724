"""What uploads and downloads are made of.

content_types           the content type of a file
selection, parallel     patterns; many at once, in bounded memory
ingest, send            bytes in, read once and sent in parts; leftovers of which are dropped
destination, receive    files written, and fetched in parts
"""
