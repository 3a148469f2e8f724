"""Rules about the refs in the bucket: what they are, and whether a move is allowed.

- `document`: a policy as its owners write it, parsed and validated.
"""
