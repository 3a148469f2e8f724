"""Moving a branch: the one protocol that commit, merge, revert and cherry-pick go through.

1. **Seal** the staging area, where its changes are wanted: new writes go to a fresh token, which
   remembers the commit it was started on.
2. **Build** the tree from the head and the sealed changes. Its ranges and its metarange are in
   the storage namespace, durably, before anything refers to them.
3. **Move**: one transaction of the local store writes the commit, compares the branch with what
   was built from (head commit, exactly these sealed tokens), moves it and appends the operation.

A command that needs a branch without uncommitted changes seals it as well. What it seals has to be
equal to the head, and step 3 takes those tokens off: what was staged before a move never acts
after it.

The store's write lock is held in steps 1 and 3 only. A crash between any two leaves garbage, never
damage: sealed changes stay visible on the branch and the same command takes them up again.
Whoever loses the comparison builds again on the new head.

Where sharing is automatic, the branch moves in the bucket between steps 2 and 3, by a `Publisher`:
the bucket decides between machines, the comparison of step 3 between processes of this one. What
the bucket took and this machine could not finish is landed by the next command.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from lakecli.errors import LostRace, NothingToDo
from lakecli.refs.store import RefStore
from lakecli.repository.core import housekeeping, operations, staging_tokens
from lakecli.repository.core.clean import check_clean, seal_clean
from lakecli.repository.core.commit_record import check_text, make_commit
from lakecli.repository.core.under_way import check_none_sent, once_settled
from lakecli.repository.core.view import View, branch_at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from lakecli.kv.env import WriteTransaction
    from lakecli.model import Branch, Commit, CommitId, MetarangeId, StagingToken
    from lakecli.repository.core.commit_record import ClaimedCommit
    from lakecli.repository.core.lake import Repository

MAX_ATTEMPTS: Final = 64


@dataclass(frozen=True, slots=True)
class Draft:
    """A commit before it has an ID.

    Attributes:
        parents: first parent first; claimed, as `lakecli.repository.core.gate` does it.
        also_counts: commits that count for the generation without being parents.
    """

    metarange_id: MetarangeId
    parents: Sequence[ClaimedCommit]
    message: str
    committer: str
    created_at: datetime
    metadata: Mapping[str, str]
    also_counts: Sequence[Commit] = ()


class Publisher(Protocol):
    """Moves a branch in the bucket, before it moves here."""

    @property
    def id(self) -> bytes:
        """Random bytes that tell this command from others that run at the same time."""

    def publish(
        self,
        branch: Branch,
        commit: Commit,
        *,
        kind: str,
        sealed: tuple[StagingToken, ...],
        from_staging: bool,
    ) -> bool:
        """Move a branch in the bucket to a commit, and `land` it here; tell whether it moved.

        If it did not, somebody else moved it first, there or here: this machine's branch has
        followed by then, as far as it could.

        Args:
            branch: as it was built from.
            commit: to move to; not in the local store yet.
            kind: of the operation.
            sealed: the staging tokens that the commit holds the changes of.
            from_staging: whether its changes are those of the tokens, not of another commit.

        Raises:
            LostRace: the branch cannot follow: it has commits that were never pushed.
            OutcomeUnknown: the next command finds out.
            Unreachable: nothing was moved.
        """


class _BranchMoved(LostRace):
    """The comparison of step 3 failed; the branch is built again."""


def commit_staged(
    repository: Repository, name: str, build: Callable[[View], Draft], *, kind: str
) -> Commit:
    """Move a branch to a commit built from its head and its staging area.

    Args:
        repository: whose branch.
        name: of the branch.
        build: gets the head with the sealed changes on top; called again after a lost race.
        kind: of the operation, as the log shows it.

    Raises:
        UsageError: message, committer or metadata are not UTF-8.
        NotFound: no such branch.
        LostRace: another commit took the staged changes, or the branch kept moving.
    """
    taken_by_us: tuple[StagingToken, ...] = ()
    for _ in range(MAX_ATTEMPTS):
        branch = seal(repository, name)
        if taken_by_us and not set(taken_by_us) & set(branch.sealed_tokens):
            _check_not_committed(repository, branch, taken_by_us)
        taken_by_us = branch.sealed_tokens
        try:
            commit = _try(repository, branch, build, kind=kind, sealed=branch.sealed_tokens)
        except NothingToDo:
            if _discard_unchanged(repository, branch, kind=kind):
                raise
            continue
        if commit is not None:
            return commit
    raise _kept_moving(name)


def commit_clean(
    repository: Repository, name: str, build: Callable[[View], Draft], *, kind: str
) -> Commit:
    """Move a branch without uncommitted changes to a commit built from its head.

    Staged records that are equal to the head are no changes; the move takes them off the branch.
    What is staged while this runs stays staged, on top of the new head.

    Raises:
        UsageError: message, committer or metadata are not UTF-8.
        NotFound: no such branch.
        DirtyBranch: it has uncommitted changes.
        LostRace: the branch kept moving.
    """
    for _ in range(MAX_ATTEMPTS):
        branch = seal_clean(repository, name, seal)
        commit = _try(
            repository, branch, build, kind=kind, sealed=branch.sealed_tokens, must_be_clean=True
        )
        if commit is not None:
            return commit
    raise _kept_moving(name)


def _kept_moving(name: str) -> LostRace:
    return LostRace(
        f"branch {name} moved {MAX_ATTEMPTS} times while this was built", hint="try again"
    )


def seal(repository: Repository, name: str) -> Branch:
    """Seal a branch's staging area if anything is in it, and return the branch.

    Raises:
        NotFound: no such branch.
    """
    from lakecli.staging import area

    lake = repository.lake
    lake.runtime.on_step("seal")
    with lake.kv.write() as txn:
        refs = RefStore(txn, repository.key)
        branch = branch_at(repository, txn, name)
        if area.is_empty(txn, branch.staging_token):
            return branch
        sealed = replace(
            branch,
            staging_token=staging_tokens.start(txn, repository, name, branch.commit_id),
            sealed_tokens=(branch.staging_token, *branch.sealed_tokens),
        )
        refs.put_branch(sealed)
        return sealed


def _try(
    repository: Repository,
    branch: Branch,
    build: Callable[[View], Draft],
    *,
    kind: str,
    sealed: tuple[StagingToken, ...],
    must_be_clean: bool = False,
) -> Commit | None:
    """Build and move once; return ``None`` where the branch moved meanwhile."""
    lake = repository.lake
    lake.runtime.on_step("build")
    with lake.kv.read() as txn:
        head = RefStore(txn, repository.key).get_commit(branch.commit_id)
        view = View(repository, txn, commit=head, tokens=sealed, name=branch.name)
        if must_be_clean:
            check_clean(view)
            view = View(repository, txn, commit=head, tokens=(), name=branch.name)
        draft = build(view)
    check_text(message=draft.message, committer=draft.committer, metadata=draft.metadata)
    commit = make_commit(
        parents=draft.parents,
        generation_parents=[*draft.parents, *draft.also_counts],
        metarange_id=draft.metarange_id,
        message=draft.message,
        committer=draft.committer,
        created_at=draft.created_at,
        metadata=draft.metadata,
    )
    publisher = repository.publisher
    from_staging = not must_be_clean
    if publisher is not None and not publisher.publish(
        branch, commit, kind=kind, sealed=sealed, from_staging=from_staging
    ):
        return None
    if publisher is None:
        lake.runtime.on_step("move")

        def move(*, has_asked: bool) -> None:
            del has_asked
            with lake.kv.write() as txn:
                check_none_sent(txn, repository, branch.name, ignores_stale=True)
                _move(
                    txn,
                    repository,
                    branch,
                    commit,
                    kind=kind,
                    sealed=sealed,
                    from_staging=from_staging,
                )

        try:
            once_settled(repository, move)
        except _BranchMoved:
            return None
    lake.runtime.on_step("tidy")
    housekeeping.tidy(repository)
    return commit


def _check_not_committed(
    repository: Repository, branch: Branch, gone: Sequence[StagingToken]
) -> None:
    """Refuse to go on where another commit took the staged changes that this one had sealed.

    If they were thrown away or taken back instead, what is left is committed.

    Raises:
        LostRace: naming the head, which has them.
    """
    from lakecli.kv import operations as log

    taken = set(gone)
    with repository.lake.kv.read() as txn:
        for operation in log.iter_operations(txn, repository.key):
            if not taken.isdisjoint(operation.sealed):
                break
        else:
            return
    if any(operations.moves_commit(change) for change in operation.refs) and (
        operation.kind == "commit"
    ):
        raise LostRace(
            f"another commit took the staged changes of {branch.name}: {branch.commit_id}",
            hint=f"look at it: lakecli show commit {repository.uri}/{branch.commit_id}",
        )


def _discard_unchanged(repository: Repository, branch: Branch, *, kind: str) -> bool:
    """Take sealed areas off a branch that turned out to hold no change, as one operation.

    Left there, they would hide what a merge or a fetch brings later.

    Returns:
        Whether the branch still was as it was built from: if not, there may be changes now.
    """
    sealed = branch.sealed_tokens
    if not sealed:
        return True
    repository.lake.runtime.on_step("discard")
    with repository.lake.kv.write() as txn:
        refs = RefStore(txn, repository.key)
        before = refs.find_branch(branch.name)
        if before is None or not is_as_built(before, branch, sealed):
            return False
        after = replace(before, sealed_tokens=_newer_than(before, sealed))
        refs.put_branch(after)
        changes = [operations.branch_change(before, after)]
        operations.append(txn, repository, kind=kind, refs=changes, sealed=sealed)
    return True


def _move(
    txn: WriteTransaction,
    repository: Repository,
    built_from: Branch,
    commit: Commit,
    *,
    kind: str,
    sealed: tuple[StagingToken, ...],
    from_staging: bool,
) -> None:
    refs = RefStore(txn, repository.key)
    before = branch_at(repository, txn, built_from.name)
    if not is_as_built(before, built_from, sealed):
        raise _BranchMoved(f"branch {built_from.name} moved meanwhile")
    after = replace(before, commit_id=commit.id, sealed_tokens=_newer_than(before, sealed))
    refs.put_commit(commit)
    refs.put_branch(after)
    follow_head(txn, before, after, has_seen=from_staging)
    operations.append(
        txn, repository, kind=kind, refs=[operations.branch_change(before, after)], sealed=sealed
    )


def is_as_built(present: Branch, built_from: Branch, sealed: Sequence[StagingToken]) -> bool:
    """Tell whether a branch still is what a commit was built from: its head, and these tokens.

    Tokens sealed meanwhile are newer, so ours must still be the oldest ones.
    """
    return is_built_from(present, built_from.commit_id, sealed)


def is_built_from(present: Branch, head: CommitId, sealed: Sequence[StagingToken]) -> bool:
    """Tell the same as `is_as_built`, given the head that the commit was built on."""
    newer = _newer_than(present, sealed)
    return present.commit_id == head and (*newer, *sealed) == present.sealed_tokens


def _newer_than(branch: Branch, sealed: Sequence[StagingToken]) -> tuple[StagingToken, ...]:
    """Return the sealed tokens of a branch above its oldest ones, `sealed`."""
    return branch.sealed_tokens[: len(branch.sealed_tokens) - len(sealed)]


def land(
    txn: WriteTransaction,
    repository: Repository,
    commit: Commit,
    *,
    branch: str,
    kind: str,
    sealed: Sequence[StagingToken],
    from_staging: bool,
) -> None:
    """Move a branch here to a commit that it moved to in the bucket; repeating it does nothing.

    Another process may have followed the bucket meanwhile, or have gone on from there: then the
    branch stays, and only what the commit took is taken off it. So it does where it has gone
    elsewhere: the bucket has the commit, and `status` tells that they differ.

    Args:
        txn: the transaction to do it in.
        repository: whose branch.
        commit: that the bucket took; may be in the local store already.
        branch: its name.
        kind: of the operation, as the log shows it.
        sealed: the staging tokens that the commit holds the changes of.
        from_staging: whether its changes are those of the tokens, not of another commit.
    """
    refs = RefStore(txn, repository.key)
    before = refs.find_branch(branch)
    refs.put_commit(commit)
    if before is None:
        return
    taken = set(sealed)
    kept = tuple(token for token in before.sealed_tokens if token not in taken)
    moves = before.commit_id in commit.parents
    if not moves and kept == before.sealed_tokens:
        return
    head = commit.id if moves else before.commit_id
    after = replace(before, commit_id=head, sealed_tokens=kept)
    refs.put_branch(after)
    follow_head(txn, before, after, has_seen=from_staging)
    operations.append(
        txn,
        repository,
        kind=kind,
        refs=[operations.branch_change(before, after)],
        sealed=[token for token in before.sealed_tokens if token in taken],
        is_shared=True,
    )


def follow_head(
    txn: WriteTransaction, before: Branch, after: Branch, *, has_seen: bool = True
) -> None:
    """Count what stays staged on a branch as seen with its new head, where nothing came between.

    That is so for areas without changes, and for those that were written to on top of what has
    just been committed. Other changes keep the commit they were started on: committing them looks
    at what happened since. What is staged while a merge or an import runs has not seen its result.

    Args:
        txn: the transaction that moves the branch.
        before: the branch before.
        after: the branch now.
        has_seen: whether the new head holds only what staged changes could be written on top of.
    """
    from lakecli.staging import area

    for token in (after.staging_token, *after.sealed_tokens):
        if area.is_empty(txn, token):
            staging_tokens.move_on(txn, token, after.commit_id)
        elif has_seen:
            staging_tokens.move_on(txn, token, after.commit_id, since=before.commit_id)
