"""Kept counts of uncommitted changes: exact whatever happens, and found without a scan."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.model import ChangeType, StagingToken
from lakecli.committed.values import encode_entry
from lakecli.errors import LakeError, Unreachable
from lakecli.kv import operations as log
from lakecli.kv.local_store import ReadTransaction, Table
from lakecli.repository import branch
from lakecli.repository.commit import commit
from lakecli.repository.diff import diff_uncommitted
from lakecli.repository.reading.view import branch_at
from lakecli.repository.staged import counts
from lakecli.repository.staged.stager import Stager
from lakecli.repository.status import status
from lakecli.repository.undo.undo import redo, undo
from lakecli.staging import area
from lakecli.staging.area import TOMBSTONE
from tests.support.lakes import (
    Ticking,
    entry_of,
    let_pass,
    make_repository,
    open_lake,
    stage,
    stage_entries,
    unclaimed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from lakecli.base.model import Entry
    from lakecli.repository.contract import Repository

PATHS = [b"%02d" % at for at in range(30)]
Counts = tuple[int, int, int]


@pytest.fixture(autouse=True)
def _keep_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "KEPT_FROM", 1)


def counted(repository: Repository) -> Counts:
    (found,) = status(repository, "main")
    return found.added, found.changed, found.removed


def present(repository: Repository) -> Counts:
    """Count from the changes themselves."""
    with diff_uncommitted(repository, "main") as changes:
        kinds = [change.type for change in changes]
    added, changed = kinds.count(ChangeType.ADDED), kinds.count(ChangeType.CHANGED)
    return added, changed, kinds.count(ChangeType.REMOVED)


def entries(paths: Sequence[bytes], content: bytes = b"x") -> dict[bytes, Entry | None]:
    return dict.fromkeys(paths, entry_of(content))


def row_of(repository: Repository) -> dict[str, Any]:
    with repository.lake.kv.read() as txn:
        row = txn.get(Table.TOKENS, branch_at(repository, txn, "main").staging_token)
    assert row is not None
    found: dict[str, Any] = json.loads(row)
    return found


def by_an_older_lakecli(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let operations be written without the number of their parts."""
    dump = log._dump

    def without_parts(operation: log.Operation) -> bytes:
        fields = json.loads(dump(operation))
        del fields["parts"]
        return json.dumps(fields).encode()

    monkeypatch.setattr(log, "_dump", without_parts)


