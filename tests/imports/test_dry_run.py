"""The paths of a dry run, from parts that do not see the driver's disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.layout import SCRATCH
from lakecli.engine import scratch as scratches
from lakecli.engine.runner import OpenStore
from lakecli.engine.scratch import Scratch
from lakecli.errors import IntegrityError
from lakecli.imports import dry_run
from lakecli.imports.dry_run import Lister, iter_steps, take_pieces
from lakecli.imports.model import DryRunOutput, Failures
from lakecli.repository.transfer.plan import PathAction, PathStep
from lakecli.stores.contract import ANY
from tests.imports.sources import value_of
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

PATHS = [b"p/%05d" % n for n in range(1_000)]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def scratch(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> Scratch:
    monkeypatch.setattr(scratches, "LIMIT", 100)
    monkeypatch.setattr(dry_run, "PIECE_STEPS", 100)
    return Scratch(OpenStore(store), b"s" * 16)  # type: ignore[arg-type]


def pieces_of(scratch: Scratch | None) -> tuple[Any, ...]:
    lister = Lister(Failures(), DryRunOutput("", scratch), 0)
    lister.add((path, PathAction.NEW, value_of(7)) for path in PATHS)
    return lister.finish()


@pytest.mark.parametrize("is_kept", [True, False])
def test_pieces_become_a_file_of_the_driver(
    scratch: Scratch, store: MemoryStore, tmp_path: Path, *, is_kept: bool
) -> None:
    pieces = pieces_of(scratch if is_kept else None)
    assert len(pieces) > 3
    assert len(list(store.list(SCRATCH))) == len(pieces) * is_kept
    take_pieces(pieces, str(tmp_path), 0, scratch)
    assert list(iter_steps(tmp_path)) == [PathStep(PathAction.NEW, path, 7) for path in PATHS]


def test_a_damaged_piece_is_refused(scratch: Scratch, store: MemoryStore, tmp_path: Path) -> None:
    pieces = pieces_of(scratch)
    store.put(next(store.list(SCRATCH)).key, b"other", ANY)
    with pytest.raises(IntegrityError, match="lost or damaged"):
        take_pieces(pieces, str(tmp_path), 0, scratch)


def test_failures_are_listed_among_the_others(tmp_path: Path) -> None:
    failures = Failures()
    lister = Lister(failures, DryRunOutput(str(tmp_path)), 0)
    failures.add(b"d", "early")
    failures.add(b"a", "first: \N{SNOWMAN}")
    lister.add([(b"c", PathAction.CHANGED, value_of(1)), (b"b", PathAction.DELETED, value_of(2))])
    failures.add(b"z", "last")
    lister.list_failures(before=b"x")
    lister.add([(b"y", PathAction.UNCHANGED, value_of(3))])
    assert lister.finish() == ()
    assert [(each.path, each.action, each.error) for each in iter_steps(tmp_path)] == [
        (b"a", PathAction.FAILED, "first: \N{SNOWMAN}"),
        (b"b", PathAction.DELETED, ""),
        (b"c", PathAction.CHANGED, ""),
        (b"d", PathAction.FAILED, "early"),
        (b"y", PathAction.UNCHANGED, ""),
        (b"z", PathAction.FAILED, "last"),
    ]


def test_another_attempt_replaces_the_file_of_the_first(tmp_path: Path) -> None:
    for count in (3, 2):
        lister = Lister(Failures(), DryRunOutput(str(tmp_path)), 0)
        lister.add((path, PathAction.NEW, value_of(7)) for path in PATHS[:count])
        lister.finish()
    assert [each.path for each in iter_steps(tmp_path)] == PATHS[:2]


def test_the_first_failures_are_those_of_the_first_paths() -> None:
    failures = Failures()
    for path in reversed(PATHS * 2):
        failures.add(path, "why")
    assert failures.count == 2_000
    assert [each.path for each in failures.shown[::2]] == PATHS[:500]
