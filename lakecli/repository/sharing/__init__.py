"""What the verbs of sharing are made of: how refs and commits go to the bucket, and come.

publish      the one way a ref moves in the bucket; shareable: whether it may
unsent       moves made here that are to be sent, where sharing is automatic
intents      moves that were begun; pending: finishing them; under_way:
             what a commit that is being sent needs to stay
tracking     what was seen in the bucket; rollback: that it went back in time
packing      commits out; incoming: commits in; references: what they need; restoring: sending that
             again
"""
