"""An import that was killed continues where it ended."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.engine.runner import LocalRunner
from lakecli.errors import LostRace, NothingToDo
from lakecli.fsck.check import fsck
from lakecli.fsck.findings import FsckCounts
from lakecli.imports import manifest, sorting
from lakecli.imports.address_checks import Verify
from lakecli.imports.job import import_objects
from lakecli.imports.report import ImportOptions
from lakecli.imports.sources import open_source
from lakecli.repository.log import LogOptions, log
from lakecli.repository.transfer.walk import LinkPolicy
from tests.imports.lists import row_of, write_csv, write_parquet
from tests.support import crashes
from tests.support.lakes import START, make_repository, open_lake

if TYPE_CHECKING:
    from lakecli.repository.handle.lake import Lake
    from tests.support.crashes import Killer

COUNT = 4_000


def do(lake: Lake, _killer: Killer, source: Path) -> str:
    """Import in small parts; return the numbers of the report as JSON."""
    manifest.ROWS_PER_PART = 500  # type: ignore[misc]
    sorting.PART_ROWS = 1_024  # type: ignore[misc]
    repository = lake.repository("demo")
    report = import_objects(
        repository,
        "main",
        b"p",
        source=open_source(repository, str(source), links=LinkPolicy.FAIL),
        runner=LocalRunner(),
        committer="c",
        options=ImportOptions(verify=Verify.NONE),
    )
    assert report.commit is not None
    return json.dumps(
        {
            "parts": report.parts,
            "resumed": report.resumed,
            "ranges": report.ranges_written,
            "tree": report.commit.metarange_id,
            "objects": report.tally.objects,
        }
    )


def run(directory: Path, source: Path, step: str = "never") -> dict[str, Any] | None:
    """Import in a separate process; return ``None`` if it was killed at the step."""
    outcome = crashes.run(do, directory, source, step=step)
    return None if outcome.killed else json.loads(outcome.answer)


def create(directory: Path) -> Path:
    directory.mkdir()
    with open_lake(directory) as lake:
        make_repository(lake, directory)
    return directory


@pytest.mark.parametrize("form", ["ordered.parquet", "mixed.csv"])
def test_finished_ranges_are_not_written_again(tmp_path: Path, form: str) -> None:
    rows = [row_of(f"{n:05d}", n % 50) for n in range(COUNT)]
    if form == "ordered.parquet":
        source = write_parquet(tmp_path / form, rows)
    else:
        random.Random(1).shuffle(rows)
        source = write_csv(tmp_path / form, rows)
    whole = run(create(tmp_path / "whole"), source)
    assert whole is not None
    assert whole["resumed"] == 0
    assert whole["parts"] >= 4

    killed = create(tmp_path / "killed")
    # Each run gets one part further, and is killed right after it.
    for _ in range(3):
        assert run(killed, source, "part") is None
    assert run(killed, source, "build") is None
    again = run(killed, source)
    assert again is not None
    assert again["resumed"] == again["parts"] == whole["parts"]
    assert again["ranges"] == 0
    assert again["tree"] == whole["tree"]
    assert again["objects"] == COUNT
    with open_lake(killed) as lake:
        counts = FsckCounts()
        assert not list(fsck(lake.repository("demo"), hash_data=False, counts=counts))
        assert not list((Path(lake.home.cache) / "imports").iterdir())
    assert counts.entries == COUNT


def test_an_unfinished_part_is_imported_again(tmp_path: Path) -> None:
    rows = [row_of(f"{n:05d}", n % 50) for n in range(COUNT)]
    source = write_parquet(tmp_path / "x.parquet", rows)
    directory = create(tmp_path / "killed")
    assert run(directory, source, "part 2") is None
    for file in sorted((directory / "cache/imports").glob("*/*"))[:1]:
        file.write_bytes(file.read_bytes()[:-1])  # torn by a machine that died
    again = run(directory, source)
    assert again is not None
    assert again["resumed"] == 1


def test_an_old_part_is_imported_again(tmp_path: Path) -> None:
    """Garbage collection may have deleted its ranges by then."""
    source = write_parquet(tmp_path / "x.parquet", [row_of(f"{n:05d}", 1) for n in range(COUNT)])
    directory = create(tmp_path / "killed")
    assert run(directory, source, "part 2") is None
    first, _ = sorted((directory / "cache/imports").glob("*/*"))
    old = START.timestamp() - 13 * 3_600
    os.utime(first, (old, old))
    again = run(directory, source)
    assert again is not None
    assert again["resumed"] == 1


def test_a_changed_manifest_is_imported_anew(tmp_path: Path) -> None:
    rows = [row_of(f"{n:05d}", n % 50) for n in range(COUNT)]
    source = write_parquet(tmp_path / "x.parquet", rows)
    directory = create(tmp_path / "killed")
    assert run(directory, source, "part 3") is None
    write_parquet(tmp_path / "x.parquet", [row_of(f"{n:05d}", 7) for n in range(COUNT)])
    again = run(directory, source)
    assert again is not None
    assert again["resumed"] == 0


@pytest.mark.parametrize("step", ["part", "build"])
def test_the_same_import_twice_at_once_commits_once(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "ROWS_PER_PART", 500)
    rows = [row_of(f"{n:05d}", n % 50) for n in range(COUNT)]
    source = write_parquet(tmp_path / "ordered.parquet", rows)
    other_is_done = False

    def on_step(name: str) -> None:
        nonlocal other_is_done
        if name == step and not other_is_done:
            other_is_done = True
            assert run(tmp_path, source) is not None

    with open_lake(tmp_path, on_step=on_step) as lake:
        repository = make_repository(lake, tmp_path)
        with pytest.raises((LostRace, NothingToDo)):
            import_objects(
                repository,
                "main",
                b"p",
                source=open_source(repository, str(source), links=LinkPolicy.FAIL),
                runner=LocalRunner(),
                committer="c",
                options=ImportOptions(verify=Verify.NONE),
            )
        with log(repository, "main", LogOptions()) as commits:
            assert len(list(commits)) == 2
