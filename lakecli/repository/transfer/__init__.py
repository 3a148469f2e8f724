"""What uploads and downloads are made of.

content_types           the content type of a file
selection, plan         patterns; what a transfer would do, and its totals
parallel                many objects at once, in bounded memory
ingest, ingested, send  files and streams brought in, and large files sent in parts
copying                 large files copied into a directory
expected                recognising what the branch has at a path already
readers, leftovers      verified reading; uploads in parts that were abandoned
destination, partial    files written below a directory, and files filled in any order
receive                 large objects fetched in parts
"""
