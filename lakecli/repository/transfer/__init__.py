"""What uploads and downloads are made of.

walk, content_types     files found, and what they are
selection, parallel     patterns; many at once, in bounded memory
ingest, send            bytes in, read once and sent in parts; leftovers of which are dropped
destination, receive    files written, and fetched in parts
"""
