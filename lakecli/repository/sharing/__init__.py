"""Exchanging refs and commits with the bucket: what the verbs of sharing are made of.

::

    automatic      mover: fetch before a command, branches that move in the bucket first, push
                   after it; follow: local refs follow the bucket; notes: sending moves made here
    to the bucket  publish: the one way a ref moves in the bucket; shareable: whether it may;
                   packing: commits out; references: the objects that they need; restoring:
                   sending those again; refusals: moves that would undo others'
    to here        fetch: where refs stand in the bucket; remote_refs: which have changed;
                   unpacking: commits in; rollback: noticing that the bucket went back in time
    without clone  on_demand: a store of one handle, fetched when it is read; describe: which
                   repository a namespace holds
"""
