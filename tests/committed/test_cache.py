"""Tables kept as files, and values kept in memory, up to a size."""

from __future__ import annotations

import os
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import pytest

from lakecli.base import layout
from lakecli.base.model import EMPTY_TREE, Entry
from lakecli.committed.cache import READS_FILE, SstableCache, size_of
from lakecli.committed.diff import diff
from lakecli.committed.point_reads import find, kept_reader
from lakecli.committed.scan import scan
from lakecli.committed.tree_store import LruCache, TreeStore
from lakecli.committed.values import encode_entry
from lakecli.committed.writer import apply
from lakecli.errors import IntegrityError
from lakecli.stores.contract import ANY
from lakecli.stores.local.store import DirectoryStore
from tests.committed.trees import (
    RecordingStore,
    build,
    change,
    contents,
    iter_ranges,
    key,
    large_model,
    new_trees,
    value,
)
from tests.support.memory_store import MemoryBucket, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakecli.base.model import MetarangeId

MODEL = large_model(400)
A = "a" * 64


def age(path: Path, seconds: int) -> None:
    """Set the last use of a file to an earlier time."""
    status = path.stat()
    used = status.st_mtime - seconds
    os.utime(path, (used, used))


def test_put_and_find(tmp_path: Path) -> None:
    cache = SstableCache(tmp_path / "deep" / "cache")
    assert cache.find(A) is None
    cache.put(A, b"data")
    path = cache.find(A)
    assert path is not None
    assert Path(path).read_bytes() == b"data"
    assert SstableCache(tmp_path / "deep" / "cache").find(A) == path
    cache.drop(A)
    assert cache.find(A) is None
    cache.drop(A)


def test_a_limit_below_each_table_frees_what_a_larger_one_left(tmp_path: Path) -> None:
    SstableCache(tmp_path).put(A, bytes(20))
    SstableCache(tmp_path, size_limit=0).put("b" * 64, bytes(20))
    assert list(tmp_path.iterdir()) == []


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    cache = SstableCache(tmp_path, size_limit=100)
    for age_of, name in enumerate("dcba"):
        cache.put(name * 64, bytes(20))
        age(tmp_path / (name * 64), 1000 + age_of)
    assert SstableCache(tmp_path, size_limit=100).find(A) is not None  # used just now
    cache.put("e" * 64, bytes(30))
    assert sorted(path.name for path in tmp_path.iterdir()) == [letter * 64 for letter in "acde"]


def test_a_process_that_runs_for_long_marks_its_tables_as_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = SstableCache(tmp_path)
    cache.put(A, b"data")
    age(tmp_path / A, 1000)
    before = (tmp_path / A).stat().st_mtime
    cache.find(A)
    assert (tmp_path / A).stat().st_mtime == before  # not for each look-up
    later = monotonic() + 1000
    monkeypatch.setattr("lakecli.committed.cache.monotonic", lambda: later)
    cache.find(A)
    assert (tmp_path / A).stat().st_mtime > before


