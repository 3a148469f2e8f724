"""Counts of the reads of trees by tier, in a process and on the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakecli.base import layout
from lakecli.committed import tree_store
from lakecli.committed.cache import READS_FILE, SstableCache, kept_reads, reads_text
from lakecli.committed.point_reads import find, find_many
from lakecli.committed.scan import scan
from lakecli.stores.contract import ANY
from lakecli.stores.local.store import DirectoryStore
from tests.committed.trees import RecordingStore, build, key, large_model, new_trees

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from lakecli.committed.cache import Reads

MODEL = large_model(300)


def reads(memory: int, disk: int, bucket: int) -> Reads:
    return {"memory": memory, "disk": disk, "bucket": bucket}


def test_each_tier_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_store, "TAIL_SIZE", 0)  # a small range would be read whole
    store = RecordingStore()
    tree = build(new_trees(store, range_entries=4096), MODEL)
    trees = new_trees(store, range_entries=4096, cache=SstableCache(tmp_path))
    assert find(trees, tree, key(0)) == MODEL[key(0)]
    assert trees.reads == reads(0, 0, 3)  # the metarange, the index of the range, the block
    assert find(trees, tree, key(0)) == MODEL[key(0)]
    assert find_many(trees, tree, [key(0), key(0)]) == [MODEL[key(0)]] * 2
    assert trees.reads == reads(3, 0, 3)
    trees.table(trees.metarange(tree).record(0))
    assert trees.reads == reads(4, 0, 4)
    trees.note_reads()
    trees.note_reads()
    assert kept_reads(tmp_path) == reads(4, 0, 4)
    again = new_trees(store, range_entries=4096, cache=SstableCache(tmp_path))
    assert find(again, tree, key(0)) == MODEL[key(0)]
    assert again.reads == reads(0, 3, 0)
    again.note_reads()
    assert kept_reads(tmp_path) == reads(4, 3, 4)


def test_a_scan_opens_each_range_once() -> None:
    store = RecordingStore()
    tree = build(new_trees(store, range_entries=4096), MODEL)
    for prefix in (b"", key(1)):  # a whole range, and a part of it
        trees = new_trees(store, range_entries=4096)
        assert list(scan(trees, tree, prefix=prefix))
        assert trees.reads == reads(0, 0, 2)


def test_a_namespace_that_is_a_directory_is_of_the_disk(tmp_path: Path) -> None:
    (tmp_path / "namespace").mkdir()
    store = DirectoryStore(str(tmp_path / "namespace"))
    store.put(layout.REPOSITORY, b"{}", ANY)
    tree = build(new_trees(store), MODEL)
    trees = new_trees(store, cache=SstableCache(tmp_path / "cache"))
    assert find(trees, tree, key(0)) == MODEL[key(0)]
    assert trees.reads == reads(0, 3, 0)
    trees.note_reads()
    assert not (tmp_path / "cache").exists()


def test_counts_survive_evictions_and_stay_small(tmp_path: Path) -> None:
    cache = SstableCache(tmp_path, size_limit=1_000)
    for _ in range(2_100):
        cache.add_reads(reads(1, 2, 3))
    for number in range(10):
        cache.put(f"{number:064x}", bytes(300))
    assert kept_reads(tmp_path) == reads(2_100, 4_200, 6_300)
    assert (tmp_path / READS_FILE).stat().st_size < 25_000
    cache.add_reads(reads(0, 0, 0))
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == [READS_FILE]


def test_a_file_that_cannot_be_read_or_written_counts_nothing(tmp_path: Path) -> None:
    assert kept_reads(tmp_path / "missing") == reads(0, 0, 0)
    (tmp_path / READS_FILE).write_bytes(b"torn")
    assert kept_reads(tmp_path) == reads(0, 0, 0)
    (tmp_path / READS_FILE).write_bytes(b"\xff" * 48)
    assert kept_reads(tmp_path) == reads(*[2**64 - 1] * 3)
    (tmp_path / "file").write_bytes(b"")
    SstableCache(tmp_path / "file").add_reads(reads(1, 1, 1))
    assert (tmp_path / "file").read_bytes() == b""


def test_counts_as_text() -> None:
    assert reads_text(reads(0, 0, 0)) == "0"
    expected = "1,234 (1,000 from memory, 200 from disk, 34 from the bucket)"
    assert reads_text(reads(1_000, 200, 34)) == expected
