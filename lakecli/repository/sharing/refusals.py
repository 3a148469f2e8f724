"""Errors for moves in the bucket that would undo or delete what others did."""

from __future__ import annotations

from lakecli.base.model import CommitId, RefKind
from lakecli.errors import AlreadyExists, LakeError, LostRace
from lakecli.repository.core.lake import Repository


class NonFastForward(LostRace):
    """The bucket has commits on the branch that this clone's branch does not reach."""


class StaleLease(LostRace):
    """The ref does not stand where a forced push expected it."""


def stale(repository: Repository, name: str, commit_id: CommitId | None) -> StaleLease:
    """Return the error for a ref that does not stand in the bucket where it was expected."""
    where = "was deleted" if commit_id is None else f"stands on {commit_id}"
    return StaleLease(
        f"{name} is not where it was expected in the bucket: it {where}",
        hint=f"fetch what is there, then decide again: lakecli fetch {repository.uri}",
    )


def refused(
    repository: Repository,
    kind: RefKind,
    name: str,
    *,
    before: CommitId | None,
    after: CommitId | None,
) -> LakeError:
    """Return the error for a move that would undo or delete what others did.

    Args:
        repository: the repository of the ref.
        kind: a branch or a tag.
        name: the name of the ref.
        before: its position in the bucket; ``None``: it was deleted there.
        after: the position it should have; ``None``: it should be deleted.
    """
    if after is None:
        return stale(repository, name, before)
    uri = f"{repository.uri}/{name}"
    if before is None:
        return NonFastForward(
            f"{kind} {name} was deleted in the bucket",
            hint=f"it is kept on this machine; restore it in the bucket: lakecli push {uri}",
        )
    if kind is RefKind.TAG:
        return AlreadyExists(
            f"tag {name} is in the bucket already, at {before}",
            hint="push with --force-with-lease moves the tag for everybody",
        )
    return NonFastForward(
        f"the bucket has commits on {name} that are not here; it stands on {before}",
        hint=f"merge them first: lakecli pull {uri}",
    )
