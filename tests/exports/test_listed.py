"""What a bucket's listing does not show after an export counts as failed, and nothing else does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from lakecli.engine.runner import LocalRunner
from lakecli.errors import Refused
from lakecli.exports import target as target_module
from lakecli.exports.run import ExportOptions, export, summarise
from lakecli.stores.contract import PLAIN
from tests.exports.test_export import put
from tests.support.counting import CountingStore
from tests.support.lakes import make_repository, open_lake
from tests.support.memory_store import BUCKETS, MemoryBucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from typing import BinaryIO

    from lakecli.exports.run import ExportReport
    from lakecli.repository.contract import Repository
    from lakecli.stores.contract import Attributes, Condition, ObjectInfo, Version

    Opening = Callable[[type[CountingStore]], CountingStore]

DESTINATION = "memory://dest/out"
UNLISTED = "it was written, but a listing of the destination does not show it"


def folded(key: str) -> str:
    """What a server on a file system makes of a key."""
    return re.sub(r"/(\.?/)+", "/", key)


class FoldingStore(CountingStore):
    """Takes ``x//y`` and ``x/./y`` for ``x/y``, as servers on a file system do."""

    def put(
        self, key: str, body: bytes | BinaryIO, condition: Condition, attributes: Attributes = PLAIN
    ) -> Version:
        return super().put(folded(key), body, condition, attributes)

    def head(self, key: str) -> ObjectInfo:
        return super().head(folded(key))


class SharingStore(CountingStore):
    """Lists ``x//y`` and ``x/y`` with sizes and metadata of their own, and the same bytes."""

    def get(
        self, key: str, *, start: int = 0, length: int | None = None, matching: str = ""
    ) -> bytes:
        del matching
        objects = self._bucket.objects.items()
        same = [item for name, item in objects if folded(name) == folded(self._prefix + key)]
        body = max(same, key=lambda item: item.info.modified_at).body
        return body[start : None if length is None else start + length]


class HidingStore(CountingStore):
    """Does not list what is below ``a`` beside ``a``, but by its own name, as MinIO does."""

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        for info in super().list(prefix, after=after):
            is_hidden = any(
                self._prefix + info.key[:at] in self._bucket.objects
                for at, letter in enumerate(info.key)
                if letter == "/" and "/" not in prefix[at + 1 :]
            )
            if not is_hidden:
                yield info


class RefusingStore(CountingStore):
    """Refuses every request about a name of more than 255 bytes, as MinIO does."""

    is_closed = False

    def check(self, key: str) -> None:
        if self.is_closed or len(key) > 255:
            raise Refused("refused (400)")

    def put(
        self, key: str, body: bytes | BinaryIO, condition: Condition, attributes: Attributes = PLAIN
    ) -> Version:
        self.check(key)
        return super().put(key, body, condition, attributes)

    def head(self, key: str) -> ObjectInfo:
        self.check(key)
        return super().head(key)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        self.check(prefix)
        self.check(after)
        return super().list(prefix, after=after)


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with open_lake(tmp_path) as lake:
        yield make_repository(lake, tmp_path)


@pytest.fixture
def opened(
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[[type[CountingStore]], CountingStore]]:
    """Makes a destination of a kind of store, and returns the store."""

    def make(kind: type[CountingStore]) -> CountingStore:
        BUCKETS["dest"] = bucket = MemoryBucket()
        store = kind(bucket, "out/")
        monkeypatch.setattr(target_module, "open_by_uri", lambda *_, **__: store)
        return store

    yield make
    BUCKETS.pop("dest", None)


def run(repository: Repository, since: str = "") -> ExportReport:
    options = ExportOptions(threads=1, since=since)
    return export(repository, "main", b"", DESTINATION, runner=LocalRunner(), options=options)


def failures(report: ExportReport) -> dict[bytes, str]:
    return {each.path: each.why for each in report.outcome.failures}


def has_success(store: CountingStore) -> bool:
    return any(info.key == "_SUCCESS" for info in store.list("_SUCCESS"))


THREE: Mapping[bytes, bytes | None] = {b"x/y": b"1", b"x//y": b"22", b"x/./y": b"333", b"z": b"4"}


def test_objects_that_became_one_have_failed(repository: Repository, opened: Opening) -> None:
    store = opened(FoldingStore)
    put(repository, THREE)
    for _ in range(2):
        report = run(repository)
        assert set(failures(report)) == {b"x//y", b"x/./y"}  # x/y came last, and is right
        assert set(failures(report).values()) == {UNLISTED}
        outcome = report.outcome
        assert outcome.new.count + outcome.changed.count + outcome.unchanged.count == 2
        assert outcome.new.size + outcome.changed.size + outcome.unchanged.size == 2
        assert not has_success(store)
        problem = summarise(report)
        assert problem is not None
        assert "rename the objects" in (problem.hint or "")


