"""Large results of executors, in the namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from lakecli.base.layout import SCRATCH
from lakecli.engine.runner import OpenStore, StoreLocation, open_by_uri
from lakecli.engine.scratch import LIMIT, Scratch, keep_value, take_value
from lakecli.engine.spark_runner import SparkRunner
from lakecli.errors import IntegrityError, LakeError, PermissionDenied
from lakecli.stores.contract import ANY
from tests.engine import tasks
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

RUN = bytes(range(16))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def scratch(store: MemoryStore) -> Scratch:
    return Scratch(OpenStore(store), RUN)  # type: ignore[arg-type]


def keys(store: MemoryStore) -> list[str]:
    return [info.key for info in store.list(SCRATCH)]


def test_small_results_stay_as_they_are(scratch: Scratch, store: MemoryStore) -> None:
    assert keep_value(scratch, ("small", 1)) == ("small", 1)
    assert take_value(scratch, ("small", 1)) == ("small", 1)
    assert keys(store) == []


def test_large_results_are_kept_until_the_end(scratch: Scratch, store: MemoryStore) -> None:
    value = ("large", b"x" * LIMIT)
    first, second = keep_value(scratch, value), keep_value(scratch, value)
    assert first == second
    assert len(keys(store)) == 1
    assert take_value(scratch, first) == take_value(scratch, second) == value
    store.put(f"{SCRATCH}other/x", b"of another command", ANY)
    scratch.clear()
    assert keys(store) == [f"{SCRATCH}other/x"]


def test_other_bytes_are_not_opened(scratch: Scratch, store: MemoryStore) -> None:
    kept = keep_value(scratch, b"x" * LIMIT)
    (key,) = keys(store)
    store.put(key, b"cos\nsystem\n(S'true'\ntR.", ANY)
    with pytest.raises(IntegrityError, match="lost or damaged"):
        take_value(scratch, kept)
    store.delete([key])
    with pytest.raises(IntegrityError, match="lost or damaged"):
        take_value(scratch, kept)


def test_without_the_right_to_write_results_stay_as_they_are(
    scratch: Scratch, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> NoReturn:
        raise PermissionDenied("read-only")

    monkeypatch.setattr(store, "put", denied)
    assert keep_value(scratch, b"x" * LIMIT) == b"x" * LIMIT
    assert scratch.keep(b"x" * (LIMIT + 1)) is None


@pytest.mark.xdist_group("spark")
def test_the_runner_keeps_large_results(spark: Any, tmp_path: Path) -> None:
    namespace = tmp_path / "namespace"
    namespace.mkdir()
    runner = SparkRunner(spark, scratch=Scratch(StoreLocation(f"local://{namespace}", "", 16), RUN))
    sizes = [10, LIMIT, 2 * LIMIT, 2 * LIMIT]
    found = list(runner.run(tasks.large, sizes))
    assert len(list(namespace.rglob("*/*/*/*"))) == 2  # of three large ones, two are equal
    assert sorted((size, len(result)) for size, result in found) == [(n, n) for n in sizes]
    with pytest.raises(LakeError, match="seven"):
        list(runner.run(tasks.refuse_seven, [7]))
    runner.close()
    assert list(open_by_uri(f"local://{namespace}").list(SCRATCH)) == []
    assert spark.sparkContext.parallelize([1]).count() == 1