def test_the_counts_of_reads_beside_the_tables_are_not_evicted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the directory lists their file."""
    scandir = os.scandir

    @contextmanager
    def counts_first(directory: str) -> Iterator[list[os.DirEntry[str]]]:
        with scandir(directory) as entries:
            yield sorted(entries, key=lambda each: (each.name != READS_FILE, each.name))

    monkeypatch.setattr(os, "scandir", counts_first)
    (tmp_path / READS_FILE).write_bytes(bytes(1_000))
    for number in range(9):
        SstableCache(tmp_path, size_limit=100).put(f"{number}" * 64, bytes(30))
    monkeypatch.undo()
    left = {path.name for path in tmp_path.iterdir()}
    assert READS_FILE in left
    assert 1 < len(left) <= 1 + 100 // 30


def test_the_limit_holds_over_many_tables(tmp_path: Path) -> None:
    cache = SstableCache(tmp_path, size_limit=1000)
    for number in range(200):
        cache.put(f"{number:064}", bytes(number))
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 1000
    assert cache.find(f"{199:064}") is not None


def test_a_table_larger_than_the_limit_is_not_kept(tmp_path: Path) -> None:
    cache = SstableCache(tmp_path, size_limit=10)
    cache.put(A, bytes(11))
    assert cache.find(A) is None
    assert list(tmp_path.iterdir()) == []
    cache.put(A, bytes(10))
    assert cache.find(A) is not None


def test_a_full_cache_drops_nothing_before_it_is_over_its_limit(tmp_path: Path) -> None:
    for name in "abcde":
        SstableCache(tmp_path, size_limit=100).put(name * 64, bytes(20))
    assert sorted(path.name[0] for path in tmp_path.iterdir()) == list("abcde")
    SstableCache(tmp_path, size_limit=100).put("f" * 64, bytes(1))
    assert len(list(tmp_path.iterdir())) < 6


def test_the_size_of_a_cache_is_that_of_its_files(tmp_path: Path) -> None:
    assert size_of(tmp_path / "missing") == 0
    assert size_of(tmp_path) == 0
    for name, size in (("a", 20), ("b", 30)):
        SstableCache(tmp_path).put(name * 64, bytes(size))
    assert size_of(tmp_path) == 50


def test_a_process_marks_each_table_as_used_once(tmp_path: Path) -> None:
    path = tmp_path / A

    def last_use() -> float:
        return path.stat().st_mtime

    SstableCache(tmp_path).put(A, b"data")
    age(path, 1000)
    old = last_use()
    cache = SstableCache(tmp_path)
    assert cache.find(A) == str(path)
    assert last_use() > old + 900
    age(path, 1000)
    old = last_use()
    assert cache.find(A) == str(path)
    assert last_use() == old
    for used in (cache, SstableCache(tmp_path)):
        used.put(A, b"data")
        age(path, 1000)
        old = last_use()
        assert used.find(A) == str(path)
        assert last_use() == old
        used.drop(A)
        path.write_bytes(b"data")  # by another process
        age(path, 1000)
        assert used.find(A) == str(path)
        assert last_use() > old + 900


def test_an_evicted_table_that_is_back_is_marked_as_used(tmp_path: Path) -> None:
    cache = SstableCache(tmp_path, size_limit=100)
    cache.put(A, bytes(60))
    age(tmp_path / A, 1000)
    cache.put("b" * 64, bytes(60))
    assert cache.find(A) is None
    (tmp_path / A).write_bytes(bytes(60))
    age(tmp_path / A, 1000)
    old = (tmp_path / A).stat().st_mtime
    assert cache.find(A) is not None
    assert (tmp_path / A).stat().st_mtime > old + 900


def test_a_table_appears_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may read it as soon as it has its name."""
    replace = os.replace
    seen: list[bytes] = []

    def replaced(old: str, new: str) -> None:
        replace(old, new)
        seen.append(Path(new).read_bytes())

    monkeypatch.setattr("os.replace", replaced)
    SstableCache(tmp_path).put(A, b"data")
    assert seen == [b"data"]


def test_leftovers_of_a_crash_are_evicted_too(tmp_path: Path) -> None:
    leftover = tmp_path / ".tmpleftover"
    leftover.write_bytes(bytes(90))
    age(leftover, 1000)
    cache = SstableCache(tmp_path, size_limit=100)
    cache.put(A, bytes(20))
    assert [path.name for path in tmp_path.iterdir()] == [A]


def test_a_cache_that_cannot_be_written_fails_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = SstableCache(tmp_path / "file" / "cache")
    cache.put(A, b"data")
    assert cache.find(A) is None


def test_a_failed_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = SstableCache(tmp_path)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    cache.put(A, b"data")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("absolute", [True, False])
def test_no_other_name_leaves_the_directory(tmp_path: Path, *, absolute: bool) -> None:
    """A forged commit names an absolute path as its tree, which may be that of any file."""
    canary = tmp_path / "canary"
    canary.write_bytes(b"mine")
    before = canary.stat()
    cache = SstableCache(tmp_path / "cache")
    name = str(canary) if absolute else "../canary"
    for use in (cache.find, cache.drop, lambda name: cache.put(name, b"theirs")):
        with pytest.raises(IntegrityError) as caught:
            use(name)
        assert caught.value.hint
    assert canary.read_bytes() == b"mine"
    assert canary.stat().st_mtime_ns == before.st_mtime_ns


@pytest.mark.parametrize("name", ["", ".", "..", "a", "a" * 63 + "/", "A" * 64, "a" * 64 + "\0"])
def test_only_an_id_names_a_table(tmp_path: Path, name: str) -> None:
    with pytest.raises(IntegrityError):
        SstableCache(tmp_path).put(name, b"data")
    assert list(tmp_path.iterdir()) == []


def test_trees_read_through_the_cache(tmp_path: Path) -> None:
    store = RecordingStore()
    tree = build(new_trees(store), MODEL)
    first = new_trees(store, cache=SstableCache(tmp_path))
    assert contents(first, tree) == MODEL
    assert len(store.reads) == 1 + len(first.metarange(tree))
    store.reads.clear()
    second = new_trees(store, cache=SstableCache(tmp_path))
    assert contents(second, tree) == MODEL
    assert find(second, tree, key(77)) == MODEL[key(77)]
    assert store.reads == []


def test_what_is_written_is_cached(tmp_path: Path) -> None:
    store = RecordingStore()
    tree = build(new_trees(store, cache=SstableCache(tmp_path)), MODEL)
    trees = new_trees(store, cache=SstableCache(tmp_path))
    assert contents(trees, tree) == MODEL
    assert find(new_trees(store, cache=SstableCache(tmp_path)), tree, key(5)) == MODEL[key(5)]
    assert store.reads == []


