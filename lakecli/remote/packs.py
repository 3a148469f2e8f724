"""Commit packs: the commits in the bucket, a few SSTables that pushes write.

A pack is named by the BLAKE3 of its bytes and never changes. Its records are `commit_data`'s,
its properties beside the format's own::

    type      commits
    entity    commit
    writer    lakecli
    replaces  IDs of the packs whose commits it holds too, 32 bytes each, ascending

Packs are merged by size: of eight whose sizes are about the same, one is made. So their number
grows with the logarithm of the bytes in them, and each commit is rewritten a few times in all.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.errors import IntegrityError
from lakecli.ids import PackId
from lakecli.layout import (
    COMMITS,
    LARGEST_PACK,
    MAX_PACK_GROWTH,
    MAX_PACK_SIZE,
    PACK_ALLOWANCE,
    pack_key,
)
from lakecli.objectstore.base import ObjectNotFound, TooLarge, get_bounded

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from datetime import datetime

    from lakecli.model import Commit
    from lakecli.objectstore.base import ObjectStore

LEVEL_FACTOR: Final = 8
"""Packs of one level become one of the next."""

SMALLEST_LEVEL: Final = 16 << 10
"""Bytes of a pack below which all count as equal."""

REPLACES: Final = "replaces"

_ID_SIZE: Final = 32
_SHOWN: Final = 64
_MOST_BAD: Final = 100
"""Records that are no commits, beyond which a pack is taken for damaged."""
_PROPERTIES: Final = {"type": b"commits", "entity": b"commit", "writer": b"lakecli"}


class DamagedPack(IntegrityError):
    """A commit pack that cannot be read, or does not hold what its name says; `pack_id` is that."""

    def __init__(self, pack_id: PackId, what: str) -> None:
        self.pack_id = pack_id
        super().__init__(
            f"damaged commit pack {pack_key(pack_id)}: {what}",
            hint="a clone that has its commits writes them anew: lakecli fsck --repair REPOSITORY; "
            "else restore this object from a backup",
        )


class PackInfo(NamedTuple):
    """A pack as the listing knows it; `size` in bytes."""

    id: PackId
    size: int
    modified_at: datetime


class BadCommit(NamedTuple):
    """A record of a pack that is no commit: what stands as its ID, and why it is none."""

    id: str
    what: str


@dataclass(frozen=True, slots=True)
class Pack:
    """A pack that was read and verified.

    Attributes:
        id: 64 hex digits.
        replaces: IDs of the packs whose commits it holds too.
        commits: ordered by ID.
        bad: records that are no commits, and were left out; such a pack is replaced by none.
    """

    id: PackId
    replaces: tuple[PackId, ...]
    commits: list[Commit]
    bad: tuple[BadCommit, ...] = ()


def list_packs(store: ObjectStore) -> list[PackInfo]:
    """Return the packs in the bucket, in the order of their keys; what is no pack is left out.

    One LIST for each thousand. A store may list late: a pack that is missing here may be there.
    """
    return [
        PackInfo(PackId(pack_id), info.size, info.modified_at)
        for info in store.list(COMMITS)
        if PackId.is_valid(pack_id := info.key.removeprefix(COMMITS))
    ]


def read_pack(store: ObjectStore, pack_id: PackId) -> Pack:
    """Read a pack whole, verify it, and compute the IDs of its commits anew; one GET.

    Raises:
        ObjectNotFound: there is no such pack.
        DamagedPack: it is not what its name says.
    """
    from lakecli.identity import h

    try:
        data = get_bounded(store, pack_key(pack_id), MAX_PACK_SIZE)
    except TooLarge as error:
        raise DamagedPack(pack_id, f"it has more than {MAX_PACK_SIZE:,} bytes") from error
    if h(data).hex() != pack_id:
        raise DamagedPack(pack_id, f"its {len(data)} bytes are not those it is named after")
    try:
        return _parse(pack_id, data)
    except IntegrityError as error:
        raise DamagedPack(pack_id, error.message) from error


def read_new_packs(
    store: ObjectStore,
    known: Collection[PackId],
    *,
    also: Collection[PackId] = (),
    on_damage: Callable[[DamagedPack], None] | None = None,
) -> Iterator[Pack]:
    """Yield the packs that are not known and not replaced by one that was read, largest first.

    A pack that is deleted between its listing and its reading was replaced: the listing is asked
    again for what replaced it.

    Args:
        store: of the namespace.
        known: IDs of packs whose commits this clone has.
        also: IDs that the moves of refs name: they are read though a late listing lacks them, and
            passed over where they are gone, replaced by another.
        on_damage: told of each that is not what its name says, which is then passed over; without
            it that is raised.

    Raises:
        DamagedPack: one is not what its name says.
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
                pack = read_pack(store, pack_id)
            except ObjectNotFound:
                listed |= pack_id not in late
                continue
            except DamagedPack as error:
                if on_damage is None:
                    raise
                on_damage(error)
                continue
            done.update(pack.replaces)
            yield pack


