"""Exchanging refs and commits with the bucket: what the verbs of sharing are made of.

::

    publish       new commits are sent to the bucket, then the ref moves there; its refusals
    references    the objects that new commits need are there, or are sent again
    fetch         where refs stand in the bucket, which have changed, and their commits
    set_policy    rules about refs are set for everybody, and taken back
    automatic     fetch before a command, branches that move in the bucket first, push after it:
                  moves made here that the bucket is still to get, and may get

May import `stored_objects` and what is below.
"""
