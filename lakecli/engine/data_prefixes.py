"""Divide ``data/`` into prefixes for listing, by the number of its objects.

Digests are evenly distributed. So the first few thousand keys of a listing tell how many there are.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from lakecli.base.identity import DIGEST_SIZE
from lakecli.base.layout import DATA, data_digest

if TYPE_CHECKING:
    from lakecli.stores.base import ObjectStore

FEW: Final = 20_000
"""Objects up to which ``data/`` is not divided."""

OBJECTS_PER_PREFIX: Final = 250_000
"""Objects that one task lists, at most, which takes 250 requests."""

LEAST_DIGITS: Final = 2
MOST_DIGITS: Final = 5
_DIGEST_DIGITS: Final = 2 * DIGEST_SIZE


def digits_for(store: ObjectStore) -> int:
    """Return the number of hex digits of the prefixes of ``data/``; 0 if it has few objects."""
    keys = [info.key for info in islice(store.list(DATA), FEW + 1)]
    if len(keys) <= FEW:
        return 0
    own = [digest for key in keys if (digest := data_digest(key)) is not None]
    # Of all digests, the share that the last of these has behind it.
    behind = (int(own[-1], 16) + 1) / (1 << 4 * _DIGEST_DIGITS) if own else 1.0
    return digits_of(int(len(own) / behind))


def digits_of(objects: int) -> int:
    """Return the number of hex digits of the prefixes for a large number of objects."""
    digits = LEAST_DIGITS
    while digits < MOST_DIGITS and objects > OBJECTS_PER_PREFIX << 4 * digits:
        digits += 1
    return digits


def divided(prefix: str, digits: int) -> list[str]:
    """Return the prefixes with a number of digits that share a prefix of the form ``data/ab/``."""
    more = digits - LEAST_DIGITS
    if more <= 0:
        return [prefix]
    return [f"{prefix}{number:0{more}x}" for number in range(1 << 4 * more)]
