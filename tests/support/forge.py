"""Writes any namespace byte by byte, as an attacker with write access to the bucket can.

A `Namespace` is first a sound repository of two commits, a branch, a tag, a reflog and a
collection under way, as plain fields. Whoever forges changes fields, and `objects` builds the
bucket of them: IDs that follow from contents are computed anew, so that a hostile field is behind
names that are all valid. Nothing here uses lakecli's own writers of records.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakecli.base.identity import blake3_of, commit_id, entry_identity
from tests.sstable.tables import build

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

UUID = "0123456789abcdef0123456789abcdef"
WRITE = "a" * 32
DATE = 1_772_366_400
DATE_TEXT = "2026-03-01T12:00:00Z"
Raw = bytes
"""The value of a field as it is encoded on the wire, whatever its type should be."""


def varint(number: int) -> bytes:
    """Encode a number as protobuf does; negative ones as 64 bits."""
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def message(fields: Sequence[tuple[int, object]]) -> bytes:
    """Encode a message of numbers and strings, in the given order, repeated fields included."""
    out = b""
    for number, value in fields:
        if value is None:
            continue
        if isinstance(value, bool | int):
            out += varint(number << 3) + varint(int(value))
            continue
        data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        assert isinstance(data, bytes)
        out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def framed(identity: bytes, data: bytes) -> bytes:
    """Put a length (Go's signed varint) before an identity and before data."""
    return b"".join(varint(len(part) << 1) + part for part in (identity, data))


def utf8(value: object) -> bytes:
    """Return a text as bytes, surrogates included."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


@dataclass
class Entry:
    """An object of a tree; without an `identity` it has the one that lakecli computes."""

    path: bytes = b"a"
    address: Any = ""
    seconds: Any = DATE
    size: Any = 4
    checksum: Any = ""
    metadata: list[tuple[Any, Any]] = field(default_factory=list)
    address_type: Any = 1
    content_type: Any = "text/plain"
    identity: bytes | None = None

    def value(self) -> bytes:
        """Return the value of its record."""
        pairs = [message([(1, key), (2, value)]) for key, value in self.metadata]
        data = message(
            [
                (1, self.address),
                (2, message([(1, self.seconds)])),
                (3, self.size),
                (4, self.checksum),
                *((5, pair) for pair in pairs),
                (6, self.address_type),
                (7, self.content_type),
            ]
        )
        identity = self.identity
        if identity is None:
            try:
                identity = entry_identity(
                    size=self.size,
                    checksum=self.checksum,
                    metadata={k: v for k, v in self.metadata if not k.startswith("::lakefs::")},
                    content_type=self.content_type,
                    address="" if self.address.startswith("data/") else self.address,
                )
            except (AttributeError, TypeError, ValueError, OverflowError):
                identity = blake3_of(data)
        return framed(identity, data)


@dataclass
class Range:
    """The record of a range in a metarange; ``None`` stands for the true value."""

    entries: list[Entry]
    id: Any = None
    key: bytes | None = None
    min_key: Any = None
    max_key: Any = None
    size: Any = None
    count: Any = None
    properties: dict[str, bytes] = field(default_factory=dict)


@dataclass
class Commit:
    """Fields of a ``CommitData``; `id` and `key` are computed if ``None``."""

    metarange_id: Any = None
    message: Any = "message"
    committer: Any = "Ada <ada@example.com>"
    seconds: Any = DATE
    metadata: list[tuple[Any, Any]] = field(default_factory=list)
    parents: list[Any] = field(default_factory=list)
    version: Any = 1
    generation: Any = 1
    id: Any = None
    key: Any = None

    def computed(self) -> str:
        """Return the ID of these fields, or a hash of them if they are invalid."""
        try:
            return commit_id(
                committer=self.committer,
                message=self.message,
                metarange_id=self.metarange_id,
                created_at=self.seconds,
                metadata=dict(self.metadata),
                parents=self.parents,
            )
        except (AttributeError, TypeError, ValueError, OverflowError):
            return blake3_of(repr(self).encode()).hex()


class Namespace:
    """The records of a namespace, as fields that a test changes.

    Attributes:
        files: contents of the objects of the tree, by path.
        expires_tree: whether the list of expired trees names the one that is in use.
        raw: objects that stand over all others; ``None`` takes one away.
    """

    def __init__(self) -> None:
        self.files = {b"a": b"aaaa", b"dir/b": b"bbbb", b"dir/c": b"cccc"}
        self.entries = {
            path: Entry(
                path, address=self.address(data), checksum=blake3_of(data).hex(), size=len(data)
            )
            for path, data in self.files.items()
        }
        self.range = Range([])
        self.metarange_properties = {
            "type": b"metaranges",
            "writer": b"lakecli",
            "lakecli.tree": b"1;n=16",
        }
        self.first = Commit(metarange_id="", message="Repository created")
        self.commit = Commit(generation=2, seconds=DATE + 1)
        self.pack_properties = {"type": b"commits", "entity": b"commit", "writer": b"lakecli"}
        self.repository: Any = {
            "format": 1,
            "uuid": UUID,
            "range_entries": 16,
            "default_branch": "main",
            "created": DATE_TEXT,
            "needs_read": [],
            "needs_write": [],
        }
        self.branch: dict[str, Any] = {}
        self.branch_move: dict[str, Any] = {}
        self.tag: dict[str, Any] = {}
        self.older_move: dict[str, Any] = {}
        self.state: dict[str, Any] = {}
        self.rules: dict[str, Any] = {}
        self.sharing: dict[str, Any] = {}
        self.policy: dict[str, Any] = {}
        self.doomed: dict[str, Any] = {}
        self.expires_tree = False
        self.raw: dict[str, bytes | None] = {}

    @staticmethod
    def address(data: bytes) -> str:
        """Return the content address of bytes."""
        digest = blake3_of(data).hex()
        return f"data/{digest[:2]}/{digest[2:]}"

    def copy(self) -> Namespace:
        """Return an independent copy."""
        return copy.deepcopy(self)

    def objects(self) -> dict[str, bytes]:
        """Return the objects of the bucket, by key below the namespace."""
        made: dict[str, bytes] = {self.address(data): data for data in self.files.values()}
        made["_lakefs/dummy"] = b"this is dummy data - created by lakeFS to check accessibility"
        tree = self._tree(made)
        commit = copy.deepcopy(self.commit)
        if commit.metarange_id is None:
            commit.metarange_id = tree
        root = self.first.computed()
        if not commit.parents:
            commit.parents = [root]
        head = commit.computed()
        pack = self._pack([(root, self.first), (head, commit)])
        made[f"_lakecli/commits/{blake3_of(pack).hex()}"] = pack
        made["_lakecli/repository.json"] = encoded(self.repository)
        result = {
            "place": "memory://lake", "reason": "", "races": 66, "at": "2026-11-28T12:00:00Z",
            "by": "ada", "again": False, **self.sharing,
        }  # fmt: skip
        policy = {
            "format": 1, "number": 2, "write_id": "b" * 32, "who": "Ada <ada@x>",
            "at": "2026-01-01T00:00:00Z", "document": '[[rules]]\nrefs = ["held"]\n',
        }  # fmt: skip
        made["_lakecli/policies/0000000000000001"] = encoded({**policy, "number": 1})
        made["_lakecli/policy"] = encoded({**policy, **self.policy})
        made["_lakecli/sharing.json"] = encoded({"format": 1, "results": [result]})
        made["_lakecli/refs/branches/main"] = self._branch(root, head, blake3_of(pack).hex())
        made["_lakecli/refs/tags/v1"] = self._tag(head)
        older = {**self._move(1, None, root, WRITE), **self.older_move}
        made[f"_lakecli/reflog/branches/main/{1:016d}"] = encoded({"format": 1, "moves": [older]})
        made |= self._collection(tree)
        for key, body in self.raw.items():
            made.pop(key, None)
            if body is not None:
                made[key] = body
        return made

    def _tree(self, made: dict[str, bytes]) -> str:
        entries = {entry.path: entry for entry in self.entries.values()}
        first, last = min(entries), max(entries)
        records = [(path, entries[path].value()) for path in sorted(entries)]
        range_id = blake3_of(
            b"".join(
                blake3_of(blake3_of(key) + blake3_of(_identity(value))) for key, value in records
            )
        ).hex()
        data = build(records, **{"type": b"ranges", "writer": b"lakecli", **self.range.properties})
        made[f"_lakefs/{range_id}"] = data
        said = self.range
        name = range_id if said.id is None else said.id
        key = last if said.key is None else said.key
        record = message(
            [
                (1, first if said.min_key is None else said.min_key),
                (2, last if said.max_key is None else said.max_key),
                (3, len(data) if said.size is None else said.size),
                (4, len(records) if said.count is None else said.count),
            ]
        )
        metarange = build([(key, framed(utf8(name), record))], **self.metarange_properties)
        metarange_id = blake3_of(blake3_of(blake3_of(key) + blake3_of(utf8(name)))).hex()
        made[f"_lakefs/{metarange_id}"] = metarange
        return metarange_id

    def _pack(self, commits: list[tuple[str, Commit]]) -> bytes:
        records = []
        for computed, commit in commits:
            key = utf8(computed if commit.key is None else commit.key)
            data = message(
                [
                    (1, computed if commit.id is None else commit.id),
                    (2, commit.committer),
                    (3, commit.message),
                    (4, message([(1, commit.seconds)])),
                    (5, commit.metarange_id),
                    *((6, message([(1, k), (2, v)])) for k, v in commit.metadata),
                    *((7, parent) for parent in commit.parents),
                    (8, commit.version),
                    (9, commit.generation),
                ]
            )
            records.append((key, framed(key, data)))
        return build(sorted(dict(records).items()), **self.pack_properties)

    def _move(self, number: int, before: object, after: object, write: str) -> dict[str, Any]:
        return {
            "sequence": number,
            "write_id": write,
            "from": before,
            "to": after,
            "who": "Ada <ada@example.com>",
            "at": DATE_TEXT,
            "why": "push",
            "pack": "",
        }

    def _branch(self, root: str, head: str, pack: str) -> bytes:
        move = {**self._move(2, root, head, "b" * 32), "pack": pack, **self.branch_move}
        fields = {
            "format": 1,
            "kind": "branch",
            "name": "main",
            "commit_id": head,
            "sequence": 2,
            "write_id": "b" * 32,
            "moves": [move],
        }
        # The ref repeats a forged move, so that the two agree.
        for name, other in (
            ("to", "commit_id"),
            ("sequence", "sequence"),
            ("write_id", "write_id"),
        ):
            if name in self.branch_move:
                fields[other] = self.branch_move[name]
        return encoded({**fields, **self.branch})

    def _tag(self, head: str) -> bytes:
        fields = {
            "format": 1,
            "kind": "tag",
            "name": "v1",
            "commit_id": head,
            "sequence": 1,
            "write_id": "c" * 32,
            "moves": [self._move(1, None, head, "c" * 32)],
        }
        return encoded({**fields, **self.tag})

    def _collection(self, tree: str) -> dict[str, bytes]:
        mark = f"3-{'d' * 32}"
        gone = blake3_of(b"gone").hex()
        expired = tree if self.expires_tree else blake3_of(b"expired").hex()
        state = {
            "format": 1,
            "phase": "condemned",
            "epoch": 3,
            "mark": mark,
            "grace": 86_400 * 14,
            "write_id": "d" * 32,
        }
        doomed = {"key": f"_lakefs/{blake3_of(b'range').hex()}", "size": 10, "kind": "range"}
        rules = {
            "default_retention_days": 21,
            "branches": [{"branch_id": "main", "retention_days": 28}],
        }
        return {
            "_lakecli/gc/state": encoded({**state, **self.state}),
            "_lakecli/gc/rules.json": encoded({**rules, **self.rules}),
            f"_lakecli/gc/marks/{mark}/data-all": bytes.fromhex(gone) + bytes(8),
            f"_lakecli/gc/marks/{mark}/others": encoded({**doomed, **self.doomed}) + b"\n",
            f"_lakecli/gc/keep/3/{'e' * 32}": f"data/{gone[:2]}/{gone[2:]}\n".encode(),
            "_lakecli/gc/expired/2": bytes.fromhex(expired),
        }


def _identity(value: bytes) -> bytes:
    size = shift = at = 0
    for at, byte in enumerate(value, 1):  # noqa: B007
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte <= 0x7F:
            break
    return value[at : at + (size >> 1)]


def encoded(fields: object) -> bytes:
    """Return fields as JSON, with Python's spelling of NaN and infinity."""
    return json.dumps(fields).encode()


def messages_out_of_order() -> Iterator[tuple[str, bytes]]:
    """Yield bytes that are no messages: wrong wire types, truncated, endless, deep."""
    yield "empty", b""
    yield "cut", b"\x0a\x7f"
    yield "endless number", b"\x08" + b"\xff" * 20
    yield (
        "wrong wire types",
        b"".join(varint(number << 3 | 5) + b"\0\0\0\0" for number in range(1, 10)),
    )
    yield "groups", b"\x0b" * 10_000
    yield "huge length", b"\x0a" + varint(1 << 62)
    yield "noise", blake3_of(b"noise") * 20
