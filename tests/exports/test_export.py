"""Exports to a directory."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakecli.base.model import Entry
from lakecli.committed.values import encode_entry
from lakecli.engine.runner import LocalRunner
from lakecli.errors import (
    NotFound,
    PartialFailure,
    PermissionDenied,
    Refused,
    Unreachable,
    UsageError,
)
from lakecli.exports.run import ExportOptions, export, summarise
from lakecli.repository.commit import commit
from lakecli.repository.reading.addresses import remember
from lakecli.repository.staged.stager import Stager
from lakecli.repository.upload import UploadOptions
from lakecli.repository.upload_tree import upload_tree
from lakecli.stores.contract import ANY
from tests.support.faulty import FaultyStore
from tests.support.lakes import (
    START,
    entry_of,
    make_repository,
    open_lake,
    stage,
    through,
    unclaimed,
)
from tests.support.recorded_progress import RecordedProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lakecli.errors import LakeError
    from lakecli.exports.run import ExportReport
    from lakecli.repository.contract import Repository
    from lakecli.repository.transfer.plan import PathStep

PARTITIONS = {
    **{
        f"tables/orders/day={day:02d}/part-{number}.parquet".encode(): f"{day} {number}".encode()
        for day in range(1, 21)
        for number in range(3)
    },
    b"tables/orders/_SUCCESS": b"",
    b"readme.txt": b"read me",
}


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with open_lake(tmp_path) as lake:
        yield make_repository(lake, tmp_path)


def put(
    repository: Repository, contents: Mapping[bytes, bytes | None], message: str = "more"
) -> str:
    """Commit contents, with their data."""
    for data in contents.values():
        if data is not None:
            repository.store.put_new(entry_of(data).physical_address, data)
    stage(repository, "main", contents)
    return commit(repository, "main", message=message, committer="me").id


def run(
    repository: Repository, target: Path, prefix: bytes = b"", **options: object
) -> ExportReport:
    return export(
        repository,
        "main",
        prefix,
        str(target),
        runner=LocalRunner(),
        options=ExportOptions(**options),  # type: ignore[arg-type]
    )


def files(root: Path) -> dict[bytes, bytes]:
    """The exported files, without the report and the marker at the root."""
    found = {
        os.fsencode(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not path.name.startswith("_lakecli_export_")
    }
    found.pop(b"_SUCCESS", None)
    return found


def reports(root: Path) -> list[dict[str, object]]:
    return [json.loads(path.read_bytes()) for path in sorted(root.glob("_lakecli_export_*.json"))]


def test_all_objects_are_exported_and_the_marker_last(
    repository: Repository, tmp_path: Path
) -> None:
    made = put(repository, PARTITIONS)
    target = tmp_path / "out"
    report = run(repository, target)
    assert files(target) == PARTITIONS
    assert (target / "_SUCCESS").read_bytes() == b""
    assert report.commit_id == made
    assert (report.outcome.new.count, report.outcome.failed) == (len(PARTITIONS), 0)
    assert report.outcome.new.size == sum(map(len, PARTITIONS.values()))
    (status,) = reports(target)
    assert status["result"] == "success"
    assert status["commit_id"] == made
    assert (target / report.status).name.endswith("_SUCCESS.json")
    assert summarise(report) is None


def test_a_second_export_writes_nothing(repository: Repository, tmp_path: Path) -> None:
    put(repository, PARTITIONS)
    target = tmp_path / "out"
    run(repository, target)
    (target / "readme.txt").write_text("somebody's")
    (target / "stray.txt").write_text("not ours")
    before = {path: path.stat().st_mtime_ns for path in target.rglob("*.parquet")}
    report = run(repository, target)
    assert report.outcome.unchanged.count == len(PARTITIONS) - 1
    assert report.outcome.changed.count == 1
    assert {path: path.stat().st_mtime_ns for path in target.rglob("*.parquet")} == before
    assert files(target) == PARTITIONS | {b"stray.txt": b"not ours"}


def test_names_are_relative_to_the_prefix(repository: Repository, tmp_path: Path) -> None:
    put(repository, PARTITIONS | {b"tables/orders2/x": b"another"})
    target = tmp_path / "out"
    report = run(repository, target, b"tables/orders")
    expected = {
        path.removeprefix(b"tables/orders/"): data
        for path, data in PARTITIONS.items()
        if path.startswith(b"tables/orders/") and not path.endswith(b"_SUCCESS")
    }
    assert files(target) == expected
    assert (target / "_SUCCESS").exists()  # the table's own
    assert report.outcome.new.count == len(expected) + 1
    with pytest.raises(NotFound, match="no object at"):
        run(repository, target, b"tables/none")


def test_since_exports_changes_and_deletions_only(repository: Repository, tmp_path: Path) -> None:
    first = put(repository, PARTITIONS)
    target = tmp_path / "out"
    run(repository, target)
    changes: dict[bytes, bytes | None] = {
        b"tables/orders/day=03/part-0.parquet": None,
        b"tables/orders/day=03/part-1.parquet": None,
        b"tables/orders/day=03/part-2.parquet": None,
        b"tables/orders/day=04/part-0.parquet": b"rewritten",
        b"tables/orders/day=21/part-0.parquet": b"new",
    }
    put(repository, changes)
    (target / "stray.txt").write_text("not ours")
    report = run(repository, target, since=first)
    expected = {path: data for path, data in (PARTITIONS | changes).items() if data is not None} | {
        b"stray.txt": b"not ours"
    }
    assert files(target) == expected
    assert not (target / "tables/orders/day=03").exists()
    outcome = report.outcome
    assert (outcome.new.count, outcome.changed.count, outcome.deleted.count) == (1, 1, 3)
    assert outcome.unchanged.count == 0
    assert (report.since_commit_id, report.since_was_exported) == (first, True)
    assert run(repository, tmp_path / "new", since=first).since_was_exported is False
    again = run(repository, target, since=first).outcome
    assert (again.new.count, again.changed.count, again.deleted.count) == (0, 0, 0)
    assert again.unchanged.count == 2


def test_changed_objects_at_the_destination_are_not_deleted(
    repository: Repository, tmp_path: Path
) -> None:
    first = put(repository, {b"a": b"1", b"b": b"2"})
    target = tmp_path / "out"
    run(repository, target)
    (target / "a").write_text("somebody's")
    put(repository, {b"a": None, b"b": b"3"})
    report = run(repository, target, since=first)
    assert [each.path for each in report.outcome.failures] == [b"a"]
    assert "it was changed" in report.outcome.failures[0].why
    assert files(target) == {b"a": b"somebody's", b"b": b"3"}
    assert not (target / "_SUCCESS").exists()


def test_a_file_becomes_a_directory_and_back(repository: Repository, tmp_path: Path) -> None:
    first = put(repository, {b"x": b"1", b"y/z": b"2", b"other": b"3"})
    target = tmp_path / "out"
    run(repository, target)
    put(repository, {b"x": None, b"x/w": b"4", b"y/z": None, b"y": b"5"})
    report = run(repository, target, since=first)
    assert report.outcome.failed == 0
    assert files(target) == {b"x/w": b"4", b"y": b"5", b"other": b"3"}


def test_an_empty_directory_gives_way_to_a_file(repository: Repository, tmp_path: Path) -> None:
    first = put(repository, {b"x/": b"", b"y": b"1"})
    target = tmp_path / "out"
    run(repository, target)
    assert (target / "x").is_dir()
    put(repository, {b"x/": None, b"x": b"2"})
    assert run(repository, target, since=first).outcome.failures == []
    assert files(target) == {b"x": b"2", b"y": b"1"}


def test_the_hint_says_whether_the_same_command_helps(
    repository: Repository, tmp_path: Path
) -> None:
    made = put(repository, {b"a//b": b"1", b"x" * 256: b"2", b"fine": b"3", b"d/": b"data"})
    target = tmp_path / "out"
    problem = summarise(run(repository, target))
    assert problem is not None
    assert len(problem.paths) == 3
    assert "rename the objects" in (problem.hint or "")
    put(repository, dict.fromkeys(problem.paths, None) | {b"e": b"4"})
    (target / "e/mine").mkdir(parents=True)
    (target / "e/mine/file").touch()
    problem = summarise(run(repository, target, since=made))
    assert problem is not None
    assert problem.paths == (b"e",)
    assert "run the same command again" in (problem.hint or "")


def test_without_a_success_of_its_own_an_old_one_goes_first(
    repository: Repository, tmp_path: Path
) -> None:
    put(repository, {b"a": b"1"})
    target = tmp_path / "out"
    run(repository, target)
    assert (target / "_SUCCESS").exists()
    put(repository, {b"a//b": b"2"})
    assert run(repository, target, success=False).outcome.failed == 1
    assert not (target / "_SUCCESS").exists()


def test_an_old_success_goes_first_if_the_ref_has_one_too(
    repository: Repository, tmp_path: Path
) -> None:
    first = put(repository, {b"t/a": b"1", b"t/_SUCCESS": b"mine"})
    target = tmp_path / "out"
    run(repository, target, b"t")
    put(repository, {b"t/a//b": b"2"})
    assert run(repository, target, b"t").outcome.failed == 1
    assert not (target / "_SUCCESS").exists()
    put(repository, {b"t/a//b": None, b"t/c": b"3"})
    run(repository, target, b"t", since=first)
    assert (target / "_SUCCESS").read_bytes() == b"mine"


def test_damage_is_found_on_the_way(repository: Repository, tmp_path: Path) -> None:
    put(repository, PARTITIONS)
    bad, gone = (
        repository.store.local_path(entry_of(data).physical_address) for data in (b"3 1", b"5 2")
    )
    assert bad is not None
    assert gone is not None
    Path(bad).write_bytes(b"3 !")
    Path(gone).unlink()
    target = tmp_path / "out"
    target.mkdir()
    (target / "_SUCCESS").touch()  # of an earlier export
    report = run(repository, target)
    failed = {b"tables/orders/day=03/part-1.parquet", b"tables/orders/day=05/part-2.parquet"}
    assert {each.path for each in report.outcome.failures} == failed
    assert [each.why.split(":")[0] for each in report.outcome.failures] == [
        "the data object is damaged",
        "the data object is gone",
    ]
    assert files(target) == {
        path: data
        for path, data in PARTITIONS.items()
        if path not in failed and not path.endswith(b"_SUCCESS")
    }
    assert not (target / "_SUCCESS").exists()
    (status,) = reports(target)
    assert (status["result"], status["failed"]) == ("failure", 2)
    problem = summarise(report)
    assert isinstance(problem, PartialFailure)
    assert set(problem.paths) == failed

    repository.store.delete([entry_of(b"3 1").physical_address])
    for data in (b"3 1", b"5 2"):
        repository.store.put_new(entry_of(data).physical_address, data)
    assert run(repository, target).outcome.failed == 0
    assert files(target) == PARTITIONS


def test_exports_never_leave_the_target(repository: Repository, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    target = tmp_path / "out"
    target.mkdir()
    (target / "link").symlink_to(outside)
    bad = [b"../evil", b"a/../../evil", b"a//b", b"link/evil", b"/etc/x"]
    put(repository, {**dict.fromkeys(bad, b"evil"), b"fine": b"fine"})
    report = run(repository, target)
    assert sorted(each.path for each in report.outcome.failures) == sorted(bad)
    assert files(target) == {b"fine": b"fine"}
    assert list(outside.iterdir()) == []
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("below", ["", "/deeper/still"])
def test_its_own_namespace_is_refused(repository: Repository, tmp_path: Path, below: str) -> None:
    put(repository, {b"a": b"1"})
    (tmp_path / "link").symlink_to(tmp_path / "namespace")
    for place in ("namespace", "link"):
        with pytest.raises(Refused, match="own storage namespace"):
            export(repository, "main", b"", f"{tmp_path}/{place}{below}", runner=LocalRunner())
    report = run(repository, tmp_path)  # above it
    assert report.outcome.failed == 0
    put(repository, {b"namespace/data/x": b"2", b"namespace2": b"3"})
    report = run(repository, tmp_path)
    assert [each.path for each in report.outcome.failures] == [b"namespace/data/x"]
    (tmp_path / "above").symlink_to(tmp_path)
    report = run(repository, tmp_path / "above")
    assert [each.path for each in report.outcome.failures] == [b"namespace/data/x"]


def test_a_file_as_destination_is_refused(repository: Repository, tmp_path: Path) -> None:
    put(repository, {b"a": b"1"})
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="not a directory"):
        run(repository, tmp_path / "file")


def test_a_dry_run_counts_and_writes_nothing(repository: Repository, tmp_path: Path) -> None:
    first = put(repository, PARTITIONS)
    target = tmp_path / "out"
    outcome = run(repository, target, dry_run=True).outcome
    assert outcome.new.count == len(PARTITIONS)
    assert outcome.new.size == sum(map(len, PARTITIONS.values()))
    assert not target.exists()
    run(repository, target)
    put(repository, {b"readme.txt": None, b"new": b"new", b"tables/orders/_SUCCESS": b"x"})
    for file in filter(Path.is_file, target.rglob("*")):
        os.utime(file, (7, 7))
    before = {path: path.stat().st_mtime for path in target.rglob("*")}
    run(repository, target, dry_run=True)
    steps: list[PathStep] = []
    report = run(repository, target, since=first, dry_run=True, on_steps=steps.extend)
    outcome = report.outcome
    assert [(each.action.value, each.path) for each in steps] == [
        ("new", b"new"),
        ("deleted", b"readme.txt"),
        ("changed", b"tables/orders/_SUCCESS"),  # such objects are written last
    ]
    assert (outcome.new.count, outcome.changed.count, outcome.deleted.count) == (1, 1, 1)
    assert report.status == ""
    assert {path: path.stat().st_mtime for path in target.rglob("*")} == before


def test_uncommitted_changes_are_not_exported(repository: Repository, tmp_path: Path) -> None:
    put(repository, {b"a": b"1"})
    assert not run(repository, tmp_path / "out").uncommitted
    stage(repository, "main", {b"b": b"2"})
    assert run(repository, tmp_path / "out").uncommitted
    assert files(tmp_path / "out") == {b"a": b"1"}
    with pytest.raises(UsageError):
        export(repository, "main$", b"", str(tmp_path / "out"), runner=LocalRunner())


def test_times_and_directories_are_exported(repository: Repository, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "f").write_text("x")
    os.utime(source / "f", (1_000_000_000, 1_000_000_000))
    upload_tree(repository, "main", b"", source=source, options=UploadOptions())
    put(repository, {b"empty/": b""})
    report = run(repository, tmp_path / "out")
    assert report.outcome.failed == 0
    assert (tmp_path / "out/f").stat().st_mtime == 1_000_000_000
    assert (tmp_path / "out/empty").is_dir()


def external(repository: Repository, path: bytes, file: Path, size: int) -> None:
    entry = Entry(f"local://{file}", size, "", START)
    remember(repository, [f"local://{file.parent}"])
    Stager(repository, "main").write(unclaimed([(path, encode_entry(entry))]), kind="test")
    commit(repository, "main", message="external", committer="me")


def test_objects_outside_the_namespace(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("elsewhere")
    external(repository, b"sound", tmp_path / "there", 9)
    target = tmp_path / "out"
    assert run(repository, target).outcome.new.count == 1
    assert files(target) == {b"sound": b"elsewhere"}
    assert run(repository, target).outcome.unchanged.count == 1
    external(repository, b"changed", tmp_path / "there", 8)
    external(repository, b"gone", tmp_path / "nowhere", 8)
    report = run(repository, target)
    assert [each.path for each in report.outcome.failures] == [b"changed", b"gone"]
    assert "changed since it was recorded" in report.outcome.failures[0].why


def test_a_killed_export_continues(repository: Repository, tmp_path: Path) -> None:
    put(repository, PARTITIONS)
    target = tmp_path / "out"
    target.mkdir()
    (target / "_SUCCESS").touch()
    done = 0

    def stop(items: int) -> None:
        nonlocal done
        done += items
        if done == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(repository, target, threads=1, progress=RecordedProgress(stop))
    assert not (target / "_SUCCESS").exists()
    report = run(repository, target)
    assert report.outcome.unchanged.count == 20
    assert files(target) == PARTITIONS


class Moody(FaultyStore):
    """Fails to read the objects that a function selects."""

    def __init__(self, fails: Callable[[str], LakeError | None]) -> None:
        super().__init__()
        self._fails = fails

    def get(
        self, key: str, *, start: int = 0, length: int | None = None, matching: str = ""
    ) -> bytes:
        error = self._fails(key)
        if error is not None:
            raise error
        return super().get(key, start=start, length=length, matching=matching)


def in_store(repository: Repository, store: FaultyStore) -> Repository:
    """Put a repository's objects into another store."""
    for info in repository.store.list():
        store.put(info.key, repository.store.get(info.key), ANY)
    return through(repository, store)


