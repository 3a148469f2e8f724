"""Working directories against cp and git, on the same files."""

from __future__ import annotations

import os
import shutil
from time import sleep
from typing import TYPE_CHECKING, NamedTuple

import pytest

from lakecli.base.uri import parse_path
from lakecli.committed.values import encode_entry
from lakecli.worktree.index import MAPPED_NS
from lakecli.worktree.link import Link, write_link
from tests.benchmarks.claims import COMMIT, COPY, STATUS
from tests.benchmarks.lake import MAIN, commit_entries
from tests.benchmarks.measure import KIB, LAKECLI, compare, repeat
from tests.benchmarks.test_upload import fill, program
from tests.support.lakes import entry_of

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

    from tests.benchmarks.claims import Report
    from tests.benchmarks.lake import Place
    from tests.benchmarks.measure import Machine, Usage


def test_checkout(  # noqa: PLR0917 - fixtures
    benchmark: BenchmarkFixture,
    report: Report,
    machine: Machine,
    place: Place,
    scratch: Path,
    objects: int,
) -> None:
    source = scratch / "checked-out-files"
    fill(source, files=objects // 100, size=4 * KIB)
    place.create("checked-out")
    branch = f"lakefs://checked-out/{MAIN}"
    machine.run(LAKECLI, "fs", "upload", "-r", source, f"{branch}/")
    machine.run(LAKECLI, "commit", branch, "-m", "All")

    def copy(number: int) -> Usage:
        os.sync()
        copied = machine.run(program("cp"), "-r", source, scratch / f"copied-{number}")
        return copied + machine.run(program("sync"))

    def checkout(number: int) -> Usage:
        os.sync()
        return machine.run(LAKECLI, "local", "clone", f"{branch}/", scratch / f"cloned-{number}")

    compared = compare(benchmark, rounds=5, subject=checkout, baselines={COPY: copy})
    report.check("checkout of 10,000 files", compared)


class Twins(NamedTuple):
    """The same 100,000 files twice: linked with a ref, and in a repository of Git."""

    linked: Path
    git: Path


@pytest.fixture(scope="module")
def twins(machine: Machine, place: Place, scratch: Path, objects: int) -> Twins:
    twins = Twins(scratch / "linked", scratch / "git")
    fill(twins.git, files=objects // 10, size=16)
    place.create("twins")
    branch = f"lakefs://twins/{MAIN}"
    machine.run(LAKECLI, "fs", "upload", "-r", twins.git, f"{branch}/")
    machine.run(LAKECLI, "commit", branch, "-m", "All")
    machine.run(LAKECLI, "local", "clone", f"{branch}/", twins.linked)
    git = (program("git"), "-C", twins.git)
    machine.run(*git, "init", "--quiet")
    machine.run(*git, "config", "gc.auto", "0")
    machine.run(*git, "add", "--all")
    machine.run(*git, "commit", "--quiet", "-m", "All")
    return twins


def test_status(
    benchmark: BenchmarkFixture, report: Report, machine: Machine, twins: Twins
) -> None:
    status = (LAKECLI, "local", "status", twins.linked)
    compared = compare(
        benchmark,
        rounds=11,
        subject=lambda _: machine.run(*status),
        baselines={STATUS: lambda _: machine.run(program("git"), "-C", twins.git, "status")},
    )
    report.check("local status of 100,000 files", compared)


def test_commit_of_one_file(
    benchmark: BenchmarkFixture, report: Report, machine: Machine, twins: Twins
) -> None:
    changed = "0005/000550.parquet"
    commit = (LAKECLI, "local", "commit", twins.linked, "-m", "One")

    def change(number: int) -> None:
        for root in twins:
            (root / changed).write_text(f"round {number}")

    compared = compare(
        benchmark,
        rounds=11,
        prepare=change,
        subject=lambda _: machine.run(*commit),
        baselines={
            COMMIT: lambda _: machine.run(
                program("git"), "-C", twins.git, "commit", "--quiet", "-a", "-m", "One"
            )
        },
    )
    report.check("local commit of one of them", compared)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_memory_of_status(  # noqa: PLR0917 - fixtures
    benchmark: BenchmarkFixture,
    report: Report,
    machine: Machine,
    place: Place,
    scratch: Path,
    objects: int,
) -> None:
    """The files of a directory are hard links to one, which take no space."""
    place.create("hoard")
    value, root = encode_entry(entry_of(b"x")), scratch / "hoard"
    paths = [
        b"%02d/%02d/part-%05d.parquet" % (*divmod(directory, 100), number)
        for directory in range(objects // 100)
        for number in range(100)
    ]
    with place.open() as lake:
        commit = commit_entries(lake.repository("hoard"), ((path, value) for path in paths))
    first = root
    for path in paths:
        file = root / os.fsdecode(path)
        if not file.parent.exists():
            file.parent.mkdir(parents=True)
            file.write_bytes(b"x")
            first = file
        else:
            os.link(first, file)
    write_link(root, Link(parse_path(f"lakefs://hoard/{MAIN}/", allow_empty=True), commit.id))
    sleep(MAPPED_NS / 10**9 + 1)  # from then on the index has the states of the files
    status = (LAKECLI, "local", "status", root)
    report.check_memory(
        "local status without an index",
        repeat(benchmark, lambda: machine.memory(*status), rounds=1),
    )
    report.check_memory("local status with an index", machine.memory(*status))
    shutil.rmtree(root)
