"""The moves of refs that this clone knows, kept in the local store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from lakecli.base.ids import CommitId, PackId, WriteId
from lakecli.base.layout import MAX_REF_SIZE, MAX_SEQUENCE
from lakecli.base.model import RefKind
from lakecli.base.validation import (
    EARLIEST,
    LATEST,
    Invalid,
    Record,
    identifier,
    nullable,
    optional,
    or_empty,
    text,
    whole,
)
from lakecli.errors import IntegrityError
from lakecli.kv.bucket import ReflogStore
from lakecli.kv.env import ReadTransaction, WriteTransaction
from lakecli.remote.ref_records import MAX_WHO_SIZE, MAX_WHY_SIZE, Move

_MOVE: Final = Record(
    {
        "sequence": whole(1, MAX_SEQUENCE),
        "write_id": identifier(WriteId),
        "before": nullable(identifier(CommitId)),
        "after": nullable(identifier(CommitId)),
        "who": text(MAX_WHO_SIZE),
        "at": whole(int(EARLIEST.timestamp()), int(LATEST.timestamp())),
        "why": text(MAX_WHY_SIZE),
        "pack": optional(or_empty(identifier(PackId)), ""),
        "extra": optional(text(MAX_REF_SIZE), ""),
    }
)


def put_moves(
    txn: WriteTransaction, repository: bytes, kind: RefKind, name: str, moves: Iterable[Move]
) -> None:
    """Store moves of a ref; moves that are known already stay unchanged."""
    ReflogStore(txn, repository).put_moves(kind, name, map(_to_fields, moves))


def iter_moves(txn: ReadTransaction, repository: bytes, kind: RefKind, name: str) -> Iterator[Move]:
    """Yield the moves of a ref that this clone knows, newest first."""
    for fields in ReflogStore(txn, repository).iter_moves(kind, name):
        yield _from_fields(fields)


def _to_fields(move: Move) -> dict[str, Any]:
    return {**move._asdict(), "at": int(move.at.timestamp())}


def _from_fields(fields: Mapping[str, Any]) -> Move:
    try:
        found = _MOVE.read(dict(fields))
        return Move(**{**found, "at": datetime.fromtimestamp(found["at"], UTC)})
    except Invalid as error:
        raise IntegrityError(
            "the local store holds a move of a ref that is not valid",
            hint="the store may be damaged: move it away and start a new one",
        ) from error
