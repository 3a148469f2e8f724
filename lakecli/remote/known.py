"""Moves as the local store keeps them: what this clone knows of refs without asking the bucket."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lakecli.errors import IntegrityError
from lakecli.kv.reflog import ReflogStore
from lakecli.remote.records import Move

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lakecli.kv.env import ReadTransaction, WriteTransaction


def put_moves(
    txn: WriteTransaction, repository: bytes, kind: str, name: str, moves: Iterable[Move]
) -> None:
    """Remember moves of a ref; those that are known stay as they are."""
    ReflogStore(txn, repository).put_moves(kind, name, map(_to_fields, moves))


def iter_moves(txn: ReadTransaction, repository: bytes, kind: str, name: str) -> Iterator[Move]:
    """Yield the moves of a ref that this clone knows, newest first."""
    for fields in ReflogStore(txn, repository).iter_moves(kind, name):
        yield _from_fields(fields)


def _to_fields(move: Move) -> dict[str, Any]:
    return {**move._asdict(), "at": int(move.at.timestamp())}


def _from_fields(fields: Mapping[str, Any]) -> Move:
    known = {name: fields[name] for name in Move._fields if name in fields}
    try:
        return Move(**{**known, "at": datetime.fromtimestamp(fields["at"], UTC)})
    except (KeyError, TypeError, ValueError) as error:
        raise IntegrityError(
            "a move of a ref makes no sense in the local store",
            hint="the store may be damaged: move it away and start a new one",
        ) from error