@pytest.fixture
def no_scans(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return what makes every scan of a staging area fail from then on."""

    def scan(*_: object, **__: object) -> None:
        raise AssertionError("a staging area was scanned")

    return partial(monkeypatch.setattr, area, "scan", scan)


def test_what_is_staged_is_counted_once(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, no_scans: Callable[[], None]
) -> None:
    stage(repository, "main", dict.fromkeys(PATHS[:10], b"1"))
    commit(repository, "main", message="ten", committer="me")
    stage_entries(repository, "main", entries(PATHS[5:]) | {PATHS[0]: None, b"none": None})
    assert counted(repository) == (20, 5, 1)
    no_scans()
    looked_at: list[bytes] = []
    get = area.get

    def counted_get(txn: ReadTransaction, token: StagingToken, path: bytes) -> bytes | None:
        looked_at.append(path)
        return get(txn, token, path)

    monkeypatch.setattr(area, "get", counted_get)
    assert counted(repository) == (20, 5, 1)
    assert not looked_at
    stage_entries(repository, "main", {PATHS[1]: None, PATHS[29]: None, b"more": entry_of(b"m")})
    looked_at.clear()
    assert counted(repository) == (20, 5, 2)
    assert sorted(looked_at) == [PATHS[1], PATHS[29], b"more"]
    undo(repository)
    assert counted(repository) == (20, 5, 1)
    redo(repository)
    branch.reset_object(repository, "main", PATHS[1])
    assert counted(repository) == (20, 5, 1)
    branch.reset(repository, "main")
    assert counted(repository) == (0, 0, 0)


def test_records_that_change_nothing_are_read_once(
    repository: Repository, no_scans: Callable[[], None]
) -> None:
    stage_entries(repository, "main", dict.fromkeys(PATHS))
    assert counted(repository) == (0, 0, 0)
    no_scans()
    assert counted(repository) == (0, 0, 0)


def test_few_records_are_not_worth_a_write(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "KEPT_FROM", 31)
    stage_entries(repository, "main", entries(PATHS))
    assert counted(repository) == (30, 0, 0)
    assert "counted" not in row_of(repository)


def test_many_operations_are_read_once(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage_entries(repository, "main", entries(PATHS))
    counted(repository)
    monkeypatch.setattr(counts, "KEPT_FROM", 5)
    for at in range(5):
        branch.create(repository, f"b{at}", source="main")
    counted(repository)
    assert row_of(repository)["counted"]["sequence"] == _last(repository)


def _last(repository: Repository) -> int:
    with repository.lake.kv.read() as txn:
        return log.last_sequence(txn, repository.key)


@pytest.mark.parametrize("is_older", [False, True])
def test_an_operation_that_goes_on_after_it_was_counted(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, *, is_older: bool
) -> None:
    if is_older:
        by_an_older_lakecli(monkeypatch)
    stager = Stager(repository, "main")
    value = encode_entry(entry_of(b"x"))
    for part in (PATHS[:10], PATHS[10:20], PATHS[15:25]):
        stager.write(unclaimed([(path, value) for path in part]), kind="upload")
        assert counted(repository) == present(repository)
    stage_entries(repository, "main", {b"other": None})
    stager.write(unclaimed([(PATHS[3], TOMBSTONE)]), kind="upload")
    assert counted(repository) == present(repository) == (24, 0, 0)


def test_an_operation_that_goes_on_and_is_followed_by_another(repository: Repository) -> None:
    stager = Stager(repository, "main")
    stager.write(unclaimed([(PATHS[0], encode_entry(entry_of(b"x")))]), kind="upload")
    assert counted(repository) == (1, 0, 0)
    stager.write(unclaimed([(PATHS[1], encode_entry(entry_of(b"x")))]), kind="upload")
    branch.create(repository, "side", source="main")
    assert counted(repository) == (2, 0, 0)


def test_a_home_of_an_older_lakecli_is_counted_once(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, no_scans: Callable[[], None]
) -> None:
    with monkeypatch.context() as older:
        by_an_older_lakecli(older)
        stage_entries(repository, "main", entries(PATHS))
    assert counted(repository) == (30, 0, 0)
    no_scans()
    assert counted(repository) == (30, 0, 0)
    with monkeypatch.context() as older:
        by_an_older_lakecli(older)
        stage_entries(repository, "main", dict.fromkeys(PATHS[:3]))
    assert counted(repository) == (27, 0, 0)
    undo(repository)
    assert counted(repository) == (30, 0, 0)


def test_a_count_is_not_kept_if_the_branch_changes_meanwhile(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage_entries(repository, "main", entries(PATHS))
    keep = counts._keep

    def late(*given: Any) -> None:
        stage_entries(repository, "main", {b"other": entry_of(b"x")})
        keep(*given)

    monkeypatch.setattr(counts, "_keep", late)
    assert counted(repository) == (30, 0, 0)
    assert "counted" not in row_of(repository)
    monkeypatch.setattr(counts, "_keep", keep)
    assert counted(repository) == (31, 0, 0)


def test_a_full_disk_does_not_hide_the_count(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def keep(*_: object) -> None:
        raise Unreachable("no space")

    stage_entries(repository, "main", entries(PATHS))
    monkeypatch.setattr(counts, "_keep", keep)
    assert counted(repository) == (30, 0, 0)


def test_counts_of_the_past(repository: Repository) -> None:
    stage_entries(repository, "main", entries(PATHS[:3]))
    with repository.lake.kv.read() as txn:
        (newest, *_) = log.iter_operations(txn, repository.key)
    stage_entries(repository, "main", entries(PATHS))
    assert counted(repository) == (30, 0, 0)
    kv = log.PastStore(repository.lake.kv, repository.key, newest.id)
    with kv.read() as txn:
        found = counts.count_uncommitted(repository, txn, branch_at(repository, txn, "main"))
    assert found == (3, 0, 0)


@pytest.mark.parametrize("seed", range(6))
def test_counts_are_exact_whatever_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    clock = Ticking()
    with open_lake(tmp_path, clock=clock) as lake:
        repository = make_repository(lake, tmp_path)
        stagers = [Stager(repository, "main") for _ in range(2)]

        def some() -> list[bytes]:
            return sorted(rng.sample(PATHS, rng.randrange(1, 8)))

        def changes() -> dict[bytes, bytes | None]:
            return {path: rng.choice((None, b"1", b"2")) for path in some()}

        def write() -> None:
            given = changes()
            stage(repository, "main", {})
            values = {
                path: TOMBSTONE if data is None else encode_entry(entry_of(data))
                for path, data in given.items()
            }
            rng.choice(stagers).write(unclaimed(sorted(values.items())), kind="upload")

        def land(**more: Any) -> None:
            commit(repository, "main", message="m", committer="me", **more)

        acts: list[Callable[[], object]] = [
            write,
            write,
            lambda: stage(repository, "main", changes()),
            lambda: stage(repository, "main", changes()),
            lambda: rng.choice(stagers).unstage(some()),
            lambda: branch.reset(repository, "main"),
            land,
            lambda: land(paths=some()),
            lambda: undo(repository),
            lambda: undo(repository),
            lambda: redo(repository),
            lambda: branch.create(repository, f"b{rng.random()}", source="main"),
            lambda: let_pass(repository, clock, timedelta(days=rng.choice((1, 20, 31)))),
        ]
        for _ in range(60):
            with monkeypatch.context() as older, suppress(LakeError):
                if rng.randrange(4) == 0:
                    by_an_older_lakecli(older)
                rng.choice(acts)()
            if not list(status(repository)):
                redo(repository)  # the creation of the repository was undone
            monkeypatch.setattr(counts, "KEPT_FROM", rng.choice((1, 1, 10, 1_000)))
            if rng.randrange(3):
                assert counted(repository) == present(repository)
        assert counted(repository) == present(repository)
