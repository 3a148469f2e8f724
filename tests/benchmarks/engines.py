"""Import, export, gc and fsck by both engines in turn, on the same two cores.

    python -m tests.benchmarks.engines OBJECTS

prints the table of ARCHITECTURE. A manifest of OBJECTS objects is imported; ``gc run --dry-run``
and ``fsck`` work on what was imported; one object of a hundred is a file that ``export`` copies.
Spark is started once, as the commands do, before anything is measured. Processor time is that of
this process and of all its descendants.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.cli.context import random_id
from lakecli.pipeline.exports.records import ExportOptions
from lakecli.pipeline.exports.run import export
from lakecli.pipeline.fsck.bulk import RunnerBulk
from lakecli.pipeline.gc.run import GcOptions, advance
from lakecli.pipeline.imports.job import import_objects
from lakecli.pipeline.imports.report import ImportOptions
from lakecli.pipeline.imports.sources import open_source
from lakecli.pipeline.imports.verify import Verify
from lakecli.pipeline.runner import LocalRunner
from lakecli.pipeline.scratch import Scratch
from lakecli.pipeline.spark_runner import SparkRunner
from lakecli.pipeline.store_location import StoreLocation
from lakecli.progress import NO_PROGRESS
from lakecli.repository import branch
from lakecli.repository.check.fsck import fsck
from lakecli.repository.check.thoroughness import Thoroughness
from lakecli.repository.commit import commit
from lakecli.repository.core.walk import LinkPolicy
from lakecli.repository.upload import UploadOptions
from lakecli.repository.upload_tree import upload_tree
from tests.benchmarks.import_on_spark import processor_seconds
from tests.benchmarks.lake import MAIN, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from lakecli.pipeline.runner import Runner
    from lakecli.repository.core.lake import Repository

ROUNDS: Final = 5
FILES: Final = 100
"""One object of so many is a file."""

FILE_SIZE: Final = 4_096


class Cost(NamedTuple):
    """The cost of one run."""

    seconds: float
    cpu: float


class Work(NamedTuple):
    """The same work by both engines: medians."""

    name: str
    objects: int
    local: Cost
    spark: Cost

    @property
    def ratio(self) -> float:
        """How much more processor time Spark takes."""
        return self.spark.cpu / self.local.cpu

    @property
    def row(self) -> str:
        """A line of the table."""
        figures = (
            *(self.name, f"{self.objects:,}"),
            *(f"{cost.seconds:.1f} s, {cost.cpu:.1f} s" for cost in (self.local, self.spark)),
            f"{self.spark.seconds / self.local.seconds:.2f} x, {self.ratio:.2f} x",
        )
        return f"| {' | '.join(figures)} |"


def compare_engines(
    place: Place, manifest: Path, objects: int, *, environ: Mapping[str, str], cache: Path
) -> Generator[Work]:
    """Yield the costs of each work.

    Args:
        place: of the repositories, which are created.
        manifest: what is imported.
        objects: number of its objects.
        environ: of Spark, to find Java.
        cache: directory for Spark, and for the files.
    """
    place.create("imported")
    place.create("exported")
    with place.open() as lake:
        imported, exported = lake.repository("imported"), lake.repository("exported")
        files = max(1, objects // FILES)
        _upload(exported, cache / "files", files)
        works: Mapping[str, tuple[Repository, int, Callable[[Runner], object]]] = {
            "import": (imported, objects, partial(_import, imported, manifest, count())),
            "gc run --dry-run": (imported, objects, partial(_gc, imported)),
            "fsck": (imported, objects, partial(_fsck, imported)),
            "export": (exported, files, partial(_export, exported, cache, count())),
        }
        local = LocalRunner()
        with SparkRunner(
            master="local[2]", environ=environ, cache=cache / "spark", quick_start=True
        ) as started:
            assert list(started.run(abs, [1])) == [(1, 1)]  # the session is up
            for name, (repository, number, work) in works.items():
                scratch = Scratch(StoreLocation.of(repository), random_id())
                spark = SparkRunner(started.session, scratch=scratch)
                runners: tuple[Runner, Runner] = (local, spark)
                costs: tuple[list[Cost], list[Cost]] = ([], [])
                for _ in range(ROUNDS):
                    for taken, runner in zip(costs, runners, strict=True):
                        taken.append(_measure(work, runner))
                yield Work(name, number, *map(_median, costs))


def _measure(work: Callable[[Runner], object], runner: Runner) -> Cost:
    start, before = time.perf_counter(), processor_seconds(os.getpid())
    work(runner)
    return Cost(time.perf_counter() - start, processor_seconds(os.getpid()) - before)


def _median(costs: list[Cost]) -> Cost:
    return Cost(median(each.seconds for each in costs), median(each.cpu for each in costs))


def _upload(repository: Repository, directory: Path, files: int) -> None:
    for number in range(files):
        path = directory / f"{number // 1_000:04d}" / f"{number:08d}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(number.to_bytes(8) * (FILE_SIZE // 8))
    upload_tree(repository, MAIN, b"files", source=directory, options=UploadOptions())
    commit(repository, MAIN, message="Files", committer="benchmark")


def _import(
    repository: Repository, manifest: Path, numbers: Iterator[int], runner: Runner
) -> object:
    name = f"import-{next(numbers)}"
    branch.create(repository, name, source=MAIN)
    return import_objects(
        repository,
        name,
        b"",
        source=open_source(repository, str(manifest), links=LinkPolicy.FAIL),
        runner=runner,
        committer="benchmark",
        options=ImportOptions(verify=Verify.NONE),
    )


def _gc(repository: Repository, runner: Runner) -> object:
    return advance(repository, runner, GcOptions(dry_run=True))


def _fsck(repository: Repository, runner: Runner) -> None:
    """Check as the command does, which has no bulk work in this process unless it reads data."""
    is_local = runner.name == "local"
    bulk = None if is_local else RunnerBulk(repository, runner, progress=NO_PROGRESS)
    findings = list(fsck(repository, thoroughness=Thoroughness(bulk=bulk)))
    assert not findings


def _export(
    repository: Repository, directory: Path, numbers: Iterator[int], runner: Runner
) -> None:
    destination = directory / f"export-{next(numbers)}"
    report = export(repository, MAIN, b"", str(destination), runner=runner, options=ExportOptions())
    assert not report.outcome.failed


def main() -> None:
    """Print the table."""
    from tests.benchmarks.test_import import key_of, write

    objects = int(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="lakecli-engines-") as directory:
        scratch = Path(directory)
        place = Place(scratch / "home", scratch / "namespaces")
        manifest = write(scratch / "manifest.parquet", sorted(range(objects), key=key_of))
        print("| work | objects | local: wall, processor | Spark: wall, processor | ratio |")
        print("| --- | --- | --- | --- | --- |")
        for work in compare_engines(place, manifest, objects, environ=os.environ, cache=scratch):
            print(work.row, flush=True)


if __name__ == "__main__":
    main()
