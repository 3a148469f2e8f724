"""Rules about the refs in the bucket: read them, and decide whether they allow a move.

::

    document       a policy as its owners write it, parsed and validated
    rules          the rules in force, and the rules that this clone saw last
    judge          decides whether the rules allow a move
    early          refuses a forbidden commit before it is built
    bucket_policy  permissions of a bucket by which the cloud enforces rules, for one person

This package may import `contract` and the layers below.
"""
