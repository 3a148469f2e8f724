"""Create, list, show, delete and reset branches.

Functions that change branches import some modules only when they are called, so that scripts that
only list branches start faster.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lakecli.base.model import Branch, CommitId, RefKind
from lakecli.errors import AlreadyExists, DirtyBranch, LostRace, Refused
from lakecli.kv.local_store import ReadTransaction, Table
from lakecli.refs.graph import is_ancestor
from lakecli.refs.names import check_branch_name
from lakecli.refs.ref_store import RefStore
from lakecli.repository.contract import Repository
from lakecli.repository.reading.view import branch_at, commit_at, view_of_branch

if TYPE_CHECKING:
    from lakecli.repository.guard import ClaimedCommit


def create(repository: Repository, name: str, *, source: str) -> Branch:
    """Create a branch at the commit that `source` names; uncommitted changes are not copied.

    Raises:
        UsageError: the name or the expression is illegal.
        NotFound: `source` does not name a commit.
        Gone: the tree of that commit is no longer in the bucket.
        AlreadyExists: a branch or a tag has this name.
    """
    from lakecli.repository.journal import operation_log, unsent_moves

    check_branch_name(name)
    commit = claim_ref(repository, source)
    with repository.lake.kv.write() as txn:
        check_free(repository.refs(txn), name)
        branch = operation_log.new_branch(txn, repository, name, commit.id)
        unsent_moves.move_ref(txn, repository, "branch create", None, branch)
    return branch


def claim_ref(repository: Repository, expression: str) -> "ClaimedCommit":
    """Return the commit that a ref expression names, claimed for a branch or a tag.

    Raises:
        UsageError: the expression is malformed, or names a staging area.
        NotFound: the expression names nothing, or is ambiguous.
        Gone: the tree of the commit is no longer in the bucket.
        SweepRunning: garbage collection is deleting objects, and did not end in time.
    """
    from lakecli.repository.guard import claim_target

    with repository.lake.kv.read() as txn:
        return claim_target(txn, repository, commit_at(repository, txn, expression))


def check_free(refs: RefStore, name: str) -> None:
    """Raise an error if a branch or tag named `name` exists.

    Commits need no check, because a commit ID is not a legal name.

    Raises:
        AlreadyExists: there is a branch or tag of this name.
    """
    if refs.find_branch(name) is not None:
        raise AlreadyExists(f"branch {name} exists already", hint="choose another name")
    if refs.find_tag(name) is not None:
        raise AlreadyExists(f"a tag has the name {name}", hint="choose another name")


def iter_branches(repository: Repository, *, prefix: str = "", after: str = "") -> Iterator[Branch]:
    """Yield branches ordered by name, starting with the first name after `after`."""
    with repository.lake.kv.read() as txn:
        yield from repository.refs(txn).iter_branches(prefix=prefix, after=after)


def is_shared(repository: Repository) -> bool:
    """Return whether this clone has ever seen a ref in the repository's bucket."""
    with repository.lake.kv.read() as txn:
        return next(txn.scan_keys(Table.TRACKING, prefix=repository.key), None) is not None


def show(repository: Repository, name: str) -> Branch:
    """Return a branch by name.

    Raises:
        NotFound: no such branch.
    """
    with repository.lake.kv.read() as txn:
        return branch_at(repository, txn, name)


def delete(repository: Repository, name: str) -> Branch:
    """Delete a branch and its staged changes; the operation log can restore both.

    Raises:
        NotFound: no such branch.
        Refused: it is the default branch.
        LostRace: sharing is automatic, and the branch in the bucket has commits that this machine
            lacks.
        CommitUnderWay: another process is sending a commit of the branch to the bucket.
    """
    from lakecli.repository.journal import intents, unsent_moves

    def act() -> Branch:
        with repository.lake.kv.write() as txn:
            branch = _not_default(repository, txn, name, "delete")
            intents.check_none_sent(txn, repository, name)
            unsent_moves.move_ref(txn, repository, "branch delete", branch, None)
        return branch

    repository.lake.runtime.on_step("delete")
    return intents.when_none_under_way(repository, act)


def check_delete(repository: Repository, name: str) -> Branch:
    """Return the branch if `delete` would delete it; otherwise raise the error of `delete`.

    Raises:
        NotFound: no such branch.
        Refused: it is the default branch.
        LostRace: as raised by `delete`.
    """
    with repository.lake.kv.read() as txn:
        branch = _not_default(repository, txn, name, "delete")
        if repository.syncs:
            from lakecli.repository.journal.operation_log import ref_change
            from lakecli.repository.journal.unsent_moves import check_deletion

            check_deletion(txn, repository, ref_change(branch, None))
        return branch


def _not_default(repository: Repository, txn: ReadTransaction, name: str, verb: str) -> Branch:
    branch = branch_at(repository, txn, name)
    if name == repository.record.default_branch:
        hint = f"make another branch of it: `branch create {repository.uri}/NAME --source {name}`"
        if verb == "delete":
            hint = f"it stays as long as its repository: `repo delete {repository.uri}`"
        raise Refused(f"cannot {verb} the default branch {name}", hint=hint)
    return branch


