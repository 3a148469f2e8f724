"""Differing records, from the windows of two trees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from lakecli.committed.values import identity_of
from lakecli.model import ChangeType

if TYPE_CHECKING:
    from lakecli.committed.cursor import Window

    Pair: TypeAlias = tuple[bytes, bytes | None, bytes | None]
    """A path, its value on the left and its value on the right; the values differ."""


def iter_pairs(windows: Iterable[Window]) -> Iterator[Pair]:
    """Yield the records of windows that differ by identity or presence."""
    for left_keys, left_values, right_keys, right_values in windows:
        if left_keys == right_keys:
            for key, old, new in zip(left_keys, left_values, right_values, strict=True):
                if not is_same(old, new):
                    yield key, old, new
        elif not left_keys:
            for key, value in zip(right_keys, right_values, strict=True):
                yield key, None, value
        elif not right_keys:
            for key, value in zip(left_keys, left_values, strict=True):
                yield key, value, None
        else:
            yield from _merged(
                dict(zip(left_keys, left_values, strict=True)),
                dict(zip(right_keys, right_values, strict=True)),
            )


def _merged(left: dict[bytes, bytes], right: dict[bytes, bytes]) -> Iterator[Pair]:
    for key in sorted(left.keys() | right.keys()):
        old, new = left.get(key), right.get(key)
        if not is_same(old, new):
            yield key, old, new


def is_same(left: bytes | None, right: bytes | None) -> bool:
    """Return whether two values are both absent or have the same identity."""
    if left == right:
        return True
    return left is not None and right is not None and identity_of(left) == identity_of(right)


def type_of(old: bytes | None, new: bytes | None) -> ChangeType:
    """Name the change from one value to another."""
    if old is None:
        return ChangeType.ADDED
    return ChangeType.REMOVED if new is None else ChangeType.CHANGED
