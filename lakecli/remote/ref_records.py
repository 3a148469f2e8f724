"""A ref in the bucket: one small JSON object with its last moves.

::

    {"format": 1, "kind": "branch", "name": "main", "commit_id": "6a…" or null,
     "sequence": 7, "write_id": "0f…",
     "moves": [{"sequence": 7, "write_id": "0f…", "from": "91…" or null, "to": "6a…" or null,
                "who": "Name <email>", "at": "2026-11-20T15:00:00Z", "why": "push", "pack": "…",
                "policy": 3}], "policy": 3}

``policy`` of a move is the version number of the rules that allowed the move; ``policy`` of the ref
is the highest version of the rules under which the ref was written. Both are absent if no rules
were ever set. ``commit_id`` is null in the tombstone of a deleted ref. Moves are newest first, with
consecutive sequence numbers. A rewrite keeps the fields that this version does not know, in the ref
and in its moves. A greater ``format`` is refused: only a newer lakecli can read it.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple

from lakecli.base import validation
from lakecli.base.ids import CommitId, PackId, WriteId
from lakecli.base.layout import MAX_REF_SIZE, MAX_SEQUENCE, ref_key
from lakecli.base.model import NAMED_KINDS, NO_METADATA, RefKind
from lakecli.base.parsing import Unparsable, parse_json_object
from lakecli.errors import IntegrityError, Refused
from lakecli.stores.contract import Version

FORMAT: Final = 1

MAX_MOVES: Final = 32
"""Maximum number of moves in a ref object; older moves are in the reflog."""

MAX_WHO_SIZE: Final = 4096
MAX_WHY_SIZE: Final = 256

_MOST_MOVES: Final = 1024
"""Maximum number of moves in an object that is read: other versions may write more moves."""

_NAMES: Final = {"before": "from", "after": "to"}
"""The fields of `RecordedMove` that have other names in JSON."""

_MOVE: Final = validation.Record(
    {
        "sequence": validation.whole(1, MAX_SEQUENCE),
        "write_id": validation.identifier(WriteId),
        "from": validation.nullable(validation.identifier(CommitId)),
        "to": validation.nullable(validation.identifier(CommitId)),
        "who": validation.text(MAX_WHO_SIZE),
        "at": validation.moment,
        "why": validation.text(MAX_WHY_SIZE),
        "pack": validation.optional(validation.or_empty(validation.identifier(PackId)), ""),
        "policy": validation.optional(validation.whole(0, MAX_SEQUENCE), 0),
    }
)


def move_of(value: object) -> "RecordedMove":
    """Validate a JSON value and return it as a move; raise `Invalid` if it is not a move."""
    fields = _MOVE.read(value)
    assert isinstance(value, dict)
    unknown = _MOVE.unknown(value)
    extra = json.dumps(unknown, separators=(",", ":")) if unknown else ""
    return RecordedMove(before=fields.pop("from"), after=fields.pop("to"), extra=extra, **fields)


_REF: Final = validation.Record(
    {
        "format": validation.whole(1, FORMAT),
        "kind": validation.choice(*NAMED_KINDS),
        "name": validation.text(1024, min_size=1),
        "commit_id": validation.nullable(validation.identifier(CommitId)),
        "sequence": validation.whole(1, MAX_SEQUENCE),
        "write_id": validation.identifier(WriteId),
        "moves": validation.list_of(move_of, _MOST_MOVES),
        "policy": validation.optional(validation.whole(0, MAX_SEQUENCE), 0),
    }
)

_CHUNK: Final = validation.Record(
    {"format": validation.whole(1, FORMAT), "moves": validation.list_of(move_of, _MOST_MOVES)}
)


class InvalidRecord(NamedTuple):
    """A record in the bucket that was ignored because it is not valid.

    Attributes:
        kind: branch, tag, pack or commit.
        name: name of the branch or tag, or ID of the pack or commit.
        key: key of the object in the storage namespace.
        what: the problem.
    """

    kind: str
    name: str
    key: str
    what: str


class NotOurs(IntegrityError):
    """The object at the key of a ref, or of a ref's moves, was not written by lakecli."""


class NewerRecord(NotOurs):
    """A newer lakecli wrote the record."""


class Unwritable(Refused):
    """A ref or its moves cannot be written, since `parse_ref` or `parse_moves` would refuse it."""


class RecordedMove(NamedTuple):
    """One move of a ref.

    Attributes:
        write_id: random ID that identifies the move, 32 hex digits.
        before: the old commit; ``None`` if the ref did not exist or was deleted.
        after: the new commit; ``None`` if the move deletes the ref.
        who: the committer who moved the ref, ``Name <email>``.
        at: the time of the move by the clock of the machine that made it, in whole seconds.
        why: the command: ``push``, ``undo``, …
        pack: a commit pack that has the new commit; ``""`` if none is known.
        extra: fields that this version does not know, as JSON; ``""`` if there are none.
        policy: the version number of the rules that allowed the move; 0 if there were no rules.
    """

    sequence: int
    write_id: WriteId
    before: CommitId | None
    after: CommitId | None
    who: str
    at: datetime
    why: str
    pack: PackId | Literal[""] = ""
    extra: str = ""
    policy: int = 0


