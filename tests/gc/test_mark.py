"""What a mark looks at besides what roots reach."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import google_crc32c
import pytest

from lakecli.base.layout import data_key, sstable_key
from lakecli.engine.runner import OpenStore
from lakecli.gc.mark import abandoned
from lakecli.gc.policy import Times
from lakecli.gc.roots import reflog_cutoff
from lakecli.gc.tasks import read_kinds, read_ranges, read_trees
from lakecli.stores.capabilities import UploadNotFound
from lakecli.stores.contract import ANY, TooLarge
from tests.support.lakes import START
from tests.support.memory_store import MemoryBucket, MemoryStore, MemoryUploads

if TYPE_CHECKING:
    from lakecli.stores.capabilities import UploadId

DAY = timedelta(days=1)


def test_uploads_are_abandoned_if_neither_they_nor_their_parts_are_young(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = START
    store = MemoryStore(MemoryBucket(clock=lambda: now), "ns/")
    uploads = store.uploads()
    keys = [data_key(digit * 64) for digit in "0123456"]

    def put_part(number: int) -> None:
        crc = google_crc32c.value(b"part")
        uploads.put_part(keys[number], started[number], 1, b"part", crc32c=crc)

    started = {number: uploads.start(keys[number]) for number in (1, 2, 3, 4, 6)}
    put_part(4)
    now += 2 * DAY
    started |= {number: uploads.start(keys[number]) for number in (0, 5)}
    put_part(2)
    real = MemoryUploads.changed_at

    def changed_at(self: MemoryUploads, key: str, upload: UploadId) -> object:
        if key == keys[1]:
            raise UploadNotFound("it was completed just now")
        return real(self, key, upload)

    monkeypatch.setattr(MemoryUploads, "changed_at", changed_at)
    found = list(abandoned(store, START + DAY))
    # 0 and 5 are young, 1 is gone, 2 has a young part; 3 and 6 have no parts, 4 has an old one.
    assert found == [(keys[number], started[number]) for number in (3, 4, 6)]


def test_a_table_is_read_up_to_the_largest_size_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever can write into the namespace may put an object of any size there."""
    store, name = MemoryStore(), "ab" * 32
    store.put(sstable_key(name), bytes(5000), ANY)
    fetched = []
    real = MemoryStore.get

    def get(self: MemoryStore, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        fetched.append(length)
        return real(self, key, start=start, length=length)

    monkeypatch.setattr(MemoryStore, "get", get)
    monkeypatch.setattr("lakecli.base.layout.MAX_TABLE_SIZE", 4999)
    with pytest.raises(TooLarge):
        read_trees(OpenStore(store), [name])
    with pytest.raises(TooLarge):
        read_ranges(OpenStore(store), [name], must_exist=True, old_layout=False)
    assert read_kinds(OpenStore(store), [(name, 5000)]) == []
    assert fetched == [5000, 5000]


def test_positions_of_refs_count_for_thirty_days_and_one_for_wrong_clocks() -> None:
    assert reflog_cutoff(START, 2 * DAY) == START - 31 * DAY
    assert reflog_cutoff(START, 60 * DAY) == START - 61 * DAY


def test_garbage_is_older_than_the_grace_period_and_two_hours() -> None:
    """A writer relies on readings of the state for an hour, before a reference and before a commit.

    `lakecli.remote.gc_protocol` has the rules.
    """
    assert Times(START, 2 * DAY).cutoff == START - 2 * DAY - timedelta(hours=2)
