"""From where in the bucket a branch or tag may be deleted that is deleted here.

As `git push --force-with-lease` deletes a branch: if it still stands where this clone last saw it.
More is required, since a fetch may have run that nobody looked at: the branch here reaches that
position, so whoever deletes it had all that is lost. A tag stands there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakecli.base.model import CommitId, RefKind
from lakecli.errors import LostRace
from lakecli.kv.bucket import TrackingStore
from lakecli.kv.env import ReadTransaction
from lakecli.kv.operations import RefChange
from lakecli.refs.graph import is_ancestor
from lakecli.refs.ref_store import RefStore
from lakecli.repository.core.ref_changes import commit_of

if TYPE_CHECKING:
    from lakecli.repository.core.lake import Repository
    from lakecli.repository.core.unsent import Unsent


def find(txn: ReadTransaction, repository: Repository, deletion: RefChange) -> CommitId | None:
    """Return the position in the bucket that a ref may be deleted from, or ``None``.

    Args:
        txn: the state of the local store, before the deletion or in it.
        repository: the repository of the ref.
        deletion: of the ref, here.
    """
    there, here = _there(txn, repository, deletion), commit_of(deletion.before)
    if there is None or here is None or there == here:
        return None if here is None else there
    if deletion.kind is RefKind.BRANCH and is_ancestor(RefStore(txn, repository.key), there, here):
        return there
    return None


def check(
    txn: ReadTransaction, repository: Repository, deletion: RefChange, noted: Unsent | None
) -> None:
    """Refuse to delete a ref here that could not be deleted in the bucket after it.

    Args:
        txn: as of `find`.
        repository: the repository of the ref.
        deletion: of the ref, here.
        noted: earlier moves of the ref that are still to be sent.

    Raises:
        LostRace: naming the position in the bucket.
    """
    there = _there(txn, repository, deletion)
    if there is None or find(txn, repository, deletion) is not None:
        return
    if noted is not None and there in (noted.before, noted.lease):
        return
    name = deletion.name
    what = (
        f"the bucket has commits on {name} that are not here; it stands on {there}"
        if deletion.kind is RefKind.BRANCH
        else f"tag {name} is at {there} in the bucket, and elsewhere here"
    )
    raise LostRace(
        f"{what}; nothing was changed",
        hint="if nobody needs it, delete it in the bucket first: "
        f"lakecli push --delete {repository.uri}/{name}",
    )


def _there(txn: ReadTransaction, repository: Repository, deletion: RefChange) -> CommitId | None:
    return TrackingStore(txn, repository.key).position(RefKind(deletion.kind), deletion.name)