def reset(
    repository: Repository,
    name: str,
    *,
    to: str | None = None,
    expected: CommitId | None = None,
    is_forced: bool = False,
) -> Branch:
    """Discard everything uncommitted on a branch; with `to`, also move the branch.

    Undo restores the changes and the head. If there is nothing to discard and the branch does not
    move, no operation is recorded. If another process is building a commit of the branch, and has
    not sent it to the bucket yet, it builds the commit again on the new head, without the discarded
    changes.

    Args:
        to: a ref expression of any commit, the new head; ``None``: the present head.
        expected: reset only if this is the present head; ``None``: reset in any case.
        is_forced: with automatic sharing, allow a new head that lacks commits of the branch in the
            bucket.

    Raises:
        LostRace: the head is not the expected commit.
        Refused: sharing is automatic, `is_forced` is not set, and the new head lacks commits that
            the branch has in the bucket.
        UsageError: `to` is malformed, or names a staging area.
        NotFound: no such branch, or `to` does not name a commit.
        Gone: the tree of that commit is no longer in the bucket.
        CommitUnderWay: another process is sending a commit of the branch to the bucket.
    """
    from lakecli.repository.journal import intents, operation_log, unsent_moves
    from lakecli.staging import area

    target = None if to is None else claim_ref(repository, to).id

    def act() -> Branch:
        with repository.lake.kv.write() as txn:
            before = branch_at(repository, txn, name)
            if expected not in (None, before.commit_id):
                what = f"branch {name} has moved meanwhile, to {before.commit_id}"
                raise LostRace(what, hint=f"see what was done: `op log {repository.uri}`")
            head = target or before.commit_id
            if head == before.commit_id and area.is_clean(txn, before):
                return before
            intents.check_none_sent(txn, repository, name)
            if head != before.commit_id:
                if repository.syncs and not is_forced:
                    _check_forward(txn, repository, name, head)
                intents.check_none_taken_back(txn, repository, RefKind.BRANCH, name, to=head)
            after = operation_log.new_branch(txn, repository, name, head)
            unsent_moves.move_ref(txn, repository, "branch reset", before, after)
        return after

    repository.lake.runtime.on_step("reset")
    return intents.when_none_under_way(repository, act)


def _check_forward(txn: ReadTransaction, repository: Repository, name: str, head: CommitId) -> None:
    """Raise `Refused` if a new head lacks commits that the branch has in the bucket."""
    there = repository.tracking(txn).position(RefKind.BRANCH, name)
    if there is not None and not is_ancestor(repository.refs(txn), there, head):
        raise Refused(
            f"branch {name} is at {there} in the bucket, which {head} does not reach",
            hint="to move it there too, although others may have seen it: `lease=PushLease()`",
        )


def rename(
    repository: Repository, name: str, new_name: str, *, expected: CommitId | None = None
) -> Branch:
    """Give a branch another name, in one operation.

    Args:
        expected: a commit that must be the head or one of its ancestors; ``None``: no condition.

    Raises:
        LostRace: the expected commit is neither the head nor one of its ancestors; or sharing is
            automatic, and the branch in the bucket has commits that this machine lacks.
        UsageError: the new name is illegal.
        NotFound: no such branch.
        AlreadyExists: a branch or a tag has the new name.
        Refused: it is the default branch.
        DirtyBranch: the branch has uncommitted changes.
        CommitUnderWay: another process is sending a commit or push of the branch to the bucket.
    """
    from lakecli.repository.journal import intents, operation_log, unsent_moves
    from lakecli.staging import area

    check_branch_name(new_name)

    def act() -> Branch:
        with repository.lake.kv.write() as txn:
            before = _not_default(repository, txn, name, "rename")
            refs = repository.refs(txn)
            if expected is not None and not is_ancestor(refs, expected, before.commit_id):
                raise LostRace(
                    f"branch {name} has moved meanwhile, to {before.commit_id}", hint="try again"
                )
            check_free(refs, new_name)
            intents.check_none_sent(txn, repository, name)
            intents.check_none_taken_back(txn, repository, RefKind.BRANCH, name, to=None)
            # The operation log records staged changes under the old name.
            if not area.is_clean(txn, before):
                uri = f"{repository.uri}/{name}"
                hint = f"commit them, or discard them: `branch reset {uri}`"
                raise DirtyBranch(f"branch {name} has uncommitted changes", hint=hint)
            after = operation_log.new_branch(txn, repository, new_name, before.commit_id)
            ends = ((before, None), (None, after))
            changes = [operation_log.change_ref(txn, repository, *each) for each in ends]
            kind, sealed = unsent_moves.RENAME, before.tokens
            log = operation_log.append(txn, repository, kind=kind, refs=changes, sealed=sealed)
            unsent_moves.note(txn, repository, log)
        return after

    repository.lake.runtime.on_step("rename")
    return intents.when_none_under_way(repository, act)


def reset_prefix(repository: Repository, name: str, prefix: bytes) -> int:
    """Discard the uncommitted changes below a prefix, and return their number.

    Raises:
        NotFound: no such branch.
    """
    with repository.lake.kv.read() as txn:
        staged = view_of_branch(repository, txn, name).staged(prefix=prefix)
        paths = [path for path, _ in staged]
    return _restore(repository, name, paths)


def reset_object(repository: Repository, name: str, path: bytes) -> int:
    """Discard the uncommitted change of one path; return 1, or 0 if there is none.

    Raises:
        NotFound: no such branch.
    """
    with repository.lake.kv.read() as txn:
        is_staged = view_of_branch(repository, txn, name).staged_at(path) is not None
    return _restore(repository, name, [path] if is_staged else [])


def _restore(repository: Repository, name: str, paths: list[bytes]) -> int:
    """Unstage paths; return their number.

    If a sealed staging area also has a change of a path, the committed entry is staged over it.
    """
    from lakecli.repository.staged.stager import Stager

    repository.lake.runtime.on_step("unstage")
    Stager(repository, name, unstages=True).unstage(paths)
    return len(paths)
