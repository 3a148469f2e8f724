"""What the verbs of sharing are made of: how refs and commits go to the bucket, and come.

publish      the one way a ref moves in the bucket; shareable: whether it may
rollback     noticing that the bucket went back in time
packing      commits out; incoming: commits in; references: what they need; restoring: sending that
             again
"""
