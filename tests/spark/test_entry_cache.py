"""Which files with entries stay in the cache, and when a name is trusted."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from lakecli.spark import entry_cache, entry_files
from lakecli.spark.entry_cache import EntryCache
from lakecli.spark.layout import KEPT

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_800_000_000.0


@pytest.fixture
def cache(tmp_path: Path) -> EntryCache:
    """A cache of 100 bytes."""
    cache = EntryCache(tmp_path / "entries", 100, NOW)
    assert cache.open()
    return cache


def _fill(cache: EntryCache, ages: dict[str, float], size: int = 30) -> None:
    for name, age in ages.items():
        file = cache.directory / name
        file.write_bytes(bytes(size))
        os.utime(file, (NOW - age, NOW - age))


def _names(cache: EntryCache) -> set[str]:
    return {file.name for file in cache.directory.iterdir()}


def test_what_was_unused_for_longest_makes_room(cache: EntryCache) -> None:
    _fill(cache, {"a": 400, "b": 300, "c": 200})
    cache.make_room(10, kept=[])
    assert _names(cache) == {"a", "b", "c"}
    assert cache.use(cache.directory / "a")
    cache.make_room(11, kept=[])
    assert _names(cache) == {"a", "c"}


def test_what_a_call_uses_is_kept(cache: EntryCache) -> None:
    _fill(cache, {"a": 400, "b": 300, "c": 200})
    cache.make_room(1_000, kept=[cache.directory / "a"])
    assert _names(cache) == {"a"}


def test_what_is_unused_for_a_week_is_deleted(cache: EntryCache) -> None:
    _fill(cache, {"old.unfinished": KEPT.total_seconds() + 1, "new": KEPT.total_seconds() - 1})
    cache.make_room(0, kept=[])
    assert _names(cache) == {"new"}
    assert not cache.use(cache.directory / "old.unfinished")


def test_a_name_is_that_of_one_start_of_the_machine(
    cache: EntryCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are not flushed to the disk, so those of an earlier start may not be whole."""
    monkeypatch.setattr(entry_cache, "boot_id", lambda: b"one")
    first = cache.files(["x", "y"])
    assert len(set(first)) == 2
    assert cache.files(["x", "y"]) == first
    monkeypatch.setattr(entry_cache, "boot_id", lambda: b"two")
    assert not {*first} & {*cache.files(["x", "y"])}


@pytest.mark.parametrize(("boot", "flushed"), [(b"one", 0), (b"", 1)])
def test_without_a_known_start_files_are_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boot: bytes, flushed: int
) -> None:
    import pyarrow as pa

    seen: list[int] = []
    monkeypatch.setattr(entry_files, "boot_id", lambda: boot)
    monkeypatch.setattr(os, "fsync", seen.append)
    batch = pa.record_batch([["x"]], schema=pa.schema([("path", pa.string())]))
    entry_files.write_file(iter([batch]), batch.schema, tmp_path / "a.parquet", "1")
    assert len(seen) == flushed