def read_named_packs(
    store: ObjectStore,
    ids: Iterable[PackId],
    *,
    on_damage: Callable[[DamagedPack], None] | None = None,
) -> Iterator[Pack]:
    """Yield packs, without those that are gone or replaced by one that was read before them.

    Args:
        store: of the namespace.
        ids: of the packs, the newest first.
        on_damage: as of `read_new_packs`.

    Raises:
        DamagedPack: one is not what its name says.
    """
    done: set[PackId] = set()
    for pack_id in ids:
        if pack_id in done:
            continue
        done.add(pack_id)
        try:
            pack = read_pack(store, pack_id)
        except ObjectNotFound:
            continue
        except DamagedPack as error:
            if on_damage is None:
                raise
            on_damage(error)
            continue
        done.update(pack.replaces)
        yield pack


def write_pack(
    store: ObjectStore, commits: Sequence[Commit], *, replaces: Sequence[PackId] = ()
) -> PackId:
    """Write commits as one pack and return its ID; repeating it changes nothing.

    Args:
        store: of the namespace.
        commits: in any order, each once.
        replaces: IDs of the packs whose commits are all among them.

    Raises:
        NotText: a commit holds bytes that are no text.
    """
    from lakecli.identity import h
    from lakecli.remote.commit_data import encode_commit
    from lakecli.sstable.writer import TableWriter

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
    """Return the packs that a new one should replace, so that few are left; often none.

    At most seven are left of each level, and a level ends at eight times the size of the last.

    Args:
        packs: what is in the bucket and not replaced yet.
        new_size: of the new pack, in bytes, about.
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
    from lakecli.remote.commit_data import decode_commit
    from lakecli.sstable.framing import MalformedValue
    from lakecli.sstable.reader import BytesSource, Table

    table = Table(BytesSource(pack_key(pack_id), data))
    entity = table.properties.get("entity", b"")
    if entity != _PROPERTIES["entity"]:
        raise IntegrityError(f"it holds {entity!r} where commits should be")
    replaced = table.properties.get(REPLACES, b"")
    if len(replaced) % _ID_SIZE:
        raise IntegrityError("a list of packs that ends within an ID")
    room = PACK_ALLOWANCE + MAX_PACK_GROWTH * len(data)
    commits: list[Commit] = []
    bad: list[BadCommit] = []
    for key, value in table.records():
        room -= len(key) + len(value)
        if room < 0:
            raise IntegrityError("its records are many times as large as it is")
        try:
            commits.append(decode_commit(key, value))
        except MalformedValue as error:
            bad.append(BadCommit(key[:_SHOWN].decode("ascii", "backslashreplace"), error.message))
            if len(bad) > _MOST_BAD:
                raise IntegrityError("many of its records are no commits") from error
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
