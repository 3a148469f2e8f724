"""Asking the rules before work is done in vain, without loading them if this clone saw none."""

from lakecli.kv.bucket import SEEN_POLICY
from lakecli.kv.local_store import Table
from lakecli.repository.contract import Repository


def check_early(
    repository: Repository, branch: str, *, who: str = "", merges: bool = False
) -> None:
    """Refuse a commit on a branch that takes only merges, or that this person may not move.

    Most repositories have no rules; then one row of the local store is read. Before a commit is
    refused, the bucket confirms the rules.

    Args:
        branch: the name of the branch, or of a workspace of it.
        who: who commits; ``""``: unknown yet.
        merges: whether the commit is a merge.

    Raises:
        Forbidden: a rule forbids it; the message names the rule, and who set it.
    """
    with repository.lake.kv.read() as txn:
        if not txn.get(Table.META, SEEN_POLICY + repository.key):
            return
    from lakecli.repository.policy.judge import refuse_early  # heavy for each command

    refuse_early(repository, branch.partition("*")[0], who, merges=merges)
