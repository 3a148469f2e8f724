"""Refuse a forbidden commit before it is built; load no rules if this clone has seen none."""

from lakecli.kv.bucket import SEEN_POLICY
from lakecli.kv.local_store import Table
from lakecli.repository.contract import Repository


def check_early(
    repository: Repository, branch: str, *, who: str = "", merges: bool = False
) -> None:
    """Refuse a commit on a branch that accepts only merges, or that this person may not move.

    In a repository without rules, only one row of the local store is read. Before a commit is
    refused, the rules are read again from the bucket, if the bucket can be reached.

    Args:
        branch: the name of the branch, or of a workspace on it.
        who: the committer; ``""``: not known yet.
        merges: whether the commit is a merge.

    Raises:
        Forbidden: a rule forbids the commit; the message names the rule, and who set it.
    """
    with repository.lake.kv.read() as txn:
        if not txn.get(Table.META, SEEN_POLICY + repository.key):
            return
    from lakecli.repository.policy.judge import refuse_early  # too slow to import for each command

    refuse_early(repository, branch.partition("*")[0], who, merges=merges)
