"""A metarange that was verified once: what is read of it, and that nothing else is believed."""

from __future__ import annotations

from errno import ENOSPC
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from lakecli.base import layout
from lakecli.base.model import EMPTY_TREE, RangeId
from lakecli.committed import tree_store
from lakecli.committed.cache import OUTLINE_SUFFIX, SstableCache, read_outline
from lakecli.committed.decisions import UNDECIDED
from lakecli.committed.diff import Items, diff, touched
from lakecli.committed.merge import merge
from lakecli.committed.merge_base import MergeBase
from lakecli.committed.metaranges import RangeRecord, encode_range_record
from lakecli.committed.point_reads import SEARCHES, find
from lakecli.committed.tree_store import LruCache, TreeStore
from lakecli.committed.writer import TreeWriter, apply
from lakecli.errors import IntegrityError
from lakecli.sstable.reader import Block, decode_block
from lakecli.stores.contract import ANY
from lakecli.stores.local.store import DirectoryStore
from tests.committed.trees import (
    Changes,
    build,
    change,
    changed,
    contents,
    key,
    large_model,
    new_trees,
    value,
)
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.base.model import MetarangeId
    from lakecli.stores.contract import ObjectStore

N = 1024
SECRET = b"s" * 32
MODEL = large_model(400)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep outlines of small metaranges, too."""
    monkeypatch.setattr(tree_store, "OUTLINED_FROM", 0)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


class Place:
    """A namespace that is a directory, or a bucket, and the cache of this machine."""

    def __init__(self, top: Path, *, is_remote: bool = False) -> None:
        self.namespace, self.cache = top / "namespace", top / "cache"
        self.namespace.mkdir(parents=True)
        self.store: ObjectStore = MemoryStore()
        if not is_remote:
            self.store = DirectoryStore(str(self.namespace))
            self.store.put(layout.REPOSITORY, b"{}", ANY)

    def trees(self, range_entries: int = 16, *, secret: bytes | None = SECRET) -> TreeStore:
        """Return the store as a new process has it."""
        cache = SstableCache(self.cache, secret=lambda: secret)
        return TreeStore(self.store, cache=cache, range_entries=range_entries)

    def file(self, tree: MetarangeId) -> Path:
        return self.namespace / layout.sstable_key(tree)

    def outline(self, tree: MetarangeId) -> Path:
        return self.cache / (tree + OUTLINE_SUFFIX)


def synthetic(place: Place, count: int) -> MetarangeId:
    """Return a tree of many ranges, of which only the first and the last few exist."""
    trees = place.trees(N)
    ends = [
        trees.metarange(build(trees, {b"%b/%05d" % (name, at): value(at) for at in range(3000)}))
        for name in (b"a", b"z")
    ]
    writer = TreeWriter(trees)
    writer.copy_ranges(ends[0], 0, len(ends[0]) - 1, more=True)
    keys = [b"tables/%08d/9" % at for at in range(count)]
    records = [
        RangeRecord(RangeId(sha256(last).hexdigest()), last[:-1] + b"1", last, 600_000, 5_747)
        for last in keys
    ]
    writer.take_ranges(keys, [encode_range_record(record) for record in records])
    writer.copy_ranges(ends[1], 0, len(ends[1]), more=False)
    return writer.finish()


def decoded_blocks(monkeypatch: pytest.MonkeyPatch, place: Place, ranges: int) -> dict[str, int]:
    """Return how many blocks of metaranges some operations decode in a tree of so many ranges."""
    tree = synthetic(place, ranges)
    new = value(-1)
    one = apply(place.trees(N), tree, [(b"a/00777", new)])
    other = apply(place.trees(N), tree, [(b"z/01777", new)])
    decoded: list[bytes] = []

    def decode(stored: bytes) -> Block:
        decoded.append(stored)
        return decode_block(stored)

    def count(do: Callable[[TreeStore], object]) -> int:
        decoded.clear()
        do(place.trees(N))
        return len(decoded)

    def diffs(trees: TreeStore) -> None:
        assert [each.path for each in diff(trees, tree, one)] == [b"a/00777"]

    def touches(trees: TreeStore) -> None:
        items = Items(b"", is_grouped=True)
        assert touched(trees, tree, one, [b"a/", b"tables/"], items) == {b"a/"}

    def merges(trees: TreeStore) -> None:
        base = MergeBase.of(tree)
        merge(trees, base=base, source=one, destination=other, decisions=UNDECIDED)

    with monkeypatch.context() as patch:
        patch.setattr("lakecli.committed.outline.decode_block", decode)
        return {
            "find": count(lambda trees: find(trees, tree, b"a/00500")),
            "diff": count(diffs),
            "touched": count(touches),
            "commit": count(lambda trees: apply(trees, one, [(b"z/02000", new)])),
            "merge": count(merges),
        }


@pytest.mark.usefixtures("always")
def test_what_is_decoded_follows_the_change(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A tree a hundred times as large takes the same number of blocks of its metarange."""
    small, large = (
        decoded_blocks(monkeypatch, Place(tmp_path / str(ranges)), ranges)
        for ranges in (100, 10_000)
    )
    assert small["find"] == large["find"] == 1
    for name, count in large.items():
        assert 0 < count <= max(2 * small[name], 12), (name, small, large)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("is_remote", [False, True])
