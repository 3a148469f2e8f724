"""What this clone knows about the bucket: the refs, the moves of refs, and the commits.

`TrackingStore` records, for each ref in the bucket, the commit that the ref pointed to when this
clone last read the bucket. A ref that was deleted in the bucket stays in this table, without a
commit. `ReflogStore` has the moves of refs in the bucket, as far as this clone has read them. Each
row has a sequence number, and fields that `lakecli.remote` defines::

    TRACKING  repository ‖ kind ‖ 00 ‖ name -> position as JSON
    REFLOG    repository ‖ BLAKE3(kind ‖ 00 ‖ name) ‖ sequence (8 bytes, big-endian) -> JSON

`IntentStore` has the moves of refs in the bucket that this clone has begun, until their outcome is
recorded. A row is written before the first request of a move, and deleted in the transaction that
records the outcome of the move. If a command is interrupted, its row remains, and the next command
finds out whether the move was made. `LocalMove` describes what a move changes on this machine. The
table also has notes of moves that have not begun yet, see `UnsentMove` and
`lakecli.repository.journal.unsent_moves`::

    INTENTS   repository ‖ id (16 bytes) -> fields as JSON

`PackedStore` has the commits in the bucket, and the pack of each; a push uploads only commits that
are not in this table. If a commit is in several packs, because one pack replaces others, the pack
that was added last is recorded::

    PACKED    repository ‖ c ‖ commit ID (32 bytes) -> pack ID (32 bytes)
              repository ‖ p ‖ pack ID (32 bytes)   -> empty: a pack that was read or written here
                                                       01: another known pack replaces it

The rules that this clone read last are one row, see `lakecli.repository.policy.rules`::

    META      policy/ ‖ repository -> number, who and document of the rules, as JSON
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from lakecli.base.identity import blake3_of
from lakecli.base.ids import CommitId, MalformedId, PackId, WriteId
from lakecli.base.model import RefKind, StagingToken
from lakecli.errors import IntegrityError
from lakecli.kv.local_store import ReadTransaction, Table, owner_key
from lakecli.kv.store_errors import malformed

SEEN_POLICY: Final = b"policy/"
"""The beginning of the key of the row with the rules that this clone saw last."""

_REMEMBERED: Final = 1 << 14
"""Number of cached parsed records; a push of many branches reads all records for each branch."""


class Tracked(NamedTuple):
    """A ref in the bucket, as this clone saw it last.

    Attributes:
        kind: a branch or a tag.
        commit_id: the commit that the ref points to; ``None``: the ref was deleted.
        sequence: the number of the ref's last move.
        write_id: the write ID of the ref's last move.
        version: the version of the ref's object; if a listing shows another version, the ref has
            moved.
    """

    kind: RefKind
    name: str
    commit_id: CommitId | None
    sequence: int
    write_id: WriteId
    version: str


class LocalMove(NamedTuple):
    """The changes on this machine that belong to a branch's move in the bucket; part of an intent.

    Attributes:
        operation: the kind of operation, as the log shows it.
        sealed: the staging tokens whose changes are in the commit, newest first.
        from_staging: whether the commit's changes come from these tokens, not from another commit.
        left: staging tokens with the changes that the commit left out, newest first. The branch
            gets these tokens in place of the sealed ones.
    """

    operation: str
    sealed: tuple[StagingToken, ...]
    from_staging: bool
    left: tuple[StagingToken, ...] = ()

    def to_fields(self) -> dict[str, Any]:
        """Return the move as fields to store in an intent."""
        tokens = {"sealed": self.sealed, "left": self.left}
        return self._asdict() | {name: [each.hex() for each in tokens[name]] for name in tokens}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> "LocalMove":
        """Return the move that the fields of an intent describe.

        Raises:
            ValueError, KeyError, TypeError: the fields are not valid.
        """
        tokens = (map(bytes.fromhex, fields[name]) for name in ("sealed", "left"))
        sealed, left = (tuple(map(StagingToken, each)) for each in tokens)
        return cls(fields["operation"], sealed, fields["from_staging"], left)


class UnsentMove(NamedTuple):
    """A note: a ref was moved on this machine and must still be moved in the bucket.

    Attributes:
        kind: a branch or a tag.
        operation: the kind of the last operation that moved the ref.
        before: the commit before the first unsent move; ``None``: the ref did not exist.
        after: the commit after the last unsent move; ``None``: the ref was deleted.
        by: the operation IDs, in hex, of the commands that moved the ref.
        replaces: the branch that was renamed to this ref; its deletion is sent only if the bucket
            accepts this move. ``""``: none.
        lease: another commit from which the ref may be moved in the bucket; ``None``: none.
    """

    kind: RefKind
    name: str
    operation: str
    before: CommitId | None
    after: CommitId | None
    by: tuple[str, ...]
    replaces: str = ""
    lease: CommitId | None = None


class _Rows:
    """Access to one repository's rows of a table; writing needs a write transaction."""

    def __init__(self, txn: ReadTransaction, repository: bytes) -> None:
        self._txn = txn
        self._repository = owner_key(repository)


