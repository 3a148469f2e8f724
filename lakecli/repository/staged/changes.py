"""The uncommitted changes of a branch, and those whose paths others have changed since.

Uncommitted changes are what the staging area has and the commit under it has not. A staging area
remembers the commit it was started on. If the head has moved on from there by what another clone
pushed, committing a path that both changed would silently undo the other's change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from operator import itemgetter
from typing import Final

from lakecli.base.model import ChangeType, Commit, Difference, StagingToken
from lakecli.committed.diff import diff
from lakecli.committed.points import PointReader
from lakecli.committed.values import identity_of, is_same
from lakecli.refs.graph import is_ancestor
from lakecli.refs.ref_store import RefStore
from lakecli.repository.journal import staging_tokens
from lakecli.repository.reading.view import View
from lakecli.staging import area
from lakecli.staging.area import TOMBSTONE

_BLOCKS_SIZE: Final = 8 << 20
"""Bytes of decoded blocks of the committed tree kept while staging is compared with it."""


def uncommitted(view: View, *, prefix: bytes = b"") -> Iterator[Difference]:
    """Yield how a branch's staging area differs from its commit, in path order.

    A path staged with the committed content, or a deletion of a path that is not committed, is no
    difference.
    """
    # Paths ascend, so few blocks are needed at a time, however much is staged.
    points = PointReader(view.repository.trees, blocks_limit=_BLOCKS_SIZE)
    tree = view.commit.metarange_id
    for path, staged in view.staged(prefix=prefix):
        difference = compare_staged(path, points.find(tree, path), staged)
        if difference is not None:
            yield difference


def compare_staged(path: bytes, left: bytes | None, staged: bytes) -> Difference | None:
    """Return how a staged record differs from the value under it, or ``None``."""
    right = None if staged == TOMBSTONE else staged
    if left is None:
        return None if right is None else Difference(ChangeType.ADDED, path, None, right)
    if right is None:
        return Difference(ChangeType.REMOVED, path, left, None)
    if identity_of(left) == identity_of(right):
        return None
    return Difference(ChangeType.CHANGED, path, left, right)


def iter_staged_conflicts(view: View) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield (path, its value in the head) of what both staging and others changed, in path order.

    Paths staged identically to the head are ignored, and so are those that were staged again since.
    """
    areas = [
        _conflicts(view, token, base, newer=view.tokens[:place])
        for place, token, base in _older_areas(view)
    ]
    # No path comes from two areas: only the newest that has it counts.
    return merge(*areas, key=itemgetter(0))


def _older_areas(view: View) -> Iterator[tuple[int, StagingToken, Commit]]:
    """Yield the areas that were started on an older commit of the head's history, with it."""
    refs = RefStore(view.txn, view.repository.key)
    for place, token in enumerate(view.tokens):
        started_on = staging_tokens.started_on(view.txn, token)
        if started_on is None or started_on == view.commit.id:
            continue
        base = refs.find_commit(started_on)
        # After an undo the head may stand before the commit that the area was started on.
        if (
            base is not None
            and base.metarange_id != view.commit.metarange_id
            and is_ancestor(refs, base.id, view.commit.id)
        ):
            yield place, token, base


def _conflicts(
    view: View, token: StagingToken, base: Commit, *, newer: tuple[StagingToken, ...]
) -> Iterator[tuple[bytes, bytes | None]]:

    changes = diff(view.repository.trees, base.metarange_id, view.commit.metarange_id)
    for path, there in iter_crossing(area.scan(view.txn, token), changes):
        if all(area.get(view.txn, each, path) is None for each in newer):
            yield path, there


def iter_crossing(
    staged: Iterator[tuple[bytes, bytes]],
    changes: Iterable[Difference],
    *,
    ignores_unchanged: bool = False,
) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield (path, its value after the change) of what is staged and was changed differently.

    Args:
        staged: (path, value or tombstone), in path order.
        changes: in path order; not read if nothing is staged.
        ignores_unchanged: leave out what is staged as it was before the change.
    """
    for value, change in iter_both(staged, changes):
        if is_same(value, change.right) or (ignores_unchanged and is_same(value, change.left)):
            continue
        yield change.path, change.right


def iter_both(
    staged: Iterator[tuple[bytes, bytes]], changes: Iterable[Difference]
) -> Iterator[tuple[bytes | None, Difference]]:
    """Yield (staged value, change) of each path that is staged and changed; ``None``: a deletion.

    Args:
        staged: (path, value or tombstone), in path order.
        changes: in path order; not read if nothing is staged.
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
