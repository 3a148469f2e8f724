"""Commit packs: the commits in the bucket, a few SSTables that pushes write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from lakecli.errors import IntegrityError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import datetime

    from lakecli.model import Commit
    from lakecli.objectstore.base import ObjectStore


class DamagedPack(IntegrityError):
    """A commit pack that cannot be read, or does not hold what its name says."""


class PackInfo(NamedTuple):
    """A pack as the listing knows it; `size` in bytes."""

    id: str
    size: int
    modified_at: datetime


@dataclass(frozen=True, slots=True)
class Pack:
    """A pack that was read and verified.

    Attributes:
        id: 64 hex digits.
        replaces: IDs of the packs whose commits it holds too.
        commits: ordered by ID.
    """

    id: str
    replaces: tuple[str, ...]
    commits: list[Commit]


def list_packs(store: ObjectStore) -> list[PackInfo]:
    """Return the packs in the bucket, in the order of their keys; one LIST."""
    raise NotImplementedError


def read_pack(store: ObjectStore, pack_id: str) -> Pack:
    """Read a pack whole, verify it, and compute the IDs of its commits anew.

    Raises:
        ObjectNotFound: there is no such pack.
        DamagedPack: it is not what its name says.
    """
    raise NotImplementedError


def read_new_packs(
    store: ObjectStore, known: Collection[str], *, also: Collection[str] = ()
) -> Iterator[Pack]:
    """Yield the packs that are not known and not replaced by one that was read, largest first.

    Args:
        store: of the namespace.
        known: IDs of packs whose commits this clone has.
        also: IDs that the moves of refs name: they are read though a late listing lacks them, and
            passed over where they are gone, replaced by another.

    Raises:
        DamagedPack: one is not what its name says.
    """
    raise NotImplementedError


def write_pack(
    store: ObjectStore, commits: Sequence[Commit], *, replaces: Sequence[str] = ()
) -> str:
    """Write commits as one pack and return its ID; the same commits make the same pack.

    Args:
        store: of the namespace.
        commits: in any order, each once.
        replaces: IDs of the packs whose commits are all among them.
    """
    raise NotImplementedError


def choose_replaced(packs: Sequence[PackInfo], new_size: int) -> list[str]:
    """Return the packs that a new one should replace, so that few are left.

    Args:
        packs: what is in the bucket and not replaced yet.
        new_size: of the new pack, in bytes, about.
    """
    raise NotImplementedError