def test_a_cached_table_is_not_replaced(tmp_path: Path) -> None:
    """The cache holds the bucket's copy; another copy of the same range must not follow it."""
    store = RecordingStore()
    theirs = {path: value(at, b"theirs") for at, path in enumerate(MODEL)}
    tree = build(new_trees(store), theirs)
    trees = new_trees(store, cache=SstableCache(tmp_path))
    assert contents(trees, tree) == theirs
    assert build(trees, {path: value(at, b"mine") for at, path in enumerate(MODEL)}) == tree
    assert contents(new_trees(store, cache=SstableCache(tmp_path)), tree) == theirs


def test_a_damaged_file_of_the_cache_is_fetched_again(tmp_path: Path) -> None:
    store = RecordingStore()
    tree = build(new_trees(store), MODEL)
    contents(new_trees(store, cache=SstableCache(tmp_path)), tree)
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:-60])
    assert contents(new_trees(store, cache=SstableCache(tmp_path)), tree) == MODEL
    for path in tmp_path.iterdir():
        path.write_bytes(b"")
    trees = new_trees(store, cache=SstableCache(tmp_path))
    assert find(trees, tree, key(7)) == MODEL[key(7)]


def test_a_damaged_object_is_not_cached(tmp_path: Path) -> None:
    store = RecordingStore()
    tree = build(new_trees(store), MODEL)
    store.put(f"_lakefs/{tree}", b"damaged", ANY)
    cache = SstableCache(tmp_path)
    with pytest.raises(IntegrityError):
        contents(new_trees(store, cache=cache), tree)
    assert cache.find(tree) is None


@pytest.mark.parametrize("read", [contents, lambda trees, tree: find(trees, tree, min(MODEL))])
def test_a_range_with_a_damaged_block_is_not_cached(
    tmp_path: Path, read: Callable[[TreeStore, MetarangeId], object]
) -> None:
    """What was damaged on its way, or in a bucket that was repaired, would fail for ever."""
    store = RecordingStore()
    tree = build(new_trees(store), MODEL)
    first, *_ = iter_ranges(new_trees(store), tree)
    name = f"_lakefs/{first.id}"
    sound = store.get(name)
    store.put(name, bytes([sound[0] ^ 1]) + sound[1:], ANY)
    with pytest.raises(IntegrityError, match="checksum of the block does not match"):
        read(new_trees(store, cache=SstableCache(tmp_path)), tree)
    store.put(name, sound, ANY)
    assert contents(new_trees(store, cache=SstableCache(tmp_path)), tree) == MODEL


def flip(file: Path, offset: int = 0) -> None:
    """Change a byte of a file."""
    data = bytearray(file.read_bytes())
    data[offset] ^= 1
    file.write_bytes(data)


def fill(trees: TreeStore, tree: MetarangeId) -> object:
    assert kept_reader(trees).fill(tree, prefix=b"", is_stopped=lambda: False)
    return [kept_reader(trees).find(tree, path) for path in MODEL]


READERS: dict[str, Callable[[TreeStore, MetarangeId], object]] = {
    "scan": contents,
    "find": lambda trees, tree: [find(trees, tree, path) for path in MODEL],
    "find_many": lambda trees, tree: kept_reader(trees).find_many(tree, list(MODEL)),
    "fill": fill,
    "diff": lambda trees, tree: len(list(diff(trees, EMPTY_TREE, tree))),
    "apply": lambda trees, tree: apply(trees, tree, [(min(MODEL), None)]),
}


@pytest.mark.parametrize("name", READERS)
def test_a_damaged_block_of_a_copy_is_dropped_and_fetched_again(tmp_path: Path, name: str) -> None:
    """Every reader does so; none of them names the copy in an error."""
    store = RecordingStore()
    tree = build(new_trees(store), MODEL)
    expected = READERS[name](new_trees(store), tree)
    first, *_ = iter_ranges(new_trees(store), tree)
    for damaged in (first.id, tree):
        contents(new_trees(store, cache=SstableCache(tmp_path)), tree)
        flip(tmp_path / damaged)
        assert READERS[name](new_trees(store, cache=SstableCache(tmp_path)), tree) == expected
        copy = tmp_path / damaged
        assert not copy.exists() or copy.read_bytes() == store.get(f"_lakefs/{damaged}")


def test_a_copy_that_is_damaged_while_it_is_read_is_fetched_again(tmp_path: Path) -> None:
    store = RecordingStore()
    tree = build(new_trees(store), MODEL)
    contents(new_trees(store, cache=SstableCache(tmp_path)), tree)
    trees = new_trees(store, cache=SstableCache(tmp_path))
    first, *_ = iter_ranges(trees, tree)
    assert find(trees, tree, first.max_key) == MODEL[first.max_key]
    flip(tmp_path / first.id)
    assert find(trees, tree, first.min_key) == MODEL[first.min_key]