class RemoteRef(NamedTuple):
    """A ref object as it was read.

    Attributes:
        kind: a branch or a tag.
        commit_id: the commit that the ref points to; ``None`` if the ref is deleted.
        sequence: the number of the ref's last move.
        write_id: the write ID of the ref's last move.
        moves: the last moves, newest first; the reflog has older ones.
        extra: fields that this version does not know.
        policy: the highest version of the rules under which the ref was written; 0 if there were
            none.
    """

    kind: RefKind
    name: str
    commit_id: CommitId | None
    sequence: int
    write_id: WriteId
    moves: tuple[RecordedMove, ...]
    version: Version
    extra: Mapping[str, Any] = NO_METADATA
    policy: int = 0


def parse_ref(kind: RefKind, name: str, data: bytes, version: Version) -> RemoteRef:
    """Parse a ref object.

    Raises:
        NotOurs: the object is not a ref, is another ref, or has a newer format.
    """
    what = ref_key(kind, name)
    with _validating(what):
        found = _load(data, what)
        fields = _REF.read(found)
        if (fields["kind"], fields["name"]) != (kind, name):
            hint = "it was copied or renamed in the bucket: move it back to its own key"
            raise NotOurs(f"{what} says that it is {fields['kind']} {fields['name']!r}", hint=hint)
        del fields["format"]
        fields["moves"] = tuple(fields["moves"])
        ref = RemoteRef(**fields, version=version, extra=_REF.unknown(found))
        _check_moves(ref.moves, ref.sequence)
        last = ref.moves[0] if ref.moves else None
        if last and (last.write_id, last.after) != (ref.write_id, ref.commit_id):
            raise validation.Invalid("its commit is not that of its last move")
        return ref


def dump_ref(ref: RemoteRef) -> bytes:
    """Encode a ref as the bytes of its object."""
    known = {name: value for name, value in ref._asdict().items() if name in _REF.names}
    moves = [move_fields(move) for move in ref.moves]
    fields = {**ref.extra, "format": FORMAT, **known, "moves": moves}
    if not ref.policy:
        del fields["policy"]
    return _dump(_REF, fields)


def parse_moves(what: str, data: bytes) -> tuple[RecordedMove, ...]:
    """Parse an object of the reflog, and return its moves, newest first.

    Args:
        what: the key of the object, for errors.

    Raises:
        NotOurs: the object has no moves, is not valid, or has a newer format.
    """
    with _validating(what):
        moves = tuple(_CHUNK.read(_load(data, what))["moves"])
        if not moves:
            raise validation.Invalid("it has no moves")
        _check_moves(moves, moves[0].sequence)
        return moves


def dump_moves(moves: tuple[RecordedMove, ...]) -> bytes:
    """Encode moves as the bytes of an object of the reflog."""
    fields = {"format": FORMAT, "moves": [move_fields(move) for move in moves]}
    return _dump(_CHUNK, fields)


def _dump(record: validation.Record, fields: dict[str, Any]) -> bytes:
    try:
        record.read(fields)
    except validation.Invalid as error:
        what = f"the ref cannot be written, because no lakecli could read it: {error}"
        raise Unwritable(what, hint="choose a shorter user.name or user.email") from error
    data = json.dumps(fields, separators=(",", ":")).encode("ascii") + b"\n"
    if len(data) > MAX_REF_SIZE:
        sizes = f"it has {len(data):,} bytes, the limit is {MAX_REF_SIZE:,}"
        hint = "choose a shorter user.name or user.email"
        raise Unwritable(f"the ref cannot be written: {sizes}", hint=hint)
    return data


@contextmanager
def _validating(what: str) -> Iterator[None]:
    """Raise `NotOurs` if a record is malformed or not valid."""
    try:
        yield
    except (Unparsable, validation.Invalid) as error:
        raise NotOurs(
            f"{what} was not written by lakecli: {error}",
            hint="another program writes into this namespace; restore the object from a clone that "
            "has seen it: `fsck REPOSITORY --repair`; or from a backup",
        ) from error


def _load(data: bytes, what: str) -> dict[str, Any]:
    found = parse_json_object(data, max_size=MAX_REF_SIZE)
    check_format(found.get("format"), FORMAT, what, NewerRecord)
    return found


def check_format(found: object, known: int, what: str, error: type[IntegrityError]) -> None:
    """Raise an error if the format of a record is newer than the known format.

    Args:
        found: the value of the field ``format``.
        what: the key of the record.
        error: the class of the error.
    """
    if type(found) is int and found > known:
        hint = "a newer lakecli wrote it: upgrade this one"
        raise error(f"{what} is of format {found}, this lakecli knows {known}", hint=hint)


def _check_moves(moves: tuple[RecordedMove, ...], newest: int) -> None:
    if [move.sequence for move in moves] != list(range(newest, newest - len(moves), -1)):
        raise validation.Invalid("its moves are not numbered consecutively")


def move_fields(move: RecordedMove) -> dict[str, Any]:
    """Return a move as the JSON object that `move_of` validates."""
    fields: dict[str, Any] = json.loads(move.extra) if move.extra else {}
    known = move._asdict()
    fields |= {_NAMES.get(name, name): value for name, value in known.items() if name != "extra"}
    fields["at"] = move.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if not move.policy:
        del fields["policy"]
    return fields
