"""An import into a branch that others move meanwhile repeats only what the moves touch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.engine.runner import LocalRunner
from lakecli.imports import manifest, sorting, sources
from lakecli.imports.address_checks import Verify
from lakecli.imports.job import import_objects
from lakecli.imports.report import ImportOptions, ImportReport
from lakecli.imports.sources import open_source
from lakecli.repository import branch
from lakecli.repository.commit import commit
from lakecli.repository.transfer.walk import LinkPolicy
from tests.imports.lists import row_of, write_csv, write_parquet
from tests.imports.sources import Split
from tests.support.lakes import make_repository, open_lake, stage

if TYPE_CHECKING:
    from lakecli.repository.contract import Repository

COUNT = 2_000
PARTS = 5
Changes = Mapping[bytes, bytes | None]


class Counting(LocalRunner):
    """Counts the parts that are imported."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[int] = []

    def run(self, task: Callable[[Any], Any], parts: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        for item, result in super().run(task, parts):
            self.parts.append(item.number)
            yield item, result


class Moving:
    """A repository whose branch ``main`` moves each time that an import is about to be committed.

    Args:
        directory: for the lake.
        moves: what each move changes.
    """

    def __init__(self, directory: Path, moves: Iterable[Changes]) -> None:
        self._moves = iter(moves)
        self._is_importing = False
        self.lake = open_lake(directory, on_step=self._step)
        self.repository: Repository = make_repository(self.lake, directory)

    def change(self, changes: Changes) -> None:
        stage(self.repository, "main", changes)
        commit(self.repository, "main", message="m", committer="c")

    def _step(self, name: str) -> None:
        if name == "build" and self._is_importing and (changes := next(self._moves, None)):
            self._is_importing = False
            self.change(changes)
            self._is_importing = True

    def run(
        self, source: Any, path: bytes | None, *, to: str = "main", copies: bool = False
    ) -> tuple[Any, Counting]:
        """Import; return the report, and the runner, which knows the parts that were imported."""
        runner = Counting()
        self._is_importing = to == "main"
        report = import_objects(
            self.repository,
            to,
            path,
            source=source,
            runner=runner,
            committer="c",
            options=ImportOptions(verify=Verify.NONE, allow_empty=True, copies=copies),
        )
        self._is_importing = False
        return report, runner

    def check(self, report: ImportReport, source: Any, path: bytes | None) -> None:
        """Compare with the same import into a branch that nobody moves."""
        branch.create(self.repository, "quiet", source="main~1")
        quiet, _ = self.run(source, path, to="quiet")
        assert report.commit is not None
        assert report.commit.metarange_id == quiet.commit.metarange_id
        assert report.tally == quiet.tally


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "ROWS_PER_PART", COUNT // PARTS)
    monkeypatch.setattr(sorting, "PART_ROWS", COUNT // PARTS)


@pytest.fixture(params=["x.parquet", "x.csv"])
def listing(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    rows = [row_of(f"{n:05d}", n % 50) for n in range(COUNT)]
    write = write_parquet if request.param == "x.parquet" else write_csv
    return write(tmp_path / request.param, rows)


def moving(directory: Path, listing: Path, moves: list[Changes]) -> tuple[ImportReport, list[int]]:
    with (moving := Moving(directory, moves)).lake:
        moving.change({b"a": b"1", b"z": b"1"})
        source = open_source(moving.repository, str(listing), links=LinkPolicy.FAIL)
        report, runner = moving.run(source, b"p")
        moving.check(report, source, b"p")
        assert runner.parts[:PARTS] == list(range(PARTS))
        return report, runner.parts[PARTS:]


def test_a_move_elsewhere_repeats_nothing(tmp_path: Path, listing: Path) -> None:
    moves: list[Changes] = [{b"elsewhere/%d" % n: b"1", b"z": b"%d" % n} for n in range(20)]
    report, again = moving(tmp_path, listing, moves)
    assert again == []
    assert (report.parts, report.resumed, report.tally.added) == (PARTS, 0, COUNT)


def test_a_move_below_the_prefix_repeats_the_part_that_it_touches(
    tmp_path: Path, listing: Path
) -> None:
    moves: list[Changes] = [{b"p/00450x": b"1"}, {b"b": b"1"}, {b"p/01999": b""}]
    report, again = moving(tmp_path, listing, moves)
    assert again == [1, 4]
    assert (report.tally.added, report.tally.changed, report.tally.removed) == (COUNT - 1, 1, 1)


def test_a_killed_import_goes_on_after_a_move(tmp_path: Path, listing: Path) -> None:
    with (moving := Moving(tmp_path, [])).lake:
        source = open_source(moving.repository, str(listing), links=LinkPolicy.FAIL)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("lakecli.imports.job.clean_attempt", _die)
            with pytest.raises(RuntimeError):
                moving.run(source, b"p")
        moving.change({b"elsewhere": b"1", b"p/00450x": b"1"})
        report, runner = moving.run(source, b"p")
        assert runner.parts == [1]
        assert (report.parts, report.resumed) == (PARTS, PARTS - 1)
        moving.check(report, source, b"p")


def _die(*_: object, **__: object) -> None:
    raise RuntimeError("killed")


def test_bytes_are_copied_once(tmp_path: Path) -> None:
    (raw := tmp_path / "raw").mkdir()
    for number in range(9):
        (raw / str(number)).write_bytes(b"%d" % number)
    with (moving := Moving(tmp_path, [{b"elsewhere": b"%d" % n} for n in range(3)])).lake:
        source = open_source(moving.repository, str(raw), links=LinkPolicy.FAIL)
        report, runner = moving.run(source, b"p", copies=True)
        assert report.tally.added == 9
        assert len(runner.parts) == report.parts


def test_of_a_directory_the_parts_that_a_move_touches_are_imported_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "FILES_PER_PART", 2)
    (raw := tmp_path / "raw").mkdir()
    for number in range(9):
        (raw / str(number)).write_bytes(b"%d" % number)
    with (moving := Moving(tmp_path, [{b"p/3x": b"1"}, {b"b": b"1"}])).lake:
        source = open_source(moving.repository, str(raw), links=LinkPolicy.FAIL)
        report, runner = moving.run(source, b"p", copies=True)
        assert runner.parts == [0, 1, 2, 3, 4, 1]
        assert (report.parts, report.resumed, report.tally.removed) == (5, 0, 1)


keys = st.binary(min_size=1, max_size=2).map(lambda key: b"p/" + key) | st.sampled_from(
    [b"a", b"p", b"p.x", b"p0", b"q/1"]
)
changes = st.dictionaries(keys, st.none() | st.binary(max_size=1), min_size=1, max_size=6)
objects = st.dictionaries(st.binary(min_size=1, max_size=2), st.integers(0, 3), max_size=40)


@given(
    base=changes,
    moves=st.lists(changes, max_size=4),
    contents=objects,
    bounds=st.lists(st.binary(min_size=1, max_size=1), max_size=4),
    path=st.sampled_from([None, b"p"]),
)
def test_the_tree_is_as_if_the_import_had_come_last(
    base: Changes,
    moves: list[Changes],
    contents: dict[bytes, int],
    bounds: list[bytes],
    path: bytes | None,
) -> None:
    different = [{**each, b"m": b"%d" % n} for n, each in enumerate(moves)]
    with TemporaryDirectory() as place, (moving := Moving(Path(place), different)).lake:
        moving.change({**base, b"a": b"1"})
        source = Split(contents, bounds)
        report, _ = moving.run(source, path)
        moving.check(report, source, path)
