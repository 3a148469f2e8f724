"""Branches, tags and commits: how they are read, and how the local store keeps them.

The other modules of this package read branches, tags and commits through protocols: `CommitReader`,
and `resolve.RefReader`. So resolution, merge bases and logs work on any storage; tests keep commits
in a dict. `get_parent` follows a commit to one of its parents.

`RefStore` reads and writes the branches, tags and commits of a repository in the local store, in
one transaction. Keys are the repository's 16 UUID bytes and then the name, or the commit's 32 raw
ID bytes. Values are compact JSON with times as unix seconds, which is quick to load. Fields of a
branch or tag that a later version added are kept when this version rewrites the record.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from lakecli.base.ids import MalformedId
from lakecli.base.model import Branch, Commit, CommitId, MetarangeId, RefKind, StagingToken, Tag
from lakecli.errors import IntegrityError, NotFound, UsageError
from lakecli.kv.local_store import MAX_KEY_SIZE, ReadTransaction, Table, owner_key, scan_ids
from lakecli.kv.store_errors import malformed

N = TypeVar("N", bound=str)
R = TypeVar("R")
Fields: TypeAlias = dict[str, Any]

MAX_NAME_SIZE: Final = MAX_KEY_SIZE - 16
"""Maximum size of a branch's or tag's name in bytes; the rest of the key is the UUID."""

RUNS: Final = b"run/"
"""The beginning of the key of a run's row, see `lakecli.repository.run`."""

_ID_SIZE: Final = 64
_DIGITS: Final = frozenset("0123456789abcdef")


class CommitReader(Protocol):
    """A reader that finds commits by ID."""

    def find_commit(self, id: CommitId) -> Commit | None:
        """Return the commit, or ``None`` if this clone does not have it."""


class DamagedHistory(IntegrityError):
    """A commit of the history is missing, or its generation is not above that of its parents."""

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="look for more damage: `fsck REPOSITORY`")


def get_commit(reader: CommitReader, id: CommitId) -> Commit:
    """Return a commit that another record refers to, or raise `DamagedHistory`."""
    commit = reader.find_commit(id)
    if commit is None:
        raise DamagedHistory(f"missing commit {id}")
    return commit


def get_parent(reader: CommitReader, child: Commit, id: CommitId) -> Commit:
    """Return one of the parents of a commit.

    Raises:
        DamagedHistory: this clone does not have the parent, or the parent's generation is not below
            the child's.
    """
    parent = reader.find_commit(id)
    if parent is None:
        raise DamagedHistory(f"missing commit {id}, a parent of {child.id}")
    if parent.generation >= child.generation:
        raise DamagedHistory(
            f"generation {child.generation} of commit {child.id} is not above "
            f"{parent.generation}, that of its parent {id}"
        )
    return parent