def test_a_tree_is_the_same_with_its_outline(tmp_path: Path, *, is_remote: bool) -> None:
    place = Place(tmp_path, is_remote=is_remote)
    tree = build(place.trees(), MODEL)
    place.outline(tree).unlink()
    whole = place.trees().metarange(tree)  # keeps the outline
    outlined = place.trees().metarange(tree)
    assert outlined.keys is not whole.keys
    assert [*outlined.keys] == [*whole.keys]
    assert outlined.record_ids == whole.record_ids
    again = place.trees().metarange(tree)
    for at in range(len(whole)):
        assert again.record(at) == whole.record(at)
        assert again.find(whole.keys[at]) == at
        assert again.find(whole.keys[at] + b"\0") == at + 1
    assert again.keys[-1] == whole.keys[-1]
    assert [*again.keys[3:9]] == [*whole.keys[3:9]]
    after = change(place.trees(), tree, {key(7): value(-1), key(300): None})
    assert after == build(
        TreeStore(MemoryStore(), cache=None, range_entries=16),
        {path: each for path, each in {**MODEL, key(7): value(-1)}.items() if path != key(300)},
    )


@pytest.mark.usefixtures("always")
def test_a_metarange_has_the_bytes_that_its_ranges_alone_decide(place: Place) -> None:
    """Blocks of the metarange before are copied."""
    model = large_model(6000)
    steps: list[Changes] = [
        {key(at): value(-1 - at) for at in range(7, 6000, 2500)},
        {key(at): None for at in range(3000, 3100)},
        {b"a": value(1), b"z": value(2)},
    ]
    tree = build(place.trees(), model)
    for step in steps:
        blocks = place.trees().metarange(tree).blocks
        assert blocks is not None
        assert len(blocks.starts) > 21
        tree, model = change(place.trees(), tree, step), changed(model, step)
        fresh = new_trees(range_entries=16)
        assert build(fresh, model) == tree
        assert place.file(tree).read_bytes() == fresh.store.get(layout.sstable_key(tree))


@pytest.mark.usefixtures("always")
def test_many_reads_keep_the_keys(place: Place) -> None:
    tree = build(place.trees(), MODEL)
    trees = place.trees()
    for _ in range(2):
        for path in [*MODEL][: 2 * SEARCHES]:
            assert find(trees, tree, path) == MODEL[path]
            assert find(trees, tree, path + b"!") is None
    assert find(trees, tree, b"zzz") is None


@pytest.mark.usefixtures("always")
@pytest.mark.usefixtures("always")
def test_records_that_were_all_read_count_as_memory(place: Place) -> None:
    """Otherwise many such metaranges take several times the memory that they may."""
    one, other = (build(place.trees(), large_model(400, seed=seed)) for seed in (0, 1))
    trees = place.trees()
    found = trees.metarange(one)
    assert found.blocks is not None
    before = found.size
    records = sum(map(len, found.keys)) + sum(map(len, found.values))
    assert found.blocks.is_whole
    assert found.size > before + records
    limited = place.trees()
    limited._metaranges = LruCache(before * 2 + records)
    first, second = limited.metarange(one), limited.metarange(other)
    assert (limited.metarange(one), limited.metarange(other)) == (first, second)
    assert list(second.keys)
    assert limited.metarange(other) is second
    assert limited.metarange(one) is not first


