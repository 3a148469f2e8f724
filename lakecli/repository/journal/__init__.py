"""What this clone has done, has begun, and is still to do in the bucket.

::

    tracking        where the refs in the bucket stood when it last read them
    operation_log   appending to the operation log, and a look at this machine's clock
    staging_tokens  which branch a staging area belongs to
    branch_moves    what moving a branch changes here, in one transaction
    unsent_moves    notes of refs that are still to move in the bucket; which may be deleted there
    intents         moves in the bucket whose outcome is not recorded: finishing them, and commands
                    that would take them back
"""
