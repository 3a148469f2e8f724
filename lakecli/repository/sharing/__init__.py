"""Exchanging refs and commits with the bucket: what the verbs of sharing are made of.

::

    shareable     which repository a namespace holds; whether it can be read, written and shared
    publish       the one way a ref moves in the bucket, and its refusals
    references    the objects that new commits need are there, or are sent again
    packs         commits out and in
    fetch         where refs stand in the bucket, and which have changed
    rollback      noticing that the bucket went back in time
    automatic     fetch before a command, branches that move in the bucket first, push after it
    sending       moves made here that the bucket is still to get
    on_demand     a store of one handle, fetched when it is read, for reading without a clone
"""
