"""What this clone has done and the bucket does not have, or may not have, yet.

::

    tracking        where the refs in the bucket stood when it last read them
    clock           this machine's clock, compared with that of the store
    operations      appending to the operation log
    staging_tokens  which branch a staging area belongs to
    branch_moves    what moving a branch changes here, in one transaction
    unsent          notes of refs that are still to move in the bucket; which may be deleted there
    intents         moves in the bucket whose outcome is not recorded, and finishing them
    under_way       commits and pushes on their way, and commands that would take them back
"""
