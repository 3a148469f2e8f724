"""A ref as it stands in the bucket: one small JSON object with its last moves.

::

    {"format": 1, "kind": "branch", "name": "main", "commit_id": "6a…" or null,
     "sequence": 7, "write_id": "0f…",
     "moves": [{"sequence": 7, "write_id": "0f…", "from": "91…" or null, "to": "6a…" or null,
                "who": "Name <email>", "at": "2026-11-20T15:00:00Z", "why": "push", "pack": "…"}]}

``commit_id`` is null in the tombstone of a deleted ref. Moves are newest first, each numbered one
less than the one before it. A rewrite keeps the fields that this version does not know, in the ref
and in its moves. A ``format`` above ours is refused: only a newer lakecli knows what it means.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakecli.errors import IntegrityError
from lakecli.layout import ref_key
from lakecli.model import CommitId

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakecli.objectstore.base import Version

FORMAT: Final = 1

MAX_MOVES: Final = 32
"""Moves in a ref object, at most; older ones lie in the reflog."""

_ID_SIZE: Final = 64
_DIGITS: Final = frozenset("0123456789abcdef")
_REF_FIELDS: Final = frozenset(
    ("format", "kind", "name", "commit_id", "sequence", "write_id", "moves")
)
_MOVE_FIELDS: Final = frozenset(("sequence", "write_id", "from", "to", "who", "at", "why", "pack"))


class NotOurs(IntegrityError):
    """An object in the place of a ref or of its moves that this lakecli cannot have written."""


class Move(NamedTuple):
    """One move of a ref.

    Attributes:
        sequence: counts the moves of a ref from 1.
        write_id: random, of this one intended move; 32 hex digits.
        before: where the ref stood; ``None``: there was none, or it was deleted.
        after: where it went; ``None``: it was deleted.
        who: the committer who moved it, ``Name <email>``.
        at: when, by the mover's clock; whole seconds.
        why: what was done: ``push``, ``undo``, …
        pack: the commit pack that was written for it; ``""`` if none was.
        extra: fields that this version does not know, as JSON; ``""`` if there are none.
    """

    sequence: int
    write_id: str
    before: CommitId | None
    after: CommitId | None
    who: str
    at: datetime
    why: str
    pack: str = ""
    extra: str = ""


@dataclass(frozen=True, slots=True)
class RemoteRef:
    """A ref object as it was read.

    Attributes:
        kind: ``branch`` or ``tag``.
        name: of the ref.
        commit_id: where it stands; ``None``: deleted.
        sequence: of its last move.
        write_id: of its last move.
        moves: newest first, at most `MAX_MOVES`.
        version: of the object, for compare-and-set.
        extra: fields that this version does not know.
    """

    kind: str
    name: str
    commit_id: CommitId | None
    sequence: int
    write_id: str
    moves: tuple[Move, ...]
    version: Version
    extra: Mapping[str, Any] = field(default_factory=dict)


def parse_ref(kind: str, name: str, data: bytes, version: Version) -> RemoteRef:
    """Return the ref that an object's bytes describe.

    Args:
        kind: what the object's key says it is: ``branch`` or ``tag``.
        name: likewise.
        data: the bytes.
        version: of the object.

    Raises:
        NotOurs: they describe no ref, another one, or one of a newer format.
    """
    what = ref_key(kind, name)
    fields = _load(data, what)
    try:
        if (fields["kind"], fields["name"]) != (kind, name):
            raise NotOurs(
                f"{what} says that it is {fields['kind']} {fields['name']!r}",
                hint="it was copied or renamed in the bucket: put it back where it belongs",
            )
        moves = tuple([_parse_move(move) for move in fields["moves"]])
        ref = RemoteRef(
            kind=kind,
            name=name,
            commit_id=_commit_id(fields["commit_id"]),
            sequence=_count(fields["sequence"]),
            write_id=_text(fields["write_id"]),
            moves=moves,
            version=version,
            extra={key: value for key, value in fields.items() if key not in _REF_FIELDS},
        )
        _check_moves(moves, ref.sequence)
        _check_last_move(ref)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _not_ours(what, error) from error
    return ref


def dump_ref(ref: RemoteRef) -> bytes:
    """Return the bytes of a ref's object."""
    fields = {
        **ref.extra,
        "format": FORMAT,
        "kind": ref.kind,
        "name": ref.name,
        "commit_id": ref.commit_id,
        "sequence": ref.sequence,
        "write_id": ref.write_id,
        "moves": [_move_fields(move) for move in ref.moves],
    }
    return json.dumps(fields, separators=(",", ":")).encode("ascii") + b"\n"


