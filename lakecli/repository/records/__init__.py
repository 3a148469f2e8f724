"""What a clone records of its repository, and what all rooms below the verbs speak of.

::

    clones        repository records in the local store
    namespace     ``repository.json``, by which a repository claims its storage namespace
    commits       how a commit record is made
    ref_changes   changes of refs: how the operation log records them, what they change here besides
                  the ref, and what the bucket is still to get
"""