def test_temporary_failures_are_retried(repository: Repository, tmp_path: Path) -> None:
    put(repository, PARTITIONS)
    busy = {entry_of(b"7 0").physical_address}

    def fails(key: str) -> LakeError | None:
        if key in busy:
            busy.discard(key)
            return Unreachable("busy")
        return None

    repository = in_store(repository, Moody(fails))
    report = run(repository, tmp_path / "out")
    assert not busy
    assert report.outcome.failed == 0
    assert report.outcome.new.count == len(PARTITIONS)
    assert files(tmp_path / "out") == PARTITIONS


def test_refused_objects_fail(repository: Repository, tmp_path: Path) -> None:
    put(repository, PARTITIONS)
    first = {entry_of(b"read me").physical_address, entry_of(b"1 0").physical_address}
    store = Moody(lambda key: PermissionDenied("no") if key in first else None)
    repository = in_store(repository, store)
    report = run(repository, tmp_path / "out", threads=1)
    assert [each.path for each in report.outcome.failures] == [
        b"readme.txt",
        b"tables/orders/day=01/part-0.parquet",
    ]
    assert len(files(tmp_path / "out")) == len(PARTITIONS) - 3


def test_an_unreachable_store_ends_the_export(repository: Repository, tmp_path: Path) -> None:
    put(repository, PARTITIONS)
    asked = []

    def fails(key: str) -> LakeError | None:
        if not key.startswith("data/"):
            return None
        asked.append(key)
        return Unreachable("gone")

    repository = in_store(repository, Moody(fails))
    with pytest.raises(Unreachable):
        run(repository, tmp_path / "out", threads=1)
    assert len(asked) == 8
    assert not (tmp_path / "out/_SUCCESS").exists()