def parse_moves(what: str, data: bytes) -> tuple[Move, ...]:
    """Return the moves that an object of the reflog holds, newest first.

    Args:
        what: its key, for the error.
        data: its bytes.

    Raises:
        NotOurs: it holds no moves, or is of a newer format.
    """
    fields = _load(data, what)
    try:
        moves = tuple([_parse_move(move) for move in fields["moves"]])
        _check_moves(moves, moves[0].sequence)
    except (AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
        raise _not_ours(what, error) from error
    return moves


def dump_moves(moves: tuple[Move, ...]) -> bytes:
    """Return the bytes of an object of the reflog."""
    fields = {"format": FORMAT, "moves": [_move_fields(move) for move in moves]}
    return json.dumps(fields, separators=(",", ":")).encode("ascii") + b"\n"


def _load(data: bytes, what: str) -> dict[str, Any]:
    try:
        fields = json.loads(data)
        known = _count(fields["format"])
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise _not_ours(what, error) from error
    if known > FORMAT:
        raise NotOurs(
            f"{what} is of format {known}, this lakecli knows {FORMAT}",
            hint="a newer lakecli wrote it: upgrade this one",
        )
    return dict(fields)


def _not_ours(what: str, error: Exception) -> NotOurs:
    reason = f"no field {error}" if isinstance(error, KeyError) else str(error)
    if isinstance(error, json.JSONDecodeError):
        reason = "no JSON"
    return NotOurs(
        f"{what} is nothing that lakecli wrote: {reason}",
        hint="something else writes into this namespace: restore the object from a backup",
    )


def _check_moves(moves: tuple[Move, ...], newest: int) -> None:
    if [move.sequence for move in moves] != list(range(newest, newest - len(moves), -1)):
        raise ValueError("its moves are not numbered one after the other")


def _check_last_move(ref: RemoteRef) -> None:
    last = ref.moves[0] if ref.moves else None
    if last and (last.write_id, last.after) != (ref.write_id, ref.commit_id):
        raise ValueError("it stands elsewhere than where its last move went")


def _parse_move(fields: Mapping[str, Any]) -> Move:
    unknown = {key: value for key, value in fields.items() if key not in _MOVE_FIELDS}
    at = datetime.fromisoformat(fields["at"])
    if at.tzinfo is None:
        raise ValueError(f"a time without an offset: {fields['at']}")
    return Move(
        sequence=_count(fields["sequence"]),
        write_id=_text(fields["write_id"]),
        before=_commit_id(fields["from"]),
        after=_commit_id(fields["to"]),
        who=_text(fields["who"]),
        at=at.astimezone(UTC),
        why=_text(fields["why"]),
        pack=_text(fields.get("pack", "")),
        extra=json.dumps(unknown, separators=(",", ":")) if unknown else "",
    )


def _move_fields(move: Move) -> dict[str, Any]:
    return {
        **(json.loads(move.extra) if move.extra else {}),
        "sequence": move.sequence,
        "write_id": move.write_id,
        "from": move.before,
        "to": move.after,
        "who": move.who,
        "at": move.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "why": move.why,
        "pack": move.pack,
    }


def _commit_id(value: object) -> CommitId | None:
    if value is None:
        return None
    text = _text(value)
    if len(text) != _ID_SIZE or not _DIGITS.issuperset(text):
        raise ValueError(f"no commit ID: {text!r}")
    return CommitId(text)


def _count(value: object) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"no number from 1 on: {value!r}")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"no text: {value!r}")  # noqa: TRY004 - all of this is one kind of damage
    return value