@pytest.mark.parametrize("names", [(b"x/y", b"x//y"), (b"x//!", b"x/!"), (b"x//y", b"x/./y")])
def test_objects_that_got_the_bytes_of_one_have_failed(
    repository: Repository, opened: Opening, names: tuple[bytes, bytes]
) -> None:
    store = opened(SharingStore)
    put(repository, {name: name[-3:] for name in (*names, b"z")})
    for _ in range(2):
        report = run(repository)
        assert len(failures(report)) == 1
        assert failures(report).keys() < set(names)
        assert not has_success(store)


def test_an_object_whose_bytes_another_one_replaced_has_failed(
    repository: Repository, opened: Opening
) -> None:
    store = opened(SharingStore)
    first = put(repository, {b"x/y": b"1", b"z": b"4"})
    assert run(repository).outcome.failures == []
    put(repository, {b"x//y": b"2"})
    assert set(failures(run(repository, since=first))) == {b"x/y"}
    assert not has_success(store)


def test_an_object_that_another_one_replaced_has_failed(
    repository: Repository, opened: Opening
) -> None:
    store = opened(FoldingStore)
    first = put(repository, {b"x-/y": b"1", b"x/y": b"1", b"z": b"4"})
    assert run(repository).outcome.failures == []
    assert has_success(store)
    put(repository, {b"x//y": b"other", b"x/./y": b"other"})
    report = run(repository, since=first)
    # x/y is no change since, but it has been replaced.
    assert set(failures(report)) == {b"x//y", b"x/./y", b"x/y"}
    assert failures(report)[b"x/y"].startswith("it was written, but another object is there")
    assert report.outcome.new.count == 0
    assert not has_success(store)


def test_hidden_objects_have_failed(repository: Repository, opened: Opening) -> None:
    store = opened(HidingStore)
    first = put(repository, {b"a/b": b"1", b"a/c/d": b"2", b"a-": b"3", b"z": b"4"})
    assert run(repository).outcome.failures == []
    assert has_success(store)
    put(repository, {b"a": b"hides", b"a/c/e": b"5"})
    for since in (first, ""):
        report = run(repository, since=since)
        assert set(failures(report)) == {b"a/b", b"a/c/d", b"a/c/e"}
        assert set(failures(report).values()) == {UNLISTED}
        assert not has_success(store)
    last = put(repository, {b"a": None})
    assert failures(run(repository, since=report.commit_id)) == {}
    assert has_success(store)
    put(repository, {b"z/y/x": b"z is no change"})
    assert failures(run(repository, since=last)) == {b"z/y/x": UNLISTED}
    assert not has_success(store)


def test_a_hidden_marker_has_failed(repository: Repository, opened: Opening) -> None:
    store = opened(HidingStore)
    put(repository, {b"t": b"1", b"u": b"2", b"t/_SUCCESS": b""})
    report = run(repository)
    assert set(failures(report)) == {b"t/_SUCCESS"}
    assert not has_success(store)


def test_a_refused_name_stops_nothing_else(repository: Repository, opened: Opening) -> None:
    store = opened(RefusingStore)
    assert isinstance(store, RefusingStore)
    long = [b"a" * 256, b"m" * 300]
    put(repository, {b"b": b"1", b"z": b"2", **dict.fromkeys(long, b"3")})
    for _ in range(2):
        report = run(repository)
        assert failures(report) == dict.fromkeys(long, "refused (400)")
        assert report.outcome.new.count + report.outcome.unchanged.count == 2
        assert report.outcome.failed == 2
        assert not has_success(store)
    put(repository, {b"b": b"5", **dict.fromkeys(long)})
    assert run(repository, since=report.commit_id).outcome.failures == []
    assert has_success(store)
    store.is_closed = True
    with pytest.raises(Refused, match="400"):
        run(repository)


def test_the_check_costs_a_listing(repository: Repository, opened: Opening) -> None:
    store = opened(CountingStore)
    first = put(repository, {f"f{n:04}".encode(): b"%d" % n for n in range(2_500)})
    store.reset()
    run(repository)
    # before: one page; after: three
    assert (store.counts["list"], store.counts["head"]) == (4, 0)
    assert store.counts["put"] == 2_502
    store.reset()
    assert run(repository).outcome.unchanged.count == 2_500
    assert (store.counts["list"], store.counts["head"]) == (3, 2_500)  # nothing to check
    put(repository, {b"f1000": b"new"})
    store.reset()
    assert run(repository, since=first).outcome.changed.count == 1
    assert store.counts["list"] <= 3
    assert store.counts["head"] == 0  # its size tells


@pytest.mark.parametrize("key", ["b", "a]", "a ", "a\0", "\x01", "é", "\x80", "\ue000", "x" * 300])
def test_a_listing_for_a_name_begins_before_it(key: str) -> None:
    before = target_module._before(key)
    assert before.encode() < key.encode()
    assert len(before) <= max(len(key), 200)
