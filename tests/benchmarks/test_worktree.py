"""Working directories against cp and git, on the same files."""

from __future__ import annotations

import os
import shutil
from time import sleep
from typing import TYPE_CHECKING, NamedTuple

import pytest

from lakecli.committed.encode import encode_entry
from lakecli.model import EMPTY_TREE
from lakecli.repository.core.transaction import Draft, commit_clean
from lakecli.uri import parse_path
from lakecli.worktree.index import MAPPED_NS
from lakecli.worktree.link import Link, write_link
from tests.benchmarks.claims import COMMIT, COPY, STATUS
from tests.benchmarks.lake import MAIN
from tests.benchmarks.measure import KIB, LAKECLI, MIB, compare
from tests.benchmarks.test_upload import _fill, _program
from tests.support.lakes import entry_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

    from lakecli.repository.core.view import View
    from tests.benchmarks.claims import Report
    from tests.benchmarks.lake import Place
    from tests.benchmarks.measure import Machine, Usage


def test_checkout(
    benchmark: BenchmarkFixture, report: Report, machine: Machine, place: Place, scratch: Path
) -> None:
    source = scratch / "checked-out-files"
    _fill(source, files=10_000, size=4 * KIB)
    place.create("checked-out")
    branch = f"lakefs://checked-out/{MAIN}"
    machine.run(LAKECLI, "fs", "upload", "-r", source, f"{branch}/")
    machine.run(LAKECLI, "commit", branch, "-m", "All")

    def copy(number: int) -> Usage:
        os.sync()
        copied = machine.run(_program("cp"), "-r", source, scratch / f"copied-{number}")
        return copied + machine.run(_program("sync"))

    def checkout(number: int) -> Usage:
        os.sync()
        return machine.run(LAKECLI, "local", "clone", f"{branch}/", scratch / f"cloned-{number}")

    compared = compare(benchmark, rounds=5, subject=checkout, baselines={COPY: copy})
    report.check("checkout of 10,000 files", compared.ratio(COPY), compared.detail(COPY))


class Twins(NamedTuple):
    """The same 100,000 files twice: linked with a ref, and in a repository of Git."""

    linked: Path
    git: Path


@pytest.fixture(scope="module")
def twins(machine: Machine, place: Place, scratch: Path) -> Twins:
    twins = Twins(scratch / "linked", scratch / "git")
    _fill(twins.git, files=100_000, size=16)
    place.create("twins")
    branch = f"lakefs://twins/{MAIN}"
    machine.run(LAKECLI, "fs", "upload", "-r", twins.git, f"{branch}/")
    machine.run(LAKECLI, "commit", branch, "-m", "All")
    machine.run(LAKECLI, "local", "clone", f"{branch}/", twins.linked)
    git = (_program("git"), "-C", twins.git)
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
        baselines={STATUS: lambda _: machine.run(_program("git"), "-C", twins.git, "status")},
    )
    name = "local status of 100,000 files"
    report.check(f"{name}, memory", machine.memory(*status).resident / MIB, "VmHWM")
    report.check(name, compared.cpu_ratio(STATUS), compared.detail(STATUS))


def test_commit_of_one_file(
    benchmark: BenchmarkFixture, report: Report, machine: Machine, twins: Twins
) -> None:
    changed = "0500/050050.parquet"
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
                _program("git"), "-C", twins.git, "commit", "--quiet", "-a", "-m", "One"
            )
        },
    )
    name = "local commit of one of 100,000 files"
    change(-1)
    report.check(f"{name}, memory", machine.memory(*commit).resident / MIB, "VmHWM")
    report.check(name, compared.cpu_ratio(COMMIT), compared.detail(COMMIT))


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_memory_at_a_million_files(
    report: Report, machine: Machine, place: Place, scratch: Path
) -> None:
    """Those of a directory are hard links to one, which take no space."""
    place.create("hoard")
    value = encode_entry(entry_of(b"x"))

    def paths() -> Iterator[bytes]:
        for directory in range(10_000):
            for number in range(100):
                yield b"%02d/%02d/part-%05d.parquet" % (*divmod(directory, 100), number)

    def build(view: View) -> Draft:
        from lakecli.committed.apply import apply
        from lakecli.repository.core.commit_gate import claim_head

        entries = ((path, value) for path in paths())
        applied = apply(view.repository.trees, EMPTY_TREE, entries)
        return Draft(
            metarange_id=applied.metarange_id,
            parents=[claim_head(view)],
            message="Everything",
            committer="benchmark",
            created_at=view.repository.lake.now(),
            metadata={},
        )

    with place.open() as lake:
        commit = commit_clean(lake.repository("hoard"), MAIN, build, kind="commit")
    root = scratch / "hoard"
    for path in paths():
        file = root / os.fsdecode(path)
        if not file.parent.exists():
            file.parent.mkdir(parents=True)
            first = file
            file.write_bytes(b"x")
        else:
            os.link(first, file)
    write_link(root, Link(parse_path(f"lakefs://hoard/{MAIN}/", allow_empty=True), commit.id))
    sleep(MAPPED_NS / 10**9 + 1)  # from then on the index has the states of the files
    status = (LAKECLI, "local", "status", root)
    most = max(machine.memory(*status).resident for _ in range(2))  # without an index, then with it
    report.check("local status of a million files, memory", most / MIB, "VmHWM")
    shutil.rmtree(root)
