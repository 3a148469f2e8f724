"""Move objects: stage the same entries at the new paths, and deletions at the old paths."""

from collections.abc import Iterable, Sequence

from lakecli.base.model import Entry
from lakecli.base.uri import as_directory, check_path
from lakecli.committed.values import decode_entry
from lakecli.errors import UsageError
from lakecli.repository.contract import Repository
from lakecli.repository.guard import Change, claim_values
from lakecli.repository.policy.early import check_early
from lakecli.repository.reading.view import View, check_branch, no_such_path, open_view
from lakecli.repository.staged.stager import Parts, Stager, claimed_batches
from lakecli.staging.area import TOMBSTONE


def mv(
    repository: Repository, *, source_branch: str, source: bytes, branch: str, path: bytes
) -> Entry:
    """Move an object: stage its entry at `path`, and the deletion of `source`.

    An object that is uploaded to `source` while this runs is either moved or kept at `source`.

    Raises:
        NotFound: no such branch or source.
        UsageError: source and destination are the same path.
        Gone: the object of the source is no longer in the bucket.
        LostRace: other processes kept changing the source.
    """
    check_path(path)
    if (source_branch, source) == (branch, path):
        raise UsageError("source and destination are the same path")
    check_branch(repository, source_branch)
    check_early(repository, source_branch)
    stager = Stager(repository, branch)

    def plan(view: View) -> tuple[Parts, Entry]:
        value = view.value(source)
        moved = claim_values(repository, [(path, value)])
        return _parts(moved, [source], branch, source_branch), decode_entry(value)

    return stager.write_planned(source_branch, [source], plan, kind="mv")


def mv_tree(
    repository: Repository, *, source_branch: str, source: bytes, branch: str, path: bytes
) -> int:
    """Move all objects below `source` to paths below `path`; return their number.

    The new entries and the deletions are staged. Objects that are uploaded below `source` while
    this runs are either moved or kept.

    Raises:
        NotFound: no such branch, or nothing below the source.
        UsageError: one of the two paths is inside the other, or a resulting path is too long;
            nothing is staged.
        Gone: an object below the source is no longer in the bucket.
        LostRace: other processes kept changing the objects; moves that were staged before stay
            staged.
    """
    below, target = as_directory(source), as_directory(path)
    if source_branch == branch and (below.startswith(target) or target.startswith(below)):
        raise UsageError("one of source and destination lies inside the other")
    check_branch(repository, source_branch)
    check_early(repository, source_branch)
    stager = Stager(repository, branch)
    count = 0
    with open_view(repository, source_branch) as view:
        for batch in claimed_batches(view, below, target):
            count += _move(stager, view, batch, (source_branch, below), (branch, target))
    if not count:
        raise no_such_path(repository, source_branch, below)
    return count


_Place = tuple[str, bytes]
"""A branch, and a directory with its trailing slash."""


def _move(
    stager: Stager, view: View, batch: Sequence[Change], source: _Place, target: _Place
) -> int:
    """Move records from one directory of a branch to another; return their number.

    If a record has changed since the view was opened, its present state is moved.
    """
    (source_branch, below), (branch, to) = source, target
    paths = [old for old, _ in batch]

    def plan(now: View) -> tuple[Parts, int]:
        present = batch
        if now is not view:
            there = [(old, value) for old in paths if (value := now.find(old)) is not None]
            present = claim_values(now.repository, there)
        moved = [(to + old[len(below) :], value) for old, value in present]
        return _parts(moved, [old for old, _ in present], branch, source_branch), len(present)

    return stager.write_planned(source_branch, paths, plan, kind="mv", view=view)


def _parts(
    moved: Sequence[Change], removed: Iterable[bytes], branch: str, source_branch: str
) -> Parts:
    """Return the changes to stage on each branch for a move."""
    deletions = [(path, TOMBSTONE) for path in removed]
    if branch == source_branch:
        return [(branch, sorted([*moved, *deletions]))]
    return [(branch, sorted(moved)), (source_branch, deletions)]
