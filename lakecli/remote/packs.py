"""Commit packs: the commits in the bucket, in a few SSTables written by pushes.

A pack is named by the BLAKE3 digest of its bytes and never changes. In addition to the properties
of the format, it has::

    type      commits
    entity    commit
    writer    lakecli
    replaces  IDs of the packs whose commits it also holds, 32 bytes each, ascending

Its records are commits as in lakeFS's dumps: ``CommitData`` messages, with the commit's ID as the
identity. A record's key and its identity are the 64 hex digits of the ID. In a commit of version 1,
the main parent is the first parent.

Eight packs of similar size are merged into one. So the number of packs grows with the logarithm of
their total size, and each commit is rewritten only a few times.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from operator import attrgetter
from typing import Any, Final, NamedTuple

from lakecli.base import layout
from lakecli.base.identity import blake3_of
from lakecli.base.ids import CommitId, MalformedId, MetarangeId, PackId
from lakecli.base.model import Commit
from lakecli.errors import IntegrityError, Refused
from lakecli.proto.messages import COMMIT_DATA, map_of, pairs_of
from lakecli.proto.varint import Malformed
from lakecli.remote.ref_records import InvalidRecord
from lakecli.sstable.format import MalformedValue, decode_value, encode_value
from lakecli.sstable.reader import BytesSource, SSTable
from lakecli.sstable.writer import TableWriter
from lakecli.stores.contract import ObjectNotFound, ObjectStore, TooLarge, get_bounded
from lakecli.stores.streams import groups_of

LEVEL_FACTOR: Final = 8
"""Number of packs of one level that are merged into a pack of the next level."""

SMALLEST_LEVEL: Final = 16 << 10
"""Packs smaller than this size in bytes are of the lowest level."""

REPLACES: Final = "replaces"

_COMMIT_SIZE: Final = 400
"""Approximate bytes of a commit in a pack, without its message and metadata."""

_ID_SIZE: Final = 32
_MOST_BAD: Final = 100
"""A pack with more invalid records than this counts as damaged."""
_PROPERTIES: Final = {"type": b"commits", "entity": b"commit", "writer": b"lakecli"}


class DamagedPack(IntegrityError):
    """A commit pack that cannot be read, or whose bytes do not match its name.

    Attributes:
        bad: the pack itself, as an invalid record; see `Pack.bad`.
    """

    def __init__(self, pack_id: PackId, what: str) -> None:
        key = layout.pack_key(pack_id)
        repair = "`fsck REPOSITORY --repair`; or restore the object from a backup"
        hint = f"write it again from a clone that has its commits: {repair}"
        super().__init__(f"damaged commit pack {key}: {what}", hint=hint)
        self.bad = (InvalidRecord("pack", pack_id, key, self.message),)


class PackInfo(NamedTuple):
    """A pack in a listing of the bucket; `size` is in bytes."""

    id: PackId
    size: int
    modified_at: datetime


class Pack(NamedTuple):
    """A pack that was read and verified.

    Attributes:
        id: the ID of the pack, 64 hex digits.
        replaces: IDs of the packs whose commits this pack also has.
        commits: the valid commits, ordered by ID.
        bad: the invalid records. A pack with invalid records is never replaced.
    """

    id: PackId
    replaces: tuple[PackId, ...]
    commits: list[Commit]
    bad: tuple[InvalidRecord, ...] = ()


def list_packs(store: ObjectStore) -> list[PackInfo]:
    """Return the packs in the bucket, in the order of their keys; other objects are left out.

    One LIST request returns a thousand packs. A store's listing may lag behind, so the result may
    lack a pack that exists.
    """
    return [
        PackInfo(PackId(pack_id), info.size, info.modified_at)
        for info in store.list(layout.COMMITS)
        if PackId.is_valid(pack_id := info.key.removeprefix(layout.COMMITS))
    ]


def read_pack(store: ObjectStore, pack_id: PackId) -> Pack:
    """Read a pack with one GET, verify it, and recompute the IDs of its commits.

    Raises:
        DamagedPack: the pack cannot be read, or its bytes do not match its name.
    """
    try:
        data = get_bounded(store, layout.pack_key(pack_id), layout.MAX_PACK_SIZE)
    except TooLarge as error:
        raise DamagedPack(pack_id, f"it has more than {layout.MAX_PACK_SIZE:,} bytes") from error
    if blake3_of(data).hex() != pack_id:
        raise DamagedPack(pack_id, f"its name is not the digest of its {len(data)} bytes")
    try:
        return _parse(pack_id, data)
    except IntegrityError as error:
        raise DamagedPack(pack_id, error.message) from error


def read_new_packs(
    store: ObjectStore,
    known: Collection[PackId],
    *,
    also: Collection[PackId] = (),
    all_packs: bool = False,
) -> Iterator[Pack | DamagedPack]:
    """Yield packs not in `known`, largest first; skip packs that an already yielded pack replaces.

    For a damaged pack, the error is yielded. A pack that was deleted between listing and reading
    was replaced by another pack, so the packs are then listed again.

    Args:
        also: IDs of packs that the moves of refs name. These packs are read even if a stale listing
            lacks them, and skipped if another pack replaced them.
        all_packs: yield replaced packs, too: a pack only claims which packs it replaces.
    """
    done = set(known)
    listed = True
    while listed:
        listed = False
        packs = list_packs(store)
        if not all_packs:  # the large ones first, since they replace others
            packs.sort(key=attrgetter("size", "id"), reverse=True)
        late = sorted(set(also).difference(info.id for info in packs))
        ids = (*(each.id for each in packs), *late)
        for pack_id, pack in _read_each(store, ids, done, all_packs=all_packs):
            if pack is None:
                listed |= pack_id not in late
            else:
                yield pack


def read_named_packs(store: ObjectStore, ids: Iterable[PackId]) -> Iterator[Pack | DamagedPack]:
    """Yield packs by ID; skip deleted packs, and packs that an already yielded pack replaces.

    For a damaged pack, the error is yielded.
    """
    return (pack for _, pack in _read_each(store, ids, set()) if pack is not None)


def _read_each(
    store: ObjectStore, ids: Iterable[PackId], done: set[PackId], *, all_packs: bool = False
) -> Iterator[tuple[PackId, Pack | DamagedPack | None]]:
    """Yield (ID, pack) for each ID that is not in `done`; the pack is ``None`` if it was deleted.

    The IDs of the packs that are read are added to `done`, and without `all_packs` also the IDs of
    the packs that they replace.
    """
    for pack_id in ids:
        if pack_id in done:
            continue
        done.add(pack_id)
        try:
            pack = read_pack(store, pack_id)
        except ObjectNotFound:
            yield pack_id, None
        except DamagedPack as error:
            yield pack_id, error
        else:
            done.update(() if all_packs else pack.replaces)
            yield pack_id, pack


def find_replaceable_pack(store: ObjectStore, pack_id: PackId) -> Pack | None:
    """Read a pack that another pack is to replace; ``None`` if some of its commits cannot be read.

    That is the case if the pack is missing or damaged, or has records that this version cannot
    read: they may be commits of a later version.
    """
    try:
        pack = read_pack(store, pack_id)
    except (DamagedPack, ObjectNotFound):
        return None
    return None if pack.bad else pack


def write_pack(
    store: ObjectStore, commits: Sequence[Commit], *, replaces: Sequence[PackId] = ()
) -> PackId:
    """Write commits as one pack and return its ID; repeating the call changes nothing.

    Args:
        commits: the commits in any order, each once.

    Raises:
        NotText: a commit has text that is not UTF-8.
    """
    replaced = b"".join(sorted(map(bytes.fromhex, set(replaces))))
    properties = {**_PROPERTIES, REPLACES: replaced} if replaced else _PROPERTIES
    table = TableWriter(properties=properties)
    ordered = sorted(commits, key=attrgetter("id"))
    keys = [commit.id.encode("ascii") for commit in ordered]
    table.add_many(keys, list(map(encode_commit, ordered)))
    data = table.finish()
    pack_id = PackId.of_bytes(blake3_of(data))
    store.put_new(layout.pack_key(pack_id), data)
    return pack_id


def size_of_commit(commit: Commit) -> int:
    """Return the approximate size in bytes of a commit in a pack."""
    return _COMMIT_SIZE + len(commit.message) + sum(map(len, chain(*commit.metadata.items())))


def divide_into_packs(commits: Iterable[Commit]) -> Iterator[Sequence[Commit]]:
    """Divide new commits into groups, each for one pack that can be read; parents come first."""
    ordered = sorted(commits, key=attrgetter("generation"))
    return groups_of(ordered, size_of_commit, most=layout.LARGEST_PACK)


def choose_replaced(packs: Sequence[PackInfo], new_size: int) -> list[PackId]:
    """Return the packs that a new pack should replace (often none), to keep their number small.

    At most seven packs of each level remain. The maximum size of a level's packs is eight times
    that of the previous level.
    """
    levels: dict[int, list[PackInfo]] = {}
    for info in packs:
        if info.size < layout.LARGEST_PACK:
            levels.setdefault(_level(info.size), []).append(info)
    chosen: list[PackId] = []
    total = new_size
    for level in sorted(levels):
        peers = levels[level]
        merged = total + sum(info.size for info in peers)
        if _level(total) < level or merged > 2 * layout.LARGEST_PACK:
            break
        if len(peers) >= LEVEL_FACTOR - 1:
            chosen += [info.id for info in peers]
            total = merged
    return chosen


def _level(size: int) -> int:
    level = 0
    while size >= SMALLEST_LEVEL:
        size //= LEVEL_FACTOR
        level += 1
    return level


def _parse(pack_id: PackId, data: bytes) -> Pack:
    table = SSTable(BytesSource(layout.pack_key(pack_id), data))
    entity = table.properties.get("entity", b"")
    if entity != _PROPERTIES["entity"]:
        raise IntegrityError(f"it holds {entity!r}, not commits")
    replaced = table.properties.get(REPLACES, b"")
    if len(replaced) % _ID_SIZE:
        raise IntegrityError("its list of replaced packs ends within an ID")
    room = layout.PACK_ALLOWANCE + layout.MAX_PACK_GROWTH * len(data)
    commits: list[Commit] = []
    bad: list[InvalidRecord] = []
    for key, value in table.records():
        room -= len(key) + len(value)
        if room < 0:
            raise IntegrityError("its records are many times larger than the pack")
        try:
            commits.append(decode_commit(key, value))
        except MalformedValue as error:
            name = key[:_SHOWN].decode("ascii", "backslashreplace")
            bad.append(InvalidRecord("commit", name, layout.pack_key(pack_id), error.message))
            if len(bad) > _MOST_BAD:
                raise IntegrityError("many of its records are not commits") from error
    ids = [replaced[start : start + _ID_SIZE] for start in range(0, len(replaced), _ID_SIZE)]
    return Pack(pack_id, tuple(map(PackId.of_bytes, ids)), commits, tuple(bad))


_PICKED: Final = ("cherry-pick-origin", "cherry-pick-committer")
_SECOND: Final = 1_000_000_000
_SHOWN: Final = 64


class TooLong(Refused):
    """A commit is larger than lakecli can read."""


class NotText(Refused):
    """A commit has text that is not UTF-8, which the format cannot store."""


def encode_commit(commit: Commit) -> bytes:
    """Encode a commit as the value of its record in a pack.

    Raises:
        TooLong: the commit's message, or the whole commit, exceeds the limit.
        NotText: the commit's message, committer or metadata are not UTF-8.
    """
    refused = f"commit {commit.id} cannot be shared"
    size = len(commit.message.encode("utf-8", "surrogateescape"))
    if size > layout.MAX_MESSAGE_SIZE:
        hint = f"commit again with a message of at most {layout.MAX_MESSAGE_SIZE:,} bytes"
        raise TooLong(f"{refused}, its message has {size:,} bytes", hint=hint)
    try:
        data = COMMIT_DATA.encode(
            {
                "id": commit.id,
                "committer": commit.committer,
                "message": commit.message,
                "creation_date": {
                    "seconds": int(commit.created_at.timestamp()),
                    "nanos": commit.nanoseconds,
                },
                "meta_range_id": commit.metarange_id,
                "metadata": pairs_of(commit.metadata),
                "parents": commit.recorded_parents,
                "version": commit.version,
                "generation": commit.generation,
            }
        )
    except UnicodeEncodeError as error:
        hint = "commit again with a message, committer and metadata in UTF-8"
        what = f"{refused}, it has text that is not UTF-8: {error.object!r}"
        raise NotText(what, hint=hint) from None
    if len(data) > layout.MAX_COMMIT_SIZE:
        hint = f"commit again with metadata of less than {layout.MAX_COMMIT_SIZE:,} bytes"
        raise TooLong(f"{refused}, it has {len(data):,} bytes", hint=hint)
    return encode_value(commit.id.encode("ascii"), data)


def decode_commit(key: bytes, value: bytes) -> Commit:
    """Return the commit in a record; its ID is recomputed and compared with the key.

    Raises:
        MalformedValue: the record is not a commit, its ID does not match, or a field is not valid.
    """
    identity, data = decode_value(value)
    commit = decode_commit_data(key, data)
    if identity != key:
        raise MalformedValue(f"the commit at {key[:_SHOWN]!r} is recorded as another")
    if commit.generation < 1:
        raise MalformedValue(f"no commit at {key[:_SHOWN]!r}: generation {commit.generation}")
    return commit


def decode_commit_data(key: bytes, data: bytes) -> Commit:
    """Return the commit in a ``CommitData`` message; compare its recomputed ID with the key.

    The generation may be 0, as in the commits of old lakeFS servers.

    Raises:
        MalformedValue: the message is malformed, or the ID computed from its fields is different.
    """
    if len(data) > layout.MAX_COMMIT_SIZE:
        raise MalformedValue(f"the commit at {key[:_SHOWN]!r} has {len(data):,} bytes")
    try:
        commit = _commit(COMMIT_DATA.decode(data))
    except MalformedId as error:
        raise MalformedValue(f"the commit at {key[:_SHOWN]!r} names {error.message}") from None
    except (Malformed, ValueError, OverflowError, OSError):
        raise MalformedValue(f"no commit at {key[:_SHOWN]!r}") from None
    if (actual := commit.compute_id()) != commit.id:
        # A lakeFS server adds the metadata of a cherry-pick to the picked commit, too.
        plain = {name: text for name, text in commit.metadata.items() if name not in _PICKED}
        if commit._replace(metadata=plain).compute_id() != commit.id:
            raise MalformedValue(f"the commit at {key[:_SHOWN]!r} is {actual}")
    if commit.id.encode("ascii") != key:
        raise MalformedValue(f"the commit at {key[:_SHOWN]!r} is {commit.id}")
    return commit


def _commit(fields: dict[str, Any]) -> Commit:
    date = fields["creation_date"] or {"seconds": 0, "nanos": 0}
    generation, version, nanos = fields["generation"], fields["version"], date["nanos"]
    if generation < 0 or version not in (0, 1) or not 0 <= nanos < _SECOND:
        raise ValueError(f"generation {generation}, version {version}, {nanos} nanoseconds")
    # The fields are checked before anything is computed from them.
    if len(fields["message"].encode()) > layout.MAX_MESSAGE_SIZE:
        raise ValueError("a message that is too long")
    parents = tuple([CommitId(parent) for parent in fields["parents"]])
    return Commit(
        id=CommitId(fields["id"]),
        parents=parents if version else parents[::-1],
        metarange_id=MetarangeId(fields["meta_range_id"]),
        message=fields["message"],
        committer=fields["committer"],
        created_at=datetime.fromtimestamp(date["seconds"], UTC),
        metadata=map_of(fields["metadata"]),
        generation=generation,
        nanoseconds=nanos,
        version=version,
    )
