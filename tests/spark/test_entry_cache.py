"""Which files with entries stay in the cache, and when a name is trusted."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

import pytest

from lakecli.spark import entry_cache, entry_files
from lakecli.spark.entry_cache import EntryCache
from lakecli.spark.entry_holds import EntryHolds
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


def test_held_files_stay_and_nothing_goes_in_vain(cache: EntryCache) -> None:
    """Of those that a call uses itself there may be more than the limit."""
    age = KEPT.total_seconds()
    _fill(cache, {"old": age + 9, "older, held": age + 10, "a": 400, "b": 300})
    held = ["older, held", "a"]
    assert not cache.make_room(41, kept=[], held=held)
    assert _names(cache) == {"older, held", "a", "b"}
    assert cache.make_room(40, kept=[], held=held)
    assert _names(cache) == {"older, held", "a"}
    assert cache.make_room(101, kept=[cache.directory / name for name in held], held=held)
    assert _names(cache) == {"older, held", "a"}


def test_a_program_holds_names_until_it_ends(tmp_path: Path) -> None:
    """Another program is one that has the file open for itself."""
    holds = EntryHolds(tmp_path / "held")
    with holds.locked():
        assert holds.names() == set()
        holds.add(["a", "b"])
        holds.add(["c", "a"])
        (mine,) = holds.directory.glob("*.held")
        assert mine.read_text() == "a\nb\nc\n"  # each once, however often it is read
        other = holds.directory / "x.held"
        other.write_text("d\n")
        with other.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            assert holds.names() == {"a", "b", "c", "d"}
        assert holds.names() == {"a", "b", "c"}
        assert not other.exists()
        for file_ in holds.directory.glob("*.held"):
            file_.unlink()
        holds.add(["e"])
        assert holds.names() == {"e"}


def test_one_program_at_a_time_looks_and_deletes(tmp_path: Path) -> None:
    holds = EntryHolds(tmp_path / "held")
    with (
        holds.locked(),
        (holds.directory / "lock").open("rb") as file,
        pytest.raises(BlockingIOError),
    ):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with (holds.directory / "lock").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


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