def test_without_a_marker(repository: Repository, tmp_path: Path) -> None:
    put(repository, {b"a": b"1"})
    run(repository, tmp_path / "out", success=False)
    assert not (tmp_path / "out/_SUCCESS").exists()


def test_threads_export_the_same(repository: Repository, tmp_path: Path) -> None:
    put(repository, PARTITIONS)
    report = export(
        repository, "main", b"", str(tmp_path / "out"), runner=LocalRunner(parallelism=4)
    )
    assert report.outcome.new.count == len(PARTITIONS)
    assert files(tmp_path / "out") == PARTITIONS


def _remove(target: Path) -> None:
    (target / "d/f").unlink()


def _put_directory(target: Path) -> None:
    (target / "d/f").unlink()
    (target / "d/f").mkdir()
    (target / "d/f/mine").write_text("mine")


def _put_file_above(target: Path) -> None:
    shutil.rmtree(target / "d")
    (target / "d").write_text("mine")


_DESTINATION: dict[str, Callable[[Path], object]] = {
    "as exported": lambda _target: 0,
    "missing": _remove,
    "changed": lambda target: (target / "d/f").write_text("mine"),
    "directory": _put_directory,
    "file above": _put_file_above,
}
_CHANGES: dict[str, dict[bytes, bytes | None]] = {
    "none": {b"unrelated": b"u"},
    "changed": {b"d/f": b"later"},
    "deleted": {b"d/f": None},
    "directory": {b"d/f": None, b"d/f/g": b"later"},
    "file": {b"d/f": None, b"d/e": None, b"d": b"later"},
}


