"""Rules about the refs in the bucket: what they are, and whether a move is allowed.

::

    document       a policy as its owners write it, parsed and validated
    rules          the rules that are in force, and those that this clone saw last
    judge          decides a move by them
    early          refuses work in vain, without loading the rules if there are none
    bucket_policy  what the permissions of a bucket can enforce of them, for one person

May import `contract` and what is below.
"""
