"""``--verify``: a manifest's objects are asked for where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakecli.engine.runner import LocalRunner
from lakecli.imports import address_checks
from lakecli.imports.address_checks import Verify
from lakecli.imports.job import import_objects, preview
from lakecli.imports.model import Choice, Rows
from lakecli.imports.report import ImportOptions, ImportReport
from lakecli.imports.sources import open_source
from lakecli.repository.transfer.walk import LinkPolicy
from tests.imports.lists import write_csv
from tests.support.lakes import make_repository, open_lake, read

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.repository.contract import Repository

COUNT = 60


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with open_lake(tmp_path) as lake:
        yield make_repository(lake, tmp_path)


@pytest.fixture
def rows(tmp_path: Path) -> list[dict[str, Any]]:
    """The rows of a manifest of files that exist."""
    directory = tmp_path / "lists" / "objects"
    directory.mkdir(parents=True)
    for number in range(COUNT):
        (directory / f"{number:03d}").write_bytes(b"x" * number)
    return [
        {
            "path": f"{number:03d}",
            "physical_address": f"local://{directory}/{number:03d}",
            "size": number,
            "checksum": f"etag-{number}",
            "mtime": 1,
        }
        for number in range(COUNT)
    ]


def run(
    repository: Repository, rows: list[dict[str, Any]], place: Path, **options: Any
) -> ImportReport:
    source = write_csv(place / "lists" / "x.csv", rows)
    writes = options.pop("writes", True)
    where = repository, "main", None
    given: dict[str, Any] = {
        "source": open_source(repository, str(source), links=LinkPolicy.FAIL),
        "runner": LocalRunner(),
        "options": ImportOptions(**options),
    }
    if writes:
        return import_objects(*where, **given, committer="c")
    with preview(*where, **given) as (report, _):
        return report


@pytest.mark.parametrize("which", [Verify.SAMPLE, Verify.ALL])
@pytest.mark.parametrize("writes", [True, False])
def test_missing_and_changed_objects_are_not_imported(
    repository: Repository,
    rows: list[dict[str, Any]],
    tmp_path: Path,
    which: Verify,
    *,
    writes: bool,
) -> None:
    (tmp_path / "lists/objects/007").unlink()
    (tmp_path / "lists/objects/009").write_bytes(b"changed")
    report = run(repository, rows, tmp_path, verify=which, writes=writes)
    where = f"local://{tmp_path}/lists/objects"
    assert report.failures == [
        (b"007", f"the object is missing: {where}/007"),
        (b"009", f"the object has 7 bytes instead of 9: {where}/009"),
    ]
    assert (report.failed, report.verified, report.commit) == (2, COUNT, None)
    assert read(repository, "main") == {}


@pytest.mark.parametrize("name", ["a/./b", "../b", "a/..", ".", "back\\slash"])
def test_names_that_nobody_can_ask_azure_for_are_not_imported(
    repository: Repository, tmp_path: Path, name: str
) -> None:
    (tmp_path / "lists").mkdir()
    good = ["a/.b", "a./b", "d/", "e/..f", "file.", "g//h"]

    def rows_of(container: str) -> list[dict[str, Any]]:
        return [
            {
                "path": f"{number}",
                "physical_address": f"{container}/{each}",
                "size": 1,
                "checksum": "c",
                "mtime": 1,
            }
            for number, each in enumerate([*good, name])
        ]

    rows = rows_of("az://account/container")
    report = run(repository, rows, tmp_path, verify=Verify.NONE)
    assert [path for path, _ in report.failures] == [b"%d" % len(good)]
    assert "Azure cannot hold an object of this key" in report.failures[0][1]
    report = run(repository, rows_of("gs://bucket"), tmp_path, verify=Verify.NONE)
    assert report.failures == []


def test_nothing_is_asked_for_if_not_wanted(
    repository: Repository, rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    (tmp_path / "lists/objects/007").unlink()
    report = run(repository, rows, tmp_path, verify=Verify.NONE)
    assert (report.verified, len(read(repository, "main"))) == (0, COUNT)
    # What an earlier run took unseen is asked for by this one.
    report = run(repository, rows, tmp_path, verify=Verify.ALL)
    assert [failure.path for failure in report.failures] == [b"007"]


def test_a_sample_of_a_long_manifest(
    repository: Repository,
    rows: list[dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(address_checks, "SAMPLE", 10)
    report = run(repository, rows, tmp_path)
    assert report.commit is not None
    assert 4 <= report.verified <= 20, "some, and not all, of 60"


def test_a_sample_is_even_and_differs_from_run_to_run() -> None:
    keys = [b"%06d" % number for number in range(100_000)]
    chunks = [keys[start : start + 16_384] for start in range(0, len(keys), 16_384)]
    rows = [Rows(chunk, chunk, [0] * len(chunk), chunk, [0] * len(chunk)) for chunk in chunks]
    for one_in in (1, 7, 100, 50_000):
        counts = []
        for seed in range(200):
            choice = Choice(one_in, b"%d" % seed)
            counts.append(sum(len(choice.positions(chunk)) for chunk in rows))
        assert 0.7 < sum(counts) / len(counts) / (len(keys) / one_in) < 1.3
    firsts = {Choice(100, b"%d" % seed).positions(rows[0]).start for seed in range(200)}
    assert len(firsts) > 50
    assert not Choice().positions(rows[0])


def test_an_error_of_the_store_fails_the_object(
    repository: Repository,
    rows: list[dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from lakecli.errors import PermissionDenied

    class Closed:
        def head(self, key: str) -> None:
            raise PermissionDenied("access denied")

    monkeypatch.setattr(address_checks, "store_of", lambda _uri, **_: Closed())
    report = run(repository, rows[:1], tmp_path)
    assert [failure.why for failure in report.failures] == [
        "the object cannot be verified: access denied"
    ]


def test_copies_are_read_instead(
    repository: Repository, rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    report = run(repository, rows, tmp_path, copies=True, verify=Verify.ALL)
    assert (report.verified, report.tally.objects) == (0, COUNT)
