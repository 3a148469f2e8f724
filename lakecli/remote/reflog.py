"""The moves of a ref, from its object and, older ones, from the reflog in the bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.objectstore.base import ObjectStore
    from lakecli.remote.records import Move, RemoteRef


def iter_moves(store: ObjectStore, ref: RemoteRef) -> Iterator[Move]:
    """Yield all moves of a ref, newest first; those in its object cost no request.

    Raises:
        NotOurs: an object of the reflog is not ours.
    """
    raise NotImplementedError
