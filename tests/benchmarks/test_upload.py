"""Uploading a directory into a local namespace and committing it, against copying it.

Every round has a directory, a namespace and a repository of its own, and nothing is deleted
before all are measured. Before each command the disk gets rid of what the one before left.
"""

from __future__ import annotations

import os
import random
import shutil
from typing import TYPE_CHECKING, NamedTuple

from tests.benchmarks.claims import ADD, COPY, LIST, MILLION
from tests.benchmarks.lake import MAIN
from tests.benchmarks.measure import KIB, LAKECLI, MIB, compare

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

    from tests.benchmarks.claims import Report
    from tests.benchmarks.lake import Place
    from tests.benchmarks.measure import Machine, Usage

FILES_IN_DIRECTORY = 100
ROUNDS = 5  # each leaves 30,000 small files, whose deletion takes longer than the measurement


class Uploads(NamedTuple):
    """One tree of files, and the ways to upload it."""

    machine: Machine
    place: Place
    source: Path
    target: Path

    def prepare(self, number: int) -> None:
        """Prepare the directories of a round."""
        self.target.mkdir(exist_ok=True)
        self.place.create(self._name(number))
        self.machine.run(program("git"), "init", "--quiet", self._git(number))

    def copy(self, number: int) -> Usage:
        os.sync()
        copied = self.machine.run(program("cp"), "-r", self.source, self.target / f"copy-{number}")
        return copied + self.machine.run(program("sync"))

    def upload(self, number: int) -> Usage:
        os.sync()
        branch = f"lakefs://{self._name(number)}/{MAIN}"
        uploaded = self.machine.run(LAKECLI, "fs", "upload", "-r", self.source, f"{branch}/data/")
        return uploaded + self.machine.run(LAKECLI, "commit", branch, "-m", "All")

    def add(self, number: int) -> Usage:
        os.sync()
        git = (
            program("git"),
            "-c",
            "gc.auto=0",  # otherwise Git goes on working in the background
            f"--git-dir={self._git(number)}/.git",
            f"--work-tree={self.source}",
        )
        added = self.machine.run(*git, "add", "--all")
        return added + self.machine.run(*git, "commit", "--quiet", "-m", "All")

    def _name(self, number: int) -> str:
        return f"{self.target.name}-{number}"

    def _git(self, number: int) -> Path:
        return self.target / f"git-{number}"


def program(name: str) -> str:
    """Return the path of a program."""
    path = shutil.which(name)
    assert path is not None, f"no {name} on this machine"
    return path


def fill(directory: Path, *, files: int, size: int) -> None:
    """Write files of bytes that do not compress."""
    source = random.Random(size)
    for number in range(files):
        parent = directory / f"{number // FILES_IN_DIRECTORY:04d}"
        parent.mkdir(parents=True, exist_ok=True)
        with (parent / f"{number:06d}.parquet").open("wb") as file:
            for start in range(0, size, MIB):
                file.write(source.randbytes(min(MIB, size - start)))
    os.sync()


def test_small_files(  # noqa: PLR0917 - fixtures
    benchmark: BenchmarkFixture,
    report: Report,
    machine: Machine,
    place: Place,
    scratch: Path,
    objects: int,
) -> None:
    fill(scratch / "small-files", files=objects // 100, size=4 * KIB)
    uploads = Uploads(machine, place, scratch / "small-files", scratch / "small")
    compared = compare(
        benchmark,
        rounds=ROUNDS,
        prepare=uploads.prepare,
        subject=uploads.upload,
        baselines={COPY: uploads.copy, ADD: uploads.add},
    )
    report.check("upload and commit of 10,000 files", compared)
    report.note_ratio("upload and commit of 10,000 files", compared, ADD)


def test_large_files(  # noqa: PLR0917 - fixtures
    benchmark: BenchmarkFixture,
    report: Report,
    machine: Machine,
    place: Place,
    scratch: Path,
    objects: int,
) -> None:
    fill(scratch / "large-files", files=4, size=256 * MIB * objects // MILLION)
    uploads = Uploads(machine, place, scratch / "large-files", scratch / "large")
    compared = compare(
        benchmark,
        rounds=ROUNDS + 2,
        prepare=uploads.prepare,
        subject=uploads.upload,
        baselines={COPY: uploads.copy},
    )
    report.check("upload of 4 large files", compared)


def test_one_file(
    benchmark: BenchmarkFixture, report: Report, machine: Machine, place: Place, scratch: Path
) -> None:
    uri, source = place.create("one-file"), scratch / "one-file"
    compared = compare(
        benchmark,
        rounds=21,
        prepare=lambda number: source.write_bytes(random.Random(number).randbytes(4 * KIB)),
        subject=lambda number: machine.run(
            LAKECLI, "fs", "upload", "-s", source, f"{uri}/{MAIN}/{number}"
        ),
        baselines={LIST: lambda _: machine.run(LAKECLI, "branch", "list", uri)},
    )
    report.check("upload of one file", compared)
