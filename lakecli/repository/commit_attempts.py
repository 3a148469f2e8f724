"""The protocol by which commit, merge, revert and cherry-pick add a commit to a branch.

1. **Seal** the staging area, if its changes are to be committed: new writes go to a fresh staging
   token, which records the head of that moment.
2. **Build** the tree from the head and the sealed changes. Its ranges and its metarange are in the
   storage namespace, durably, before anything refers to them.
3. **Move** the branch, only if it still has the state from which the commit was built (head commit,
   exactly these sealed tokens), and append the operation in the same transaction of the local
   store.

If sharing is automatic, `lakecli.repository.sharing.automatic.SharedMover` does step 3: it writes
the commit and an intent, which contains the `LocalMove`, to the local store; moves the branch in
the bucket by compare-and-set, which makes the commit durable for everybody; and moves the local
branch in the transaction that deletes the intent. A crash before the bucket's reply leaves the
intent. The next command reads from the bucket whether the branch moved, and completes or discards
the move (`lakecli.repository.journal.intents`, the only module that does so).

A command that needs a branch without uncommitted changes seals the staging area as well. The sealed
records must be equal to the head, and step 3 removes their tokens: records that were staged before
a move have no effect after the move.

A commit of a working directory (`attempt_on_top`) has no step 1: its changes are not staged, and
staged changes stay on the branch.

A commit of only some staged changes copies the remaining changes to a new area before step 3
(`lakecli.repository.staged.partial_commit`).

The store's write lock is held in steps 1 and 3 only. A crash between two steps leaves garbage, but
never damage: sealed changes stay visible on the branch, and the same command commits them later. If
the branch has changed before step 3, the command builds the commit again on the new head. So a verb
is a loop over attempts::

    for _ in range(MAX_ATTEMPTS):
        attempt = clean_attempt(repository, name, kind="merge")  # 1: seal
        with attempt.view() as view:                             # 2: build
            draft = ...
        commit = attempt.move(draft)                             # 3: move
        if commit is not None:
            return commit
    raise kept_moving(name)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Final, NamedTuple

from lakecli.base.ids import CommitId
from lakecli.base.layout import MAX_MESSAGE_SIZE, MAX_METADATA_SIZE
from lakecli.base.model import EMPTY_TREE, NO_METADATA, Branch, Commit, MetarangeId
from lakecli.errors import LostRace, UsageError
from lakecli.kv.bucket import LocalMove
from lakecli.kv.operations import LEFT, iter_operations
from lakecli.repository.contract import Repository
from lakecli.repository.guard import ClaimedCommit
from lakecli.repository.journal import hooks, intents, operation_log
from lakecli.repository.journal.operation_log import is_built_from
from lakecli.repository.policy.early import check_early
from lakecli.repository.reading.view import View, branch_at, view_of_branch
from lakecli.repository.staged.changes import check_clean
from lakecli.repository.staged.partial_commit import StagedPart, copy_rest, drop_copies
from lakecli.staging import area

MAX_ATTEMPTS: Final = 64

_NO_ID: Final = CommitId("0" * 64)


class Draft(NamedTuple):
    """A commit before it has an ID.

    Attributes:
        parents: the parents, first parent first; `lakecli.repository.guard` has claimed them.
        created_at: the date of the commit; ``None``: now.
        also_counts: commits that are not parents, but count for the generation.
    """

    metarange_id: MetarangeId
    parents: Sequence[ClaimedCommit]
    message: str
    committer: str
    metadata: Mapping[str, str] = NO_METADATA
    created_at: datetime | None = None
    also_counts: Sequence[Commit] = ()


def staged_attempt(repository: Repository, name: str, *, last: Attempt | None, who: str) -> Attempt:
    """Seal the staged changes of a branch, and return an attempt to commit them.

    Args:
        last: the previous attempt, which did not move the branch; ``None`` for the first attempt.
        who: the committer.

    Raises:
        NotFound: no such branch.
        LostRace: another commit contains the staged changes.
        Forbidden: the rules of the bucket forbid the commit.
    """
    check_early(repository, name, who=who)
    branch = seal(repository, name)
    gone = frozenset(() if last is None else last.branch.sealed_tokens)
    if gone and gone.isdisjoint(branch.sealed_tokens):
        _check_not_committed(repository, branch, gone)
    return Attempt(repository, branch, "commit", from_staging=True)


def seal(repository: Repository, name: str) -> Branch:
    """Seal a branch's staging area if anything is in it, and return the branch.

    Raises:
        NotFound: no such branch.
    """
    repository.lake.runtime.on_step("seal")
    with repository.lake.kv.write() as txn:
        branch = branch_at(repository, txn, name)
        if not area.is_empty(txn, branch.staging_token):
            token = operation_log.start_token(txn, repository, name, branch.commit_id)
            branch = branch._replace(staging_token=token, sealed_tokens=branch.tokens)
            repository.refs(txn).put_branch(branch)
        return branch


def _check_not_committed(repository: Repository, branch: Branch, gone: frozenset[bytes]) -> None:
    """Raise an error if another commit contains the staged changes that this command had sealed.

    If some changes were discarded or undone instead, the remaining changes are committed.

    Raises:
        LostRace: another commit contains the changes; the message names the head.
    """
    with repository.lake.kv.read() as txn:
        log = iter_operations(txn, repository.key)
        took = next((each for each in log if not gone.isdisjoint(each.sealed)), None)
    if (
        took is not None
        and took.kind == "commit"
        and LEFT not in took.metadata
        and any(change.moves_commit for change in took.refs)
    ):
        what = f"another commit took the staged changes of {branch.name}: {branch.commit_id}"
        raise LostRace(what, hint=f"show it: `show commit {repository.uri}/{branch.commit_id}`")


def clean_attempt(
    repository: Repository, name: str, *, kind: str, who: str = "", merges: bool = False
) -> Attempt:
    """Return an attempt to commit on a branch that has no uncommitted changes.

    Staged records that are equal to the head do not count as changes; the move of the branch
    removes them. Changes that are staged meanwhile stay staged, on top of the new head.

    Args:
        kind: the kind of operation, as the log shows it.
        who: the committer.
        merges: whether the commit will have two parents.

    Raises:
        NotFound: no such branch.
        DirtyBranch: the branch has uncommitted changes.
        Forbidden: the rules of the bucket forbid the commit.
    """
    check_early(repository, name, who=who, merges=merges)
    return Attempt(repository, _seal_clean(repository, name), kind, from_staging=False)


def _seal_clean(repository: Repository, name: str) -> Branch:
    """Seal the staging area of a branch without uncommitted changes; return the branch.

    If nothing is staged, nothing is written. A change that is staged between the check and the
    sealing is sealed too, so `Attempt.view` checks again.
    """
    with repository.lake.kv.read() as txn:
        branch = branch_at(repository, txn, name)
        if area.is_empty(txn, branch.staging_token):
            return branch
        check_clean(view_of_branch(repository, txn, name))
    return seal(repository, name)


def attempt_on_top(repository: Repository, name: str, *, kind: str, who: str = "") -> Attempt:
    """Return an attempt to commit that leaves the staged changes of a branch staged.

    The caller refuses to commit paths that have staged changes. Staged records that equal the
    present head would hide changes of the commit; `lakecli.repository.staged.changes.unstage_equal`
    removes these records.

    Raises:
        NotFound: no such branch.
        Forbidden: the rules of the bucket forbid the commit.
    """
    check_early(repository, name, who=who)
    with repository.lake.kv.read() as txn:
        branch = branch_at(repository, txn, name)._replace(sealed_tokens=())  # they stay staged
    return Attempt(repository, branch, kind, from_staging=False)


def kept_moving(name: str) -> LostRace:
    """Return the error for a branch that moved during each of `MAX_ATTEMPTS` attempts."""
    what = f"branch {name} moved {MAX_ATTEMPTS} times while this was built"
    return LostRace(what, hint="try again")


class Attempt(NamedTuple):
    """One attempt to move a branch to a commit built from its head.

    Attributes:
        branch: the branch as it was when the attempt began, with the sealed staging tokens that the
            move removes.
        kind: the kind of operation, as the log shows it.
        from_staging: whether the commit contains the sealed changes.
    """

    repository: Repository
    branch: Branch
    kind: str
    from_staging: bool

    @contextmanager
    def sealed_view(self) -> Iterator[View]:
        """Open the head of the branch with the sealed changes on top."""
        repository, branch = self.repository, self.branch
        repository.lake.runtime.on_step("build")
        with repository.lake.kv.read() as txn:
            head = repository.refs(txn).get_commit(branch.commit_id)
            yield View(repository, txn, head, branch.sealed_tokens, branch.name)

    @contextmanager
    def view(self) -> Iterator[View]:
        """Open the head of the branch without staged changes.

        Raises:
            DirtyBranch: the sealed staging areas contain changes.
        """
        with self.sealed_view() as view:
            if view.tokens:
                check_clean(view)
            yield View(view.repository, view.txn, view.commit, (), view.name)

    def move(
        self,
        draft: Draft,
        *,
        only: StagedPart | None = None,
        review: Callable[[Commit], None] | None = None,
    ) -> Commit | None:
        """Move the branch, in the bucket first if sharing is automatic; return the commit.

        Args:
            only: the sealed changes that the move removes from staging; all other sealed changes
                stay staged. ``None``: the move removes all of them.
            review: called with the commit before the branch moves; raises an error to refuse it.

        Returns:
            The commit; ``None`` if the branch has changed meanwhile, so that the commit must be
            built again.

        Raises:
            UsageError: message, committer or metadata are not UTF-8.
            HookFailed: a hook refuses the commit.
            CommitUnderWay: another process is sending a commit of the branch to the bucket.
            LakeError: any error of `BranchMover.move`.
        """
        repository, branch = self.repository, self.branch
        lake = repository.lake
        if len({parent.id for parent in draft.parents}) < len(draft.parents):
            raise ValueError(f"a commit on {branch.name} would have one parent twice")
        check_texts(draft)
        left = () if only is None else copy_rest(repository, branch, only)
        dated = draft._replace(created_at=draft.created_at or lake.runtime.now())
        commit = describe_commit(**dated._asdict())
        what = "merge" if self.kind == "merge" else "commit"
        event = {"branch": branch.name, "before": branch.commit_id, "commit": commit}
        if review is not None or repository.hooks:
            try:
                hooks.offer(repository, commit)
                lake.runtime.on_step("review")
                if review is not None:
                    review(commit)
                hooks.ask(repository, what, **event)
            except BaseException:
                drop_copies(repository, name=branch.name, tokens=left)
                raise
        landing = LocalMove(self.kind, branch.sealed_tokens, self.from_staging, left)
        if repository.mover is None:
            has_moved = intents.land(repository, branch, commit, landing)
        else:
            has_moved = repository.mover.move(repository, branch, commit, landing)
        if not has_moved:
            drop_copies(repository, name=branch.name, tokens=left)
            return None
        lake.runtime.on_step("tidy")
        lake.tidy(repository)
        hooks.tell(repository, what, **event)
        return commit

    def unseal(self) -> bool:
        """Restore the staging area from before the attempt, because there is nothing to commit.

        The area stays sealed if something was staged meanwhile, or if a commit of the sealed
        changes is being sent to the bucket. The next move of the branch removes records that change
        nothing.

        Returns:
            Whether the branch is unchanged since the attempt began; if it has changed, it may have
            changes to commit now.
        """
        repository, branch, sealed = self.repository, self.branch, self.branch.sealed_tokens
        if not sealed:
            return True
        repository.lake.runtime.on_step("unseal")
        with repository.lake.kv.write() as txn:
            refs = repository.refs(txn)
            before = refs.find_branch(branch.name)
            if before is None or not is_built_from(before, branch.commit_id, sealed):
                return False
            if before == branch and area.is_empty(txn, before.staging_token):
                with suppress(intents.CommitUnderWay):
                    intents.check_none_sent(txn, repository, branch.name)
                    opened = branch._replace(staging_token=sealed[0], sealed_tokens=sealed[1:])
                    refs.put_branch(opened)
                    operation_log.forget_token(txn, before.staging_token)
        return True


def check_texts(draft: Draft) -> None:
    """Raise an error if other clones would reject a text of a new commit.

    Raises:
        UsageError: a text is not UTF-8, or too long.
    """
    pairs = [text for pair in draft.metadata.items() for text in pair]
    size = _size("message", [draft.message])
    if size > MAX_MESSAGE_SIZE:
        hint = f"a message has {MAX_MESSAGE_SIZE:,} bytes at most: put the rest into an object"
        raise UsageError(f"a commit message of {size:,} bytes", hint=hint)
    size = _size("committer", [draft.committer]) + _size("metadata", pairs)
    if size > MAX_METADATA_SIZE:
        hint = f"they have {MAX_METADATA_SIZE:,} bytes at most: put the rest into an object"
        raise UsageError(f"a committer and metadata of {size:,} bytes", hint=hint)


def _size(what: str, texts: Sequence[str]) -> int:
    try:
        return sum(len(text.encode("utf-8")) for text in texts)
    except UnicodeEncodeError as error:
        hint = "write it in UTF-8, as a terminal with a UTF-8 locale does"
        if what == "committer":
            hint = "set user.name and user.email: `config set user.name NAME`"
        message = f"the {what} of a commit has to be UTF-8: {error.object!r}"
        raise UsageError(message, hint=hint) from None


def describe_commit(
    *,
    parents: Sequence[Commit] = (),
    also_counts: Sequence[Commit] = (),
    metarange_id: MetarangeId,
    message: str,
    committer: str = "",
    created_at: datetime,
    metadata: Mapping[str, str] = NO_METADATA,
) -> Commit:
    """Return a commit with its ID and generation; used to make new commits and to verify commits.

    Args:
        parents: the parents, first parent first.
        also_counts: commits that are not parents, but count for the generation, such as the source
            of a squash merge.
        message: the message, stored as given.
        committer: the committer, stored as given.
        created_at: the date; the ID depends on whole seconds only.
        metadata: the user metadata, stored as given.
    """
    ids, metadata = tuple(parent.id for parent in parents), dict(metadata)
    generation = 1 + max((each.generation for each in (*parents, *also_counts)), default=0)
    made = Commit(_NO_ID, ids, metarange_id, message, committer, created_at, metadata, generation)
    return made._replace(id=made.compute_id())


def initial_commit(created_at: datetime) -> Commit:
    """Return the first commit of a repository, with an empty tree, as lakeFS creates it."""
    message = "Repository created"
    return describe_commit(metarange_id=EMPTY_TREE, message=message, created_at=created_at)