def test_a_copy_of_another_table_is_dropped_and_the_right_one_fetched(tmp_path: Path) -> None:
    store = RecordingStore()
    tree = build(new_trees(store), MODEL)
    other = build(new_trees(store), large_model(300))
    for name in ("scan", "find"):
        (tmp_path / tree).write_bytes(store.get(f"_lakefs/{other}"))
        expected = READERS[name](new_trees(store), tree)
        assert READERS[name](new_trees(store, cache=SstableCache(tmp_path)), tree) == expected


def test_the_size_of_a_table_that_is_written_again_is_not_that_of_a_damaged_copy(
    tmp_path: Path,
) -> None:
    store = RecordingStore()
    tree = build(new_trees(store, cache=SstableCache(tmp_path)), MODEL)
    sizes = [record.size for record in iter_ranges(new_trees(store), tree)]
    for file in tmp_path.iterdir():
        file.write_bytes(file.read_bytes()[:-60])
    assert build(new_trees(store, cache=SstableCache(tmp_path)), MODEL) == tree
    again = new_trees(store, cache=SstableCache(tmp_path))
    assert [record.size for record in iter_ranges(again, tree)] == sizes


def test_a_metarange_under_anothers_name_is_neither_believed_nor_cached(tmp_path: Path) -> None:
    store = RecordingStore()
    tree = build(new_trees(store), MODEL)
    other = build(new_trees(store), large_model(300))
    store.put(f"_lakefs/{tree}", store.get(f"_lakefs/{other}"), ANY)
    cache = SstableCache(tmp_path)
    for read in (contents, lambda trees, tree: find(trees, tree, key(7))):
        with pytest.raises(IntegrityError, match="not the digest of its records") as caught:
            read(new_trees(store, cache=cache), tree)
        assert tree in caught.value.message
    assert cache.find(tree) is None
    (tmp_path / tree).write_bytes(store.get(f"_lakefs/{other}"))
    with pytest.raises(
        IntegrityError, match="not the digest of its records"
    ):  # whoever put it there
        contents(new_trees(store, cache=cache), tree)


def test_a_namespace_on_this_machine_is_not_cached(tmp_path: Path) -> None:
    namespace = tmp_path / "namespace"
    namespace.mkdir()
    store = DirectoryStore(str(namespace))
    store.put(layout.REPOSITORY, b"{}", ANY)
    trees = new_trees(store, cache=SstableCache(tmp_path / "cache"))
    tree = build(trees, MODEL)
    again = new_trees(store, cache=SstableCache(tmp_path / "cache"))
    assert contents(again, tree) == MODEL
    assert find(again, tree, key(9)) == MODEL[key(9)]
    assert change(again, tree, dict.fromkeys(MODEL)) == EMPTY_TREE
    assert not (tmp_path / "cache").exists()
    for record in iter_ranges(again, tree):
        assert record.size == (namespace / "_lakefs" / record.id).stat().st_size


def test_the_lru_cache_keeps_the_most_recently_used_values() -> None:
    recent: LruCache[int, str] = LruCache(10)
    recent.put(1, "one", 4)
    recent.put(2, "two", 4)
    assert recent.get(1) == "one"
    recent.put(3, "three", 4)
    assert [recent.get(number) for number in (1, 2, 3)] == ["one", None, "three"]
    recent.put(4, "four", 50)
    assert [recent.get(number) for number in (1, 3, 4)] == [None, None, "four"]
    recent.put(4, "four again", 1)
    recent.put(5, "five", 9)
    assert [recent.get(number) for number in (4, 5)] == ["four again", "five"]


def test_the_buckets_copy_of_a_table_counts(tmp_path: Path) -> None:
    """Another clone wrote the same entries at other times: the same name, but other bytes."""
    bucket = MemoryBucket()
    theirs = TreeStore(MemoryStore(bucket), cache=None, range_entries=16)
    entries = {b"a": entry(seconds=1), b"b": entry(seconds=2)}
    tree = apply(theirs, EMPTY_TREE, entries.items())

    def ours() -> TreeStore:
        cache = SstableCache(tmp_path)
        return TreeStore(MemoryStore(bucket), cache=cache, range_entries=16)

    later = {path: entry(seconds=9) for path in entries}
    assert apply(ours(), EMPTY_TREE, later.items()) == tree
    assert dict(scan(ours(), tree)) == entries


def entry(*, seconds: int) -> bytes:
    at = datetime.fromtimestamp(seconds, UTC)
    return encode_entry(Entry("data/x", 1, "checksum", at))
