"""Commit packs: the commits in the bucket, in a few SSTables written by pushes.

A pack is named by the BLAKE3 of its bytes and never changes. Its records are those of
`commit_data`, its properties besides those of the format are::

    type      commits
    entity    commit
    writer    lakecli
    replaces  IDs of the packs whose commits it also holds, 32 bytes each, ascending

Eight packs of similar size are merged into one. So the number of packs grows with the logarithm of
their total size, and each commit is rewritten only a few times.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.base.identity import h
from lakecli.base.ids import PackId
from lakecli.base.layout import (
    COMMITS,
    LARGEST_PACK,
    MAX_PACK_GROWTH,
    MAX_PACK_SIZE,
    PACK_ALLOWANCE,
    pack_key,
)
from lakecli.base.model import Commit
from lakecli.errors import IntegrityError
from lakecli.remote.commit_data import decode_commit, encode_commit
from lakecli.remote.ref_records import InvalidRecord
from lakecli.sstable.format import MalformedValue
from lakecli.sstable.reader import BytesSource, SSTable
from lakecli.sstable.writer import TableWriter
from lakecli.stores.contract import ObjectNotFound, TooLarge, get_bounded

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore

LEVEL_FACTOR: Final = 8
"""Packs of one level that are merged into one of the next."""

SMALLEST_LEVEL: Final = 16 << 10
"""Packs smaller than this, in bytes, are all of the lowest level."""

REPLACES: Final = "replaces"

_ID_SIZE: Final = 32
_SHOWN: Final = 64
_MOST_BAD: Final = 100
"""A pack with more invalid records than this counts as damaged."""
_PROPERTIES: Final = {"type": b"commits", "entity": b"commit", "writer": b"lakecli"}


class DamagedPack(IntegrityError):
    """A commit pack that cannot be read, or whose bytes do not match its name."""

    def __init__(self, pack_id: PackId, what: str) -> None:
        self.pack_id = pack_id
        super().__init__(
            f"damaged commit pack {pack_key(pack_id)}: {what}",
            hint="write it again from a clone that has its commits: lakecli fsck --repair "
            "REPOSITORY; or restore the object from a backup",
        )


class PackInfo(NamedTuple):
    """A pack in the listing; `size` is in bytes."""

    id: PackId
    size: int
    modified_at: datetime


@dataclass(frozen=True, slots=True)
class Pack:
    """A pack that was read and verified.

    Attributes:
        id: 64 hex digits.
        replaces: IDs of the packs whose commits it also holds.
        commits: ordered by ID.
        bad: invalid records, which were left out; no other pack may replace such a pack.
    """

    id: PackId
    replaces: tuple[PackId, ...]
    commits: list[Commit]
    bad: tuple[InvalidRecord, ...] = ()


def list_packs(store: ObjectStore) -> list[PackInfo]:
    """Return the packs in the bucket, in the order of their keys; other objects are left out.

    It takes one LIST per thousand. A store may list late, so a pack missing here may exist.
    """
    return [
        PackInfo(PackId(pack_id), info.size, info.modified_at)
        for info in store.list(COMMITS)
        if PackId.is_valid(pack_id := info.key.removeprefix(COMMITS))
    ]


def read_pack(store: ObjectStore, pack_id: PackId) -> Pack:
    """Read a pack by one GET, verify it, and recompute the IDs of its commits.

    Raises:
        ObjectNotFound: the pack does not exist.
        DamagedPack: it cannot be read, or its bytes do not match its name.
    """
    try:
        data = get_bounded(store, pack_key(pack_id), MAX_PACK_SIZE)
    except TooLarge as error:
        raise DamagedPack(pack_id, f"it has more than {MAX_PACK_SIZE:,} bytes") from error
    if h(data).hex() != pack_id:
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
    on_damage: Callable[[InvalidRecord], None] | None = None,
) -> Iterator[Pack]:
    """Yield the packs that are not known and not replaced by one that was read, largest first.

    A pack deleted between listing and reading was replaced by another, so the packs are then listed
    again.

    Args:
        store: of the namespace.
        known: IDs of packs whose commits this clone has.
        also: IDs named by the moves of refs: they are read even if a late listing lacks them, and
            skipped if another pack replaced them.
        on_damage: called with each damaged pack, which is then skipped; without it, `DamagedPack`
            is raised.

    Raises:
        DamagedPack: a pack is damaged.
    """
    done = set(known)
    listed = True
    while listed:
        listed = False
        packs = sorted(list_packs(store), key=attrgetter("size", "id"), reverse=True)
        late = sorted(set(also).difference(info.id for info in packs))
        for pack_id in (*(info.id for info in packs), *late):
            if pack_id in done:
                continue
            done.add(pack_id)
            try:
                pack = _read_or_report(store, pack_id, on_damage)
            except ObjectNotFound:
                listed |= pack_id not in late
                continue
            if pack is not None:
                done.update(pack.replaces)
                yield pack


def read_named_packs(
    store: ObjectStore,
    ids: Iterable[PackId],
    *,
    on_damage: Callable[[InvalidRecord], None] | None = None,
) -> Iterator[Pack]:
    """Yield packs, except deleted ones and those replaced by one that was read before.

    Args:
        store: of the namespace.
        ids: of the packs, the newest first.
        on_damage: as in `read_new_packs`.

    Raises:
        DamagedPack: a pack is damaged.
    """
    done: set[PackId] = set()
    for pack_id in ids:
        if pack_id in done:
            continue
        done.add(pack_id)
        try:
            pack = _read_or_report(store, pack_id, on_damage)
        except ObjectNotFound:
            continue
        if pack is not None:
            done.update(pack.replaces)
            yield pack


def _read_or_report(
    store: ObjectStore, pack_id: PackId, on_damage: Callable[[InvalidRecord], None] | None
) -> Pack | None:
    try:
        return read_pack(store, pack_id)
    except DamagedPack as error:
        if on_damage is None:
            raise
        on_damage(InvalidRecord("pack", pack_id, pack_key(pack_id), error.message))
        return None


def write_pack(
    store: ObjectStore, commits: Sequence[Commit], *, replaces: Sequence[PackId] = ()
) -> PackId:
    """Write commits as one pack and return its ID; repeating it changes nothing.

    Args:
        store: of the namespace.
        commits: in any order, each once.
        replaces: IDs of the packs whose commits are all included.

    Raises:
        NotText: a commit has text that is not UTF-8.
    """
    replaced = b"".join(sorted(map(bytes.fromhex, set(replaces))))
    properties = {**_PROPERTIES, REPLACES: replaced} if replaced else _PROPERTIES
    table = TableWriter(properties=properties)
    for commit in sorted(commits, key=attrgetter("id")):
        table.add(commit.id.encode("ascii"), encode_commit(commit))
    data = table.finish()
    pack_id = PackId.of_bytes(h(data))
    store.put_new(pack_key(pack_id), data)
    return pack_id


def choose_replaced(packs: Sequence[PackInfo], new_size: int) -> list[PackId]:
    """Return the packs that a new pack should replace, to keep their number small; often none.

    At most seven packs of each level remain. A level ends at eight times the size of the previous.

    Args:
        packs: the packs in the bucket that are not replaced yet.
        new_size: approximate size of the new pack, in bytes.
    """
    levels: dict[int, list[PackInfo]] = {}
    for info in packs:
        if info.size < LARGEST_PACK:
            levels.setdefault(_level(info.size), []).append(info)
    chosen: list[PackId] = []
    total = new_size
    for level in sorted(levels):
        peers = levels[level]
        merged = total + sum(info.size for info in peers)
        if _level(total) < level or merged > 2 * LARGEST_PACK:
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

    table = SSTable(BytesSource(pack_key(pack_id), data))
    entity = table.properties.get("entity", b"")
    if entity != _PROPERTIES["entity"]:
        raise IntegrityError(f"it holds {entity!r}, not commits")
    replaced = table.properties.get(REPLACES, b"")
    if len(replaced) % _ID_SIZE:
        raise IntegrityError("its list of replaced packs ends within an ID")
    room = PACK_ALLOWANCE + MAX_PACK_GROWTH * len(data)
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
            bad.append(InvalidRecord("commit", name, pack_key(pack_id), error.message))
            if len(bad) > _MOST_BAD:
                raise IntegrityError("many of its records are not commits") from error
    return Pack(
        id=pack_id,
        replaces=tuple(
            [
                PackId.of_bytes(replaced[start : start + _ID_SIZE])
                for start in range(0, len(replaced), _ID_SIZE)
            ]
        ),
        commits=commits,
        bad=tuple(bad),
    )