@pytest.mark.parametrize("change", _CHANGES)
@pytest.mark.parametrize("found", _DESTINATION)
def test_since_names_whatever_it_could_not_bring(
    repository: Repository, tmp_path: Path, found: str, change: str
) -> None:
    """A table of what the destination has at a path, and what the branch did with it."""
    first = put(repository, {b"d/f": b"1", b"d/e": b"1"})
    target = tmp_path / "out"
    run(repository, target)
    _DESTINATION[found](target)
    changes = _CHANGES[change]
    put(repository, changes)
    mine = {path for path, data in files(target).items() if data == b"mine"}
    planned = run(repository, target, since=first, dry_run=True).outcome
    for _ in range(2):  # repeating it does and says the same
        outcome = run(repository, target, since=first).outcome
        failed = {each.path for each in outcome.failures}
        here = files(target)
        for path, data in changes.items():
            assert here.get(path) == data or path in failed
        assert outcome.failed == len(failed)
        assert {each.path for each in planned.failures} <= failed
        assert found != "as exported" or not failed
        kept = {path for path, data in files(target).items() if data == b"mine"}
        # A file that has the path of a new object is replaced, as without --since.
        assert kept == mine or (change, found) in {("changed", "changed"), ("file", "file above")}


def test_an_object_with_bytes_whose_name_ends_in_a_slash_fails(
    repository: Repository, tmp_path: Path
) -> None:
    put(repository, {b"d/": b"data", b"d/x": b"1", b"empty/": b""})
    report = run(repository, tmp_path / "out")
    assert [each.path for each in report.outcome.failures] == [b"d/"]
    assert summarise(report) is not None
    assert not (tmp_path / "out/_SUCCESS").exists()
    assert (tmp_path / "out/empty").is_dir()
    assert files(tmp_path / "out") == {b"d/x": b"1"}
