"""Intervals of keys: the keys under a prefix, and the start of a page."""

from __future__ import annotations

from typing import AnyStr


def prefix_end(prefix: bytes) -> bytes | None:
    """Return the smallest key greater than every key that starts with `prefix`.

    ``None`` for an empty prefix, or one of ``0xff`` bytes only: no key is greater.
    """
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes((stem[-1] + 1,)) if stem else None


def first_key(prefix: bytes, after: bytes) -> bytes:
    """Return the smallest key that may start with `prefix` and be greater than `after`."""
    return max(prefix, after + b"\0") if after else prefix


def common_start(left: AnyStr, right: AnyStr) -> AnyStr:
    """Return the longest text that both begin with."""
    for at, (here, there) in enumerate(zip(left, right, strict=False)):
        if here != there:
            return left[:at]
    return min(left, right)