@pytest.mark.usefixtures("always")
def test_another_file_of_the_same_size_is_not_believed(place: Place) -> None:
    tree = build(place.trees(), MODEL)
    file = place.file(tree)
    body = bytearray(file.read_bytes())
    body[40] ^= 1
    file.chmod(0o600)
    file.write_bytes(body)
    with pytest.raises(IntegrityError):
        contents(place.trees(), tree)
    with pytest.raises(IntegrityError):
        find(place.trees(), tree, key(0))
    with pytest.raises(IntegrityError):
        change(place.trees(), tree, {key(399): value(-1)})


@pytest.mark.usefixtures("always")
def test_a_metarange_that_is_gone_is_missing(place: Place) -> None:
    tree = build(place.trees(), MODEL)
    trees = place.trees()
    trees.metarange(tree)
    place.file(tree).unlink()
    with pytest.raises(IntegrityError, match="missing"):
        place.trees().metarange(tree)
    with pytest.raises(IntegrityError, match="missing"):
        find(trees, tree, key(0))


@pytest.mark.usefixtures("always")
def test_a_cached_file_that_is_evicted_or_damaged_is_fetched(tmp_path: Path) -> None:
    place = Place(tmp_path, is_remote=True)
    tree = build(place.trees(), MODEL)
    trees = place.trees()
    trees.metarange(tree)
    (place.cache / tree).unlink()
    assert contents(trees, tree) == MODEL
    (place.cache / tree).write_bytes(bytes(len(place.store.get(layout.sstable_key(tree)))))
    assert contents(place.trees(), tree) == MODEL


@pytest.mark.usefixtures("always")
def test_a_damaged_outline_is_written_again(place: Place) -> None:
    tree = build(place.trees(), MODEL)
    file = place.outline(tree)
    data = file.read_bytes()

    def is_read(data: bytes, *, name: str = file.name, secret: bytes | None = SECRET) -> bool:
        (other := file.with_name(name)).write_bytes(data)
        return read_outline(str(other), secret) is not None

    assert is_read(data)
    for size in range(0, len(data), 97):
        assert not is_read(data[:size])
    for at in [*range(150), *range(150, len(data), 37)]:
        damaged = bytearray(data)
        damaged[at] ^= 0x81
        assert not is_read(bytes(damaged))
    assert not is_read(data, name="0" * 64 + OUTLINE_SUFFIX)
    assert not is_read(data, secret=b"t" * 32)
    assert not is_read(data, secret=None)
    place.outline(tree).write_bytes(data[:-1])
    assert contents(place.trees(), tree) == MODEL
    assert place.outline(tree).read_bytes() == data


@pytest.mark.usefixtures("always")
def test_a_home_without_a_secret_has_none(place: Place) -> None:
    """So it is with the home of an older version until its next write."""
    tree = build(place.trees(secret=None), MODEL)
    assert contents(place.trees(secret=None), tree) == MODEL
    assert not place.outline(tree).exists()
    build(place.trees(secret=b"t" * 32), MODEL)
    assert contents(place.trees(secret=None), tree) == MODEL
    assert contents(place.trees(), tree) == MODEL  # and writes its own
    assert read_outline(str(place.outline(tree)), SECRET) is not None


@pytest.mark.usefixtures("always")
def test_a_cache_on_a_full_disk_keeps_none(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> NoReturn:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr("lakecli.committed.cache.replacing", full)
    tree = build(place.trees(), MODEL)
    assert contents(place.trees(), tree) == MODEL
    after = change(place.trees(), tree, {key(7): value(-1)})
    assert contents(place.trees(), after) == {**MODEL, key(7): value(-1)}
    assert not place.outline(tree).exists()


@pytest.mark.usefixtures("always")
def test_a_forged_outline_with_a_forged_file_is_not_believed(place: Place) -> None:
    """Who may write the namespace and the cache, but does not know the secret, changes nothing."""
    tree = build(place.trees(), MODEL)
    other = Place(place.cache.parent / "other")
    forged = build(other.trees(secret=b"e" * 32), {**MODEL, key(7): value(-1)})
    place.file(tree).chmod(0o600)
    place.file(tree).write_bytes(other.file(forged).read_bytes())
    for file in (other.outline(forged), place.outline(tree)):
        place.outline(tree).write_bytes(file.read_bytes())
        with pytest.raises(IntegrityError):
            find(place.trees(), tree, key(7))
        with pytest.raises(IntegrityError):
            change(place.trees(), tree, {key(9): value(-1)})


def test_small_metaranges_have_none(place: Place) -> None:
    tree = build(place.trees(), MODEL)
    assert contents(place.trees(), tree) == MODEL
    assert not place.outline(tree).exists()
    assert build(place.trees(), {}) == EMPTY_TREE
