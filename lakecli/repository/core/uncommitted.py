"""The uncommitted changes of a branch: its staging area compared with its commit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from lakecli.base.model import ChangeType, Difference
from lakecli.committed.points import PointReader
from lakecli.committed.values import identity_of
from lakecli.staging.area import TOMBSTONE

if TYPE_CHECKING:
    from lakecli.repository.core.view import View

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