class RefStore:
    """The branches, tags and commits of one repository, ordered by the bytes of their names.

    Methods that write need a write transaction.
    """

    def __init__(self, txn: ReadTransaction, repository: bytes) -> None:
        self._txn = txn
        self._repository = owner_key(repository)

    def find_branch(self, name: str) -> Branch | None:
        """Return a branch, or ``None`` if it does not exist."""
        return self._find(Table.BRANCHES, name, _branch_of)

    def iter_branches(self, *, prefix: str = "", after: str = "") -> Iterator[Branch]:
        """Yield the branches whose names start with `prefix` and sort after `after`."""
        return self._scan(Table.BRANCHES, prefix, after, _branch_of)

    def put_branch(self, branch: Branch) -> None:
        """Create or replace a branch; fields that this version does not know are kept."""
        self._put(Table.BRANCHES, branch)

    def delete_branch(self, name: str) -> bool:
        """Delete a branch and the rows of its runs; return whether it existed.

        A branch that is later made with this name does not belong to a run.
        """
        for key, row in list(self._txn.scan(Table.META, prefix=RUNS + self._repository)):
            if json.loads(row)["branch"] == name:
                self._txn.for_writing().delete(Table.META, key)
        return self._delete(Table.BRANCHES, name)

    def find_tag(self, name: str) -> Tag | None:
        """Return a tag, or ``None`` if it does not exist."""
        return self._find(Table.TAGS, name, _tag_of)

    def iter_tags(self, *, prefix: str = "", after: str = "") -> Iterator[Tag]:
        """Yield the tags whose names start with `prefix` and sort after `after`."""
        return self._scan(Table.TAGS, prefix, after, _tag_of)

    def put_tag(self, tag: Tag) -> None:
        """Create or replace a tag; fields that this version does not know are kept."""
        self._put(Table.TAGS, tag)

    def delete_tag(self, name: str) -> bool:
        """Delete a tag; return whether it existed."""
        return self._delete(Table.TAGS, name)

    def iter_refs(self) -> Iterator[tuple[RefKind, str, CommitId]]:
        """Yield the branches, then the tags, each as its kind, its name and its commit's ID."""
        for branch in self.iter_branches():
            yield RefKind.BRANCH, branch.name, branch.commit_id
        for tag in self.iter_tags():
            yield RefKind.TAG, tag.name, tag.commit_id

    def position(self, kind: RefKind, name: str) -> CommitId | None:
        """Return the commit that a branch or tag points to; ``None`` if the ref does not exist."""
        found = self.find_branch(name) if kind is RefKind.BRANCH else self.find_tag(name)
        return None if found is None else found.commit_id

    def find_commit(self, id: CommitId) -> Commit | None:
        """Return a commit, or ``None`` if this clone does not have it."""
        if len(id) != _ID_SIZE or not _DIGITS.issuperset(id):
            return None
        data = self._txn.get(Table.COMMITS, self._repository + bytes.fromhex(id))
        return None if data is None else _load(id, data, _commit_of)

    def get_commit(self, id: CommitId) -> Commit:
        """Return a commit; raise `NotFound` if this clone does not have it."""
        commit = self.find_commit(id)
        if commit is None:
            raise NotFound(f"no commit {id}")
        return commit

    def put_commit(self, commit: Commit) -> None:
        """Write a commit under its ID, which is not verified."""
        fields = commit._asdict()
        del fields["id"]  # it is the key
        fields["created_at"] = int(commit.created_at.timestamp())
        fields["metadata"] = dict(commit.metadata)
        if not commit.nanoseconds:
            del fields["nanoseconds"]
        if commit.version == 1:
            del fields["version"]
        key = self._repository + bytes.fromhex(commit.id)
        self._txn.for_writing().put(Table.COMMITS, key, _dump(fields))

    def iter_commit_ids(self, prefix: str) -> Iterator[CommitId]:
        """Yield the commit IDs that start with `prefix` (lowercase hex digits), ascending."""
        if not _DIGITS.issuperset(prefix):
            return
        for found in scan_ids(self._txn, Table.COMMITS, self._repository, prefix):
            yield CommitId(found.hex())

    def iter_commits(self) -> Iterator[Commit]:
        """Yield all commits, by ascending ID."""
        cut = len(self._repository)
        for key, data in self._txn.scan(Table.COMMITS, prefix=self._repository):
            yield _load(CommitId(key[cut:].hex()), data, _commit_of)

    def _find(self, table: Table, name: str, read: Callable[[str, Fields], R]) -> R | None:
        key = _encode(name)
        if not 1 <= len(key) <= MAX_NAME_SIZE:
            return None
        data = self._txn.get(table, self._repository + key)
        return None if data is None else _load(name, data, read)

    def _scan(
        self, table: Table, prefix: str, after: str, read: Callable[[str, Fields], R]
    ) -> Iterator[R]:
        start = self._repository + _encode(after) + b"\0" if after else b""
        under = self._repository + _encode(prefix)
        cut = len(self._repository)
        for key, data in self._txn.scan(table, prefix=under, start=start):
            yield _load(key[cut:].decode("utf-8", "surrogateescape"), data, read)

    def _put(self, table: Table, ref: Branch | Tag) -> None:
        key, fields = _encode(ref.name), ref_fields(ref)
        if not 1 <= len(key) <= MAX_NAME_SIZE:
            hint = f"a name has from 1 to {MAX_NAME_SIZE} bytes"
            raise UsageError(f"name of {len(key)} bytes: {ref.name[:40]!r}", hint=hint)
        present = self._txn.get(table, self._repository + key)
        if present is not None:
            fields = _load(ref.name, present, lambda _, known: {**known, **fields})
        self._txn.for_writing().put(table, self._repository + key, _dump(fields))

    def _delete(self, table: Table, name: str) -> bool:
        key = _encode(name)
        is_possible = 1 <= len(key) <= MAX_NAME_SIZE
        return is_possible and self._txn.for_writing().delete(table, self._repository + key)


def ref_fields(ref: Branch | Tag) -> dict[str, Any]:
    """Return the fields of the record of a branch or tag as JSON, without the name."""
    fields: dict[str, Any] = {"commit_id": ref.commit_id}
    if isinstance(ref, Branch):
        fields["staging_token"] = ref.staging_token.hex()
        fields["sealed_tokens"] = [token.hex() for token in ref.sealed_tokens]
    return fields


def ref_of(kind: RefKind, name: str, fields: Mapping[str, Any] | None) -> Branch | Tag | None:
    """Return the branch or tag whose record has these fields; without fields, ``None``."""
    if fields is None:
        return None
    return _branch_of(name, fields) if kind is RefKind.BRANCH else _tag_of(name, fields)


def _encode(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _dump(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode("ascii")


def _load(name: N, data: bytes, read: Callable[[N, Fields], R]) -> R:
    """Parse a record, and return what `read` makes of its name and its fields."""
    try:
        return read(name, json.loads(data))
    except (KeyError, TypeError, ValueError, OverflowError, MalformedId) as error:
        raise malformed(f"a record in the local store is not valid: {name}") from error


def _branch_of(name: str, fields: Mapping[str, Any]) -> Branch:
    newest, *sealed = (
        StagingToken(bytes.fromhex(token))
        for token in (fields["staging_token"], *fields["sealed_tokens"])
    )
    return Branch(name, CommitId(fields["commit_id"]), newest, tuple(sealed))


def _tag_of(name: str, fields: Mapping[str, Any]) -> Tag:
    return Tag(name, CommitId(fields["commit_id"]))


def _commit_of(id: CommitId, fields: Fields) -> Commit:
    return Commit(
        id=id,
        parents=tuple([CommitId(parent) for parent in fields["parents"]]),
        metarange_id=MetarangeId(fields["metarange_id"]),
        message=fields["message"],
        committer=fields["committer"],
        created_at=datetime.fromtimestamp(fields["created_at"], UTC),
        metadata=fields["metadata"],
        generation=fields["generation"],
        nanoseconds=fields.get("nanoseconds", 0),
        version=fields.get("version", 1),
    )
