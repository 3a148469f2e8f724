"""The uncommitted changes of a branch, and staged conflicts: staged paths that others have changed.

Uncommitted changes are the differences between the staging area and the commit under it. A staging
area remembers the commit that it was started on. The head of the branch may have moved to a later
commit that another clone pushed. If the later commit changed a path that is staged, too, committing
the staged path would silently undo the other clone's change.

Staging may contain records that change nothing: objects staged with their committed contents, and
deletions of absent objects. A branch with only such records counts as clean. They must be removed
when the head moves: on top of the new head they would undo the changes between the two heads.

- A command that needs a clean branch seals the records, and removes them from the branch when it
  moves the branch (`lakecli.repository.commit_attempts`).
- A branch that follows the bucket keeps its uncommitted changes. Before it moves,
  `unstage_unchanged` removes the records that change nothing, if the new head changes their paths.
"""

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Final

from lakecli.base.model import Branch, Commit, CommitId, Difference, MetarangeId, StagingToken
from lakecli.committed.diff import diff
from lakecli.committed.point_reads import PointReader
from lakecli.committed.scan import type_of
from lakecli.committed.values import is_same
from lakecli.errors import DirtyBranch
from lakecli.kv.local_store import Record, WriteTransaction
from lakecli.refs.graph import is_ancestor
from lakecli.repository.contract import Repository
from lakecli.repository.reading.view import View, view_of_branch
from lakecli.staging import area
from lakecli.staging.area import TOMBSTONE
from lakecli.stores.streams import batches

MAX_LISTED: Final = 1_000
"""The largest number of uncommitted changes that an error lists."""

_BATCH: Final = 8_192
"""The number of paths unstaged in one transaction."""

BLOCKS_SIZE: Final = 8 << 20
"""The memory, in bytes, for decoded blocks of the committed tree while staging is compared."""


def uncommitted(view: View, start: bytes = b"", *, prefix: bytes = b"") -> Iterator[Difference]:
    """Yield the differences of a branch's staging area from its commit, in path order.

    A path staged with its committed content is not a difference. The staged deletion of a path that
    is not committed is not a difference, either.

    Args:
        start: the first path that is compared.
    """
    # Paths ascend, so few blocks are needed at a time, however much is staged.
    points = PointReader(view.repository.trees, blocks_limit=BLOCKS_SIZE)
    tree = view.commit.metarange_id
    for path, staged in area.scan_newest(view.txn, view.tokens, prefix=prefix, start=start):
        difference = compare_staged(path, points.find(tree, path), staged)
        if difference is not None:
            yield difference


def compare_staged(path: bytes, left: bytes | None, staged: bytes) -> Difference | None:
    """Return how a staged record differs from the committed value; ``None`` if it does not."""
    right = None if staged == TOMBSTONE else staged
    return None if is_same(left, right) else Difference(type_of(left, right), path, left, right)


def iter_staged_conflicts(view: View) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield (path, its value in the head) of each staged conflict, in path order.

    Paths staged identically to the head are ignored, and so are paths that were staged again after
    the head had moved.
    """
    from lakecli.repository.journal.operation_log import started_on

    refs, head = view.repository.refs(view.txn), view.commit
    areas = []
    for place, token in enumerate(view.tokens):
        started = started_on(view.txn, token)
        base = None if started is None else refs.find_commit(started)
        # After an undo the head may stand before the commit that the area was started on.
        if base is None or base.metarange_id == head.metarange_id:
            continue
        if is_ancestor(refs, base.id, head.id):
            areas.append(_conflicts(view, token, base, newer=view.tokens[:place]))
    # Each path comes from one area only: `_conflicts` skips paths that a newer area has, too.
    return merge(*areas, key=itemgetter(0))


def _conflicts(
    view: View, token: StagingToken, base: Commit, *, newer: tuple[StagingToken, ...]
) -> Iterator[tuple[bytes, bytes | None]]:
    changes = diff(view.repository.trees, base.metarange_id, view.commit.metarange_id)
    for path, there in iter_crossing(area.scan(view.txn, token), changes):
        if all(area.get(view.txn, each, path) is None for each in newer):
            yield path, there


def iter_crossing(
    staged: Iterator[Record], changes: Iterable[Difference], *, ignores_unchanged: bool = False
) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield (path, its value after the change) of changed paths that are staged with another value.

    Args:
        staged: (path, value or tombstone), in path order.
        changes: the changes in path order; not read if nothing is staged.
        ignores_unchanged: leave out paths that are staged with their value before the change.
    """
    for value, change in iter_both(staged, changes):
        if is_same(value, change.right) or (ignores_unchanged and is_same(value, change.left)):
            continue
        yield change.path, change.right


