"""How a working directory, its base and its ref differ: `status` and `diff`."""

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lakecli.base.model import ChangeType, Commit, CommitId, Difference, Entry, MetarangeId
from lakecli.committed.values import encode_entry
from lakecli.repository.transfer.ignore_patterns import Selection
from lakecli.repository.transfer.walk import LinkPolicy
from lakecli.worktree.linked_files import problems_of
from lakecli.worktree.scan import ScanProblem, hash_file
from lakecli.worktree.worktree import Worktree


class ChangedPath(NamedTuple):
    """A path that differs from the base, in the directory or at the ref.

    Attributes:
        path: path of the file, relative to the working directory.
        here: change of the file in the directory: added, removed or changed; ``None`` if unchanged.
        there: change of the object on the ref: added, removed or changed; ``None`` if unchanged.
        is_conflict: whether the file and the object have both changed, to different contents.
    """

    path: bytes
    here: ChangeType | None
    there: ChangeType | None
    is_conflict: bool = False

    @property
    def source(self) -> str:
        """Where the path differs from the base: ``local``, ``remote`` or ``both``."""
        if self.here is None:
            return "remote"
        return "local" if self.there is None and not self.is_conflict else "both"

    @property
    def change(self) -> ChangeType:
        """The change in the directory, else the one on the ref; a conflict takes precedence."""
        change = ChangeType.CONFLICT if self.is_conflict else self.here or self.there
        assert change is not None
        return change


class Status(NamedTuple):
    """The state of a working directory.

    Attributes:
        base: the commit that the directory was last synced with; ``None`` before its first
            checkout.
        head: the commit that the ref of the directory names now.
        items: the changed paths, in path order; unresolved paths are included as conflicts.
    """

    base: CommitId | None
    head: Commit
    items: list[ChangedPath]
    problems: list[ScanProblem]


def differences(
    worktree: Worktree, items: Sequence[ChangedPath], *, has_values: bool
) -> Iterator[Difference]:
    """Yield how files differ from the base, in the form of differences of two trees.

    Args:
        has_values: whether to include both entries of each difference; this reads new and changed
            files.
    """
    tree = worktree.base_tree
    for item in items:
        if item.here is None:
            continue
        left = worktree.find(tree, item.path) if has_values else None
        is_here = has_values and item.here is not ChangeType.REMOVED
        right = _entry_of(worktree, item.path) if is_here else None
        yield Difference(item.here, item.path, left, right)


def _entry_of(worktree: Worktree, path: bytes) -> bytes | None:
    """Return an encoded entry with size and digest of a file; ``None`` if it no longer exists."""
    root, follow = os.fsencode(worktree.root), worktree.links is LinkPolicy.FOLLOW
    try:
        digest, status = hash_file(root, path, follow=follow)
    except OSError:
        return None
    now = worktree.repository.lake.runtime.now()
    return encode_entry(Entry("", status.st_size, digest, now))


def _ref_changes(worktree: Worktree, base: MetarangeId, head: MetarangeId) -> Iterator[Difference]:
    """Yield how a tree differs from the base, and its left-out paths that can be files now."""
    if head != base:
        yield from worktree.differences(base, head)
    for path in worktree.free:
        value = worktree.find(head, path)
        if value is not None:
            yield Difference(ChangeType.ADDED, path, None, value)


def status(worktree: Worktree, *, local: bool, selection: Selection) -> Status:
    """Compare the files, the base and the present commit of the ref.

    Args:
        local: compare only the files with the base, not the ref.

    Raises:
        NotFound: the base or the ref is not on this machine.
    """
    worktree.follow_back()
    base = worktree.base_tree
    head = worktree.head()
    found = worktree.scan()
    items = {
        path: ChangedPath(path, change.type, None)
        for path, change in found.changes.items()
        if selection.takes(path)
    }
    for each in () if local else _ref_changes(worktree, base, head.metarange_id):
        path, change = each.path, found.changes.get(each.path)
        if selection.takes(path):
            here = None if change is None else change.type
            is_conflict = change is not None and not worktree.equals(path, change, each.right)
            items[path] = ChangedPath(path, here, each.type, is_conflict)
    for path in {*worktree.link.unresolved, *worktree.blocked} - worktree.free:
        if path in items:
            items[path] = items[path]._replace(is_conflict=True)
    impossible = (
        ScanProblem(path, f"cannot be a file here: {reason}")
        for path, reason in worktree.impossible.items()
        if worktree.find(base, path) is not None
    )
    problems = sorted([*found.problems, *problems_of(worktree, found.changes), *impossible])
    problems = [each for each in problems if selection.takes(each.path)]
    return Status(worktree.link.at_head, head, [items[path] for path in sorted(items)], problems)
