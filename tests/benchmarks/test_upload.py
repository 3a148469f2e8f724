"""Uploading a directory into a local namespace and committing it, against copying it.

Every round has a directory, a namespace and a repository of its own, and nothing is deleted
before all are measured. Before each command the disk gets rid of what the one before left.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.benchmarks.claims import COPY, START_AND_COPY
from tests.benchmarks.lake import MAIN, Place
from tests.benchmarks.measure import (
    KIB,
    LAKECLI,
    MIB,
    Machine,
    Usage,
    compare,
    processor_seconds,
    seconds,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_benchmark.fixture import BenchmarkFixture

    from tests.benchmarks.claims import Report

GIT = "git add + git commit"
FILES_IN_DIRECTORY = 100
ROUNDS = 3  # each leaves 30,000 small files, whose deletion takes longer than the measurement
TMPFS = "/dev/shm"


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
        self.machine.run(_program("git"), "init", "--quiet", self._git(number))

    def copy(self, number: int) -> Usage:
        os.sync()
        copied = self.machine.run(_program("cp"), "-r", self.source, self.target / f"copy-{number}")
        return copied + self.machine.run(_program("sync"))

    def upload(self, number: int) -> Usage:
        os.sync()
        branch = f"lakefs://{self._name(number)}/{MAIN}"
        uploaded = self.machine.run(LAKECLI, "fs", "upload", "-r", self.source, f"{branch}/data/")
        return uploaded + self.machine.run(LAKECLI, "commit", branch, "-m", "All")

    def add(self, number: int) -> Usage:
        os.sync()
        git = (
            _program("git"),
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


def _program(name: str) -> str:
    path = shutil.which(name)
    assert path is not None, f"no {name} on this machine"
    return path


def _fill(directory: Path, *, files: int, size: int) -> None:
    """Write files of bytes that do not compress."""
    source = random.Random(size)
    for number in range(files):
        parent = directory / f"{number // FILES_IN_DIRECTORY:04d}"
        parent.mkdir(parents=True, exist_ok=True)
        with (parent / f"{number:06d}.parquet").open("wb") as file:
            for start in range(0, size, MIB):
                file.write(source.randbytes(min(MIB, size - start)))
    os.sync()


def test_small_files(
    benchmark: BenchmarkFixture,
    report: Report,
    machine: Machine,
    place: Place,
    scratch: Path,
) -> None:
    _fill(scratch / "small-files", files=10_000, size=4 * KIB)
    uploads = Uploads(machine, place, scratch / "small-files", scratch / "small")
    compared = compare(
        benchmark,
        rounds=ROUNDS,
        prepare=uploads.prepare,
        subject=uploads.upload,
        baselines={COPY: uploads.copy, GIT: uploads.add},
    )
    name = "10,000 files of 4 KiB"
    report.check(f"{name}, git", compared.ratio(GIT), compared.detail(GIT))
    report.check(name, compared.ratio(COPY), compared.detail(COPY))


def test_small_files_in_memory(
    benchmark: BenchmarkFixture, report: Report, machine: Machine, memory: Path
) -> None:
    """Upload and commit, where no disk takes part: what lakecli itself does for a file."""
    place = Place(memory / "home", memory / "namespaces")
    environ = machine.environ | {"LAKECLI_HOME": str(place.home)}
    _fill(memory / "source", files=10_000, size=4 * KIB)
    uploads = Uploads(Machine(environ, memory / "log"), place, memory / "source", memory / "target")
    compared = compare(
        benchmark, rounds=ROUNDS, prepare=uploads.prepare, subject=uploads.upload, baselines={}
    )
    taken = processor_seconds(compared.subject)
    wall = f"{seconds(compared.subject):.2f} s by the wall clock, two starts included"
    report.check("10,000 files of 4 KiB in memory, a file", taken * 100, wall)


@pytest.fixture
def memory() -> Iterator[Path]:
    """A directory in memory."""
    if not os.access(TMPFS, os.W_OK):
        pytest.skip(f"no directory in memory: {TMPFS}")
    path = Path(tempfile.mkdtemp(prefix="lakecli-benchmarks-", dir=TMPFS))
    yield path
    shutil.rmtree(path)


def test_large_files(
    benchmark: BenchmarkFixture,
    report: Report,
    machine: Machine,
    place: Place,
    scratch: Path,
) -> None:
    _fill(scratch / "large-files", files=4, size=256 * MIB)
    uploads = Uploads(machine, place, scratch / "large-files", scratch / "large")
    compared = compare(
        benchmark,
        rounds=ROUNDS,
        prepare=uploads.prepare,
        subject=uploads.upload,
        baselines={COPY: uploads.copy},
    )
    name = "4 files of 256 MiB"
    report.check(name, compared.ratio(COPY), compared.detail(COPY))


def test_one_file(
    benchmark: BenchmarkFixture,
    report: Report,
    machine: Machine,
    place: Place,
    scratch: Path,
) -> None:
    uri = place.create("one-file")
    source, target = scratch / "one-file", scratch / "one-file-copies"
    target.mkdir()

    def prepare(number: int) -> None:
        source.write_bytes(random.Random(number).randbytes(4 * KIB))

    def copy(number: int) -> Usage:
        listed = machine.run(LAKECLI, "branch", "list", uri)
        copied = machine.run(_program("cp"), source, target / str(number))
        return listed + copied + machine.run(_program("sync"), target / str(number))

    compared = compare(
        benchmark,
        rounds=21,
        prepare=prepare,
        subject=lambda number: machine.run(
            LAKECLI, "fs", "upload", "-s", source, f"{uri}/{MAIN}/{number}"
        ),
        baselines={START_AND_COPY: copy},
    )
    cpu = processor_seconds(compared.subject)
    detail = f"{cpu:.4f} s of processor time, {compared.detail(START_AND_COPY)}"
    report.check("upload of one file", compared.cpu_ratio(START_AND_COPY), detail)