def iter_both(
    staged: Iterator[Record], changes: Iterable[Difference]
) -> Iterator[tuple[bytes | None, Difference]]:
    """Yield (staged value, change) of each path that is both staged and changed.

    A staged value of ``None`` is a deletion.

    Args:
        staged: (path, value or tombstone), in path order.
        changes: the changes in path order; not read if nothing is staged.
    """
    path, value = next(staged, (None, b""))
    if path is None:
        return
    for change in changes:
        while path is not None and path < change.path:
            path, value = next(staged, (None, b""))
        if path is None:
            return
        if path == change.path:
            yield value or None, change  # b"": a tombstone


def check_clean(view: View) -> None:
    """Refuse a branch with uncommitted changes.

    Raises:
        DirtyBranch: the branch has uncommitted changes; the error names at most `MAX_LISTED` paths.
    """
    changes = islice(uncommitted(view), MAX_LISTED + 1)
    paths = [difference.path for difference in changes]
    if not paths:
        return
    count = f"more than {MAX_LISTED:,}" if len(paths) > MAX_LISTED else f"{len(paths):,}"
    what = "an uncommitted change" if len(paths) == 1 else f"{count} uncommitted changes"
    uri = f"{view.repository.uri}/{view.name}"
    hint = f"commit them, or throw them away: `branch reset {uri}`"
    raise DirtyBranch(f"branch {view.name} has {what}", hint=hint, paths=paths[:MAX_LISTED])


def unstage_unchanged(repository: Repository, name: str, head: CommitId) -> None:
    """Remove staged records that equal the present head, at paths that a new head changes.

    The contents of the branch do not change. `undo` skips this operation, as it skips operations
    that follow the bucket.

    Args:
        name: the name of the branch; if it is absent or has nothing staged, nothing happens.
        head: the commit to which the branch is about to move.

    Raises:
        IntegrityError: a tree that had to be read is missing or damaged.
        CommitUnderWay: another process is sending a commit that has sealed some of the records.
    """
    with repository.lake.kv.read() as txn:
        there = repository.refs(txn).get_commit(head).metarange_id
    unstage_equal(repository, name, there)


def unstage_equal(repository: Repository, name: str, tree: MetarangeId) -> None:
    """Remove staged records that equal the present head, at paths that another tree changes.

    The arguments and errors are those of `unstage_unchanged`, with a tree instead of its commit.
    """
    with repository.lake.kv.read() as txn:
        branch = repository.refs(txn).find_branch(name)
        if branch is None:
            return
        view = view_of_branch(repository, txn, name)
        if view.commit.metarange_id == tree or view.is_clean():
            return
        changes = diff(repository.trees, view.commit.metarange_id, tree)
        unchanged = (
            (change.path, staged or b"")
            for staged, change in iter_both(view.staged(), changes)
            if is_same(staged, change.left)
        )
        for batch in batches(unchanged, _BATCH):
            repository.lake.runtime.on_step("unstage")
            with repository.lake.kv.write() as writing:
                if not _unstage(writing, repository, branch, batch):
                    return


def _unstage(
    txn: WriteTransaction, repository: Repository, seen: Branch, equal: list[Record]
) -> bool:
    """Remove staged records unless they have changed; return ``False`` if the head has moved."""
    # Imported here, because `status` does not need them, and scripts call it often.
    from lakecli.kv.operations import FOLLOWED, StagingChange, save_images
    from lakecli.repository.journal import intents, operation_log

    refs = repository.refs(txn)
    branch = refs.find_branch(seen.name)
    if branch is None or branch.commit_id != seen.commit_id:
        return False
    view = view_of_branch(repository, txn, branch.name)
    gone = [path for path, value in equal if view.staged_at(path) == value]
    found = [
        (token, paths)
        for token in view.tokens
        if (paths := [path for path in gone if area.get(txn, token, path) is not None])
    ]
    if not found:
        return True
    covers = any(token in branch.sealed_tokens for token, _ in found)
    if covers:
        intents.check_none_sent(txn, repository, branch.name)
    staging = [StagingChange(branch.name, token) for token, _ in found]
    operation = operation_log.append(txn, repository, kind=FOLLOWED, staging=staging)
    for token, paths in found:
        save_images(txn, operation.id, token, paths)
        for path in paths:
            area.remove(txn, token, path)
    if covers:
        refs.put_branch(operation_log.outdate(txn, repository, branch))
    return True
