"""What a clone records of its repository, and what all rooms below the verbs speak of.

::

    clones        repository records in the local store
    namespace     ``repository.json``, by which a repository claims its storage namespace
    commits       how a commit record is made
    moves         moves of refs: what they change here, and what the bucket is still to get
    ref_changes   how the operation log records them
    notices       what verbs report beside their result
"""