def _dump(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(dict(fields), separators=(",", ":")).encode("ascii")


def _load_fields(data: bytes, what: str) -> dict[str, Any]:
    try:
        return dict(json.loads(data))
    except (TypeError, ValueError) as error:
        raise _malformed(what) from error


def _malformed(what: str) -> IntegrityError:
    return malformed(f"the record of {what} in the local store is malformed")


class TrackingStore(_Rows):
    """The refs of one repository in the bucket, as this clone saw them last."""

    def find(self, kind: RefKind, name: str) -> Tracked | None:
        """Return a tracked ref; ``None`` if this clone never saw it in the bucket."""
        key = self._key(kind, name)
        data = self._txn.get(Table.TRACKING, key)
        return None if data is None else _load(key[len(self._repository) :], data)

    def position(self, kind: RefKind, name: str) -> CommitId | None:
        """Return the commit of a tracked ref; ``None`` if the ref is unknown or deleted."""
        tracked = self.find(kind, name)
        return None if tracked is None else tracked.commit_id

    def positions(self) -> set[CommitId]:
        """Return the commits of all tracked refs that are not deleted."""
        return {each.commit_id for each in self.iter() if each.commit_id is not None}

    def by_ref(self) -> dict[tuple[RefKind, str], Tracked]:
        """Return all tracked refs by (kind, name)."""
        return {(tracked.kind, tracked.name): tracked for tracked in self.iter()}

    def iter(self, kind: RefKind | None = None, prefix: str = "") -> Iterator[Tracked]:
        """Yield tracked refs, by kind and then by the bytes of their names."""
        under = self._key(kind, prefix) if kind else self._repository
        cut = len(self._repository)
        for key, data in self._txn.scan(Table.TRACKING, prefix=under):
            yield _load(key[cut:], data)

    def put(self, tracked: Tracked) -> None:
        """Write the record of a ref, replacing any earlier record."""
        data = _dump({name: getattr(tracked, name) for name in Tracked._fields[2:]})
        self._txn.for_writing().put(Table.TRACKING, self._key(tracked.kind, tracked.name), data)

    def delete(self, kind: RefKind, name: str) -> bool:
        """Delete the record of a ref; return whether the ref was tracked."""
        return self._txn.for_writing().delete(Table.TRACKING, self._key(kind, name))

    def _key(self, kind: RefKind, name: str) -> bytes:
        return self._repository + kind.encode() + b"\0" + name.encode("utf-8", "surrogateescape")


@lru_cache(_REMEMBERED)
def _load(ref: bytes, data: bytes) -> Tracked:
    kind, _, name = ref.decode("utf-8", "surrogateescape").partition("\0")
    try:
        fields = json.loads(data)
        commit_id = fields["commit_id"] and CommitId(fields["commit_id"])
        ids = commit_id, fields["sequence"], WriteId(fields["write_id"])
        return Tracked(RefKind(kind), name, *ids, fields["version"])
    except (KeyError, TypeError, ValueError, MalformedId) as error:
        raise _malformed(f"{kind} {name}") from error


_SEQUENCE_SIZE: Final = 8


class ReflogStore(_Rows):
    """The moves in the bucket of one repository's refs."""

    def put_moves(self, kind: RefKind, name: str, moves: Iterable[Mapping[str, Any]]) -> None:
        """Write moves of a ref; each is a JSON object with a ``sequence``."""
        txn = self._txn.for_writing()
        under = self._prefix(kind, name)
        for fields in moves:
            key = under + int(fields["sequence"]).to_bytes(_SEQUENCE_SIZE)
            txn.put(Table.REFLOG, key, _dump(fields))

    def iter_moves(self, kind: RefKind, name: str) -> Iterator[dict[str, Any]]:
        """Yield the moves of a ref, newest first."""
        for _, data in self._txn.scan_reverse(Table.REFLOG, prefix=self._prefix(kind, name)):
            yield _load_fields(data, f"a move of {name}")

    def delete(self, kind: RefKind, name: str) -> None:
        """Delete the moves of a ref."""
        txn = self._txn.for_writing()
        for key in list(txn.scan_keys(Table.REFLOG, prefix=self._prefix(kind, name))):
            txn.delete(Table.REFLOG, key)

    def _prefix(self, kind: RefKind, name: str) -> bytes:
        ref = kind.encode() + b"\0" + name.encode("utf-8", "surrogateescape")
        return self._repository + blake3_of(ref)  # a digest, since a name may be as long as a key


class IntentStore(_Rows):
    """The moves of one repository's refs in the bucket that this clone began.

    A move is deleted when its outcome is recorded.
    """

    def put(self, id: bytes, fields: Mapping[str, Any]) -> None:
        """Write a row; the values of `fields` must be representable in JSON."""
        self._txn.for_writing().put(Table.INTENTS, self._repository + id, _dump(fields))

    def find(self, id: bytes) -> dict[str, Any] | None:
        """Return the fields of a begun move; ``None`` if there is no row with this ID."""
        data = self._txn.get(Table.INTENTS, self._repository + id)
        return None if data is None else _load_fields(data, "a begun move")

    def iter(self) -> Iterator[tuple[bytes, dict[str, Any]]]:
        """Yield all rows as (ID, fields), by ID."""
        cut = len(self._repository)
        for key, data in self._txn.scan(Table.INTENTS, prefix=self._repository):
            yield key[cut:], _load_fields(data, "a begun move")

    def delete(self, id: bytes) -> bool:
        """Delete a row; return whether it existed."""
        return self._txn.for_writing().delete(Table.INTENTS, self._repository + id)


_COMMIT: Final = b"c"
_PACK: Final = b"p"
_REPLACED: Final = b"\1"


class PackedStore(_Rows):
    """The records of commit packs of one repository in the bucket, and of their commits."""

    def add(
        self, pack_id: PackId, commit_ids: Iterable[CommitId], *, replaces: Iterable[PackId] = ()
    ) -> None:
        """Record a pack in the bucket, and its commits.

        The packs in `replaces` are recorded as known too, because the new pack has all of their
        commits.
        """
        txn = self._txn.for_writing()
        pack = bytes.fromhex(pack_id)
        txn.put_new(Table.PACKED, self._repository + _PACK + pack, b"")
        for replaced in replaces:
            key = self._repository + _PACK + bytes.fromhex(replaced)
            txn.put(Table.PACKED, key, _REPLACED)
        rows = ((commit, pack) for commit in sorted(map(bytes.fromhex, commit_ids)))
        txn.put_sorted(Table.PACKED, rows, prefix=self._repository + _COMMIT)

    def find_pack(self, commit_id: CommitId) -> PackId | None:
        """Return the recorded pack of a commit, or ``None``."""
        key = self._repository + _COMMIT + bytes.fromhex(commit_id)
        pack = self._txn.get(Table.PACKED, key)
        return None if pack is None else PackId.of_bytes(pack)

    def known_packs(self) -> Iterator[PackId]:
        """Yield the packs that this clone has recorded, by ID."""
        return (pack_id for pack_id, _ in self._packs())

    def forget(self, pack_ids: Collection[PackId]) -> None:
        """Delete the records of packs that are not in the bucket, and of their commits."""
        if not pack_ids:
            return
        txn = self._txn.for_writing()
        gone = {bytes.fromhex(pack_id) for pack_id in pack_ids}
        under = self._repository + _COMMIT
        rows = [key for key, pack in txn.scan(Table.PACKED, prefix=under) if pack in gone]
        for key in (*rows, *(self._repository + _PACK + pack for pack in gone)):
            txn.delete(Table.PACKED, key)

    def live_packs(self) -> Iterator[PackId]:
        """Yield the recorded packs that no other recorded pack replaces, by ID."""
        return (pack_id for pack_id, value in self._packs() if value != _REPLACED)

    def _packs(self) -> Iterator[tuple[PackId, bytes]]:
        under = self._repository + _PACK
        for key, value in self._txn.scan(Table.PACKED, prefix=under):
            yield PackId.of_bytes(key[len(under) :]), value
