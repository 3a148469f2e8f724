"""What commands cost on a very large repository beside a small one, really imported.

Run it: ``python -m tests.benchmarks.scale [--objects N] [--beside N] [--rounds N]``. Both are
imported in ten parts from listings that it writes itself. Then each command runs on both in turn,
as a process of its own, and medians of its processor time are compared. A hundred million objects
take about ten minutes of processor time and 12 GB of disk; some hundred thousand show in a minute
that the script works. ``TMPDIR`` chooses the disk. Limits are those of `claims.py`; with less than
a hundred million objects they are shown, but no row fails.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import deque
from functools import partial
from hashlib import md5
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

import lmdb

from lakecli.committed.point_reads import find, find_many
from lakecli.committed.scan import scan
from lakecli.repository import branch
from lakecli.repository.reading.reader import open_reader
from lakecli.repository.staged.stager import Stager
from tests.benchmarks import dataset
from tests.benchmarks.claims import CLAIMS, LMDB, MILLION, ONE_MILLION, Report
from tests.benchmarks.lake import MAIN, Place
from tests.benchmarks.measure import LAKECLI, Comparison, Machine, Usage, environment, timed
from tests.support.lakes import unclaimed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lakecli.base.model import MetarangeId
    from lakecli.committed.tree_store import TreeStore

HUNDRED_MILLION: Final = 100 * MILLION
PARTS: Final = 10
FILES_IN_DIRECTORY: Final = 50
ROW_GROUP: Final = 1 << 17

AT_ONCE: Final = 10_000
"""Random paths that are read, one by one or in one batch."""

STAGED: Final = 2 * MILLION
"""Entries that are staged at most."""

MOST_IN_LMDB: Final = 30 * MILLION
"""Entries with which LMDB is compared, at most: a thousand of them take 250 KB."""

Usages = dict[str, Usage]


class Tree(NamedTuple):
    """A large repository.

    Attributes:
        uri: of the repository.
        path: returns the path of an object by a place, 0 or 1, and a number. The two places have no
            range in common.
    """

    uri: str
    path: Callable[[int, int], str]


def commands(machine: Machine, tree: Tree, number: int, file: Path) -> Usages:
    """Run each command once; return what it took.

    Args:
        machine: runs the programs.
        tree: the repository.
        number: of the round.
        file: what is uploaded.
    """
    run = partial(machine.run, LAKECLI)
    main, side = f"{tree.uri}/{MAIN}", f"{tree.uri}/side-{number}"
    here, there = tree.path(0, number), tree.path(1, number)
    usages = {
        "fs stat": run("fs", "stat", f"{main}/{here}"),
        "fs ls": run("fs", "ls", f"{main}/{here.rpartition('/')[0]}/", "--amount", "50"),
        "fs upload": run("fs", "upload", file, f"{main}/{here}.new"),
        "status": run("status", main),
        "commit": run("commit", main, "-m", "One"),
        "diff": run("diff", f"{main}~1", main),
    }
    run("branch", "create", side, "--source", main)
    for ref, path in ((main, here), (side, there)):
        run("fs", "upload", file, f"{ref}/{path}.other")
        run("commit", ref, "-m", "Other")
    return usages | {"merge": run("merge", side, main)}


def check_commands(
    report: Report, size: str, small: Sequence[Usages], large: Sequence[Usages]
) -> None:
    """Record the claims about commands on a tree of a size, ``a billion`` for one."""
    for name in large[0]:
        compared = Comparison(
            [each[name] for each in large], {ONE_MILLION: [each[name] for each in small]}
        )
        ends = f" in {size}"
        own = [each for each in CLAIMS if each.endswith(ends) and name in each.split()]
        report.check(own[0] if own else size, compared, of=name)


def key_of(number: int) -> str:
    """Return the path of an object in its part."""
    return f"hour={number // FILES_IN_DIRECTORY:08d}/part-{number:09d}.snappy.parquet"


def path_of(objects: int, number: int) -> str:
    """Return the path of one of all objects of a repository."""
    part, row = divmod(number % objects, objects // PARTS)
    return f"p{part:02d}/{key_of(row)}"


def write_listing(path: Path, objects: int) -> None:
    """Write a listing of one part, in key order."""
    import pyarrow as pa
    from pyarrow import parquet

    schema = pa.schema(
        [
            *((name, pa.string()) for name in ("path", "physical_address", "checksum")),
            *((name, pa.int64()) for name in ("size", "mtime")),
        ]
    )
    with parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, objects, ROW_GROUP):
            numbers = range(start, min(start + ROW_GROUP, objects))
            keys = [key_of(number) for number in numbers]
            columns = {
                "path": keys,
                "physical_address": [f"s3://source-bucket/raw/{key}" for key in keys],
                "checksum": [md5(key.encode()).hexdigest() for key in keys],
                "size": [number * 7_919 % 100_000_000 for number in numbers],
                "mtime": [1_700_000_000 + number % 1_000_000 for number in numbers],
            }
            writer.write_table(pa.table(columns, schema=schema))


class Imported:
    """A repository that is imported part by part.

    Args:
        machine: runs the programs.
        place: has the home and the namespace.
        objects: how many it gets.
        directory: for the listing.
    """

    def __init__(self, machine: Machine, place: Place, objects: int, directory: Path) -> None:
        self.objects = objects
        self.name = f"with-{objects}"
        self._machine = machine
        self._place = place
        self.tree = Tree(place.create(self.name), self._path)
        self._run = partial(machine.run, LAKECLI)
        self._run("push", f"{self.tree.uri}/{MAIN}")  # tests the store, too
        self._listing = directory / f"{self.name}.parquet"
        write_listing(self._listing, objects // PARTS)

    def _path(self, place: int, number: int) -> str:
        return path_of(
            self.objects, place * self.objects // 2 + number * 7_919 % (self.objects // 4)
        )

    def imports(self) -> Iterator[Usage]:
        """Import the parts; yield what each took for an object."""
        options = ("--engine", "local", "--verify", "none", "--no-progress")
        for part in range(PARTS):
            to = f"{self.tree.uri}/{MAIN}/p{part:02d}/"
            usage = self._run("import", "--from", self._listing, "--to", to, *options)
            yield usage.each(self.objects // PARTS)

    def push(self) -> Usage:
        """Push the main branch."""
        return self._run("push", f"{self.tree.uri}/{MAIN}")

    def listing(self, lines: int) -> Usage:
        """Return what a line of a listing takes."""
        words = ("fs", "ls", "-r", f"{self.tree.uri}/{MAIN}/", "--amount", str(lines))
        return self._run(*words).each(lines)

    def staged(self, count: int) -> Usage:
        """Return what `status` takes for each of so many staged entries."""
        with self._place.open() as lake:
            repository = lake.repository(self.name)
            branch.create(repository, "staged", source=MAIN)
            stager = Stager(repository, "staged")
            for start in range(0, count, ROW_GROUP):
                numbers = range(start, min(start + ROW_GROUP, count))
                new = (
                    (b"new/%09d" % number, dataset.changed_value(b"%d" % number))
                    for number in numbers
                )
                stager.write(unclaimed(new), kind="upload")
        return self._run("status", f"{self.tree.uri}/staged").each(count)

    def reads(self, number: int) -> Usages:
        """Return what a random read takes in a process that has read nothing before."""
        usages = {}
        for name, read in READS.items():
            keys = self._keys(Random(number))
            with self._place.open() as lake, lake.repository(self.name) as repository:
                trees = repository.trees
                with open_reader(repository, MAIN) as reader:
                    tree = reader.commit.metarange_id
                usages[name] = timed(partial(read, trees, tree, keys)).each(len(keys))
        return usages

    def against_lmdb(self, rounds: int, directory: Path) -> Comparison:
        """Compare batches of random reads with LMDB, which has the same entries in its map."""
        with (
            lmdb.open(str(directory / "lmdb"), map_size=1 << 38, sync=False) as environment,
            self._place.open() as lake,
            lake.repository(self.name) as repository,
        ):
            with open_reader(repository, MAIN) as reader:
                tree = reader.commit.metarange_id
            with environment.begin(write=True) as txn, txn.cursor() as cursor:
                cursor.putmulti(scan(repository.trees, tree), append=True)
            ours: list[Usage] = []
            theirs: list[Usage] = []
            for number in range(1 + rounds):
                keys = self._keys(Random(-number))
                with environment.begin() as txn:
                    usage = timed(partial(deque, map(txn.get, keys), maxlen=0))
                theirs.append(usage.each(AT_ONCE))
                usage = timed(partial(find_many, repository.trees, tree, keys))
                ours.append(usage.each(AT_ONCE))
        return Comparison(ours[1:], {LMDB: theirs[1:]})

    def _keys(self, random: Random) -> list[bytes]:
        numbers = [random.randrange(self.objects) for _ in range(AT_ONCE)]
        return [path_of(self.objects, number).encode() for number in numbers]


def one_by_one(trees: TreeStore, tree: MetarangeId, keys: list[bytes]) -> None:
    for key in keys:
        find(trees, tree, key)


READS: Final = {"random read, one by one": one_by_one, "random read, in batches": find_many}


def measure(report: Report, options: argparse.Namespace, scratch: Path) -> None:
    """Import both repositories and measure every row."""
    place = Place(scratch / "home", scratch / "namespaces")
    machine = Machine(environment(scratch, place.home), scratch / "log")
    (file := scratch / "file").write_bytes(os.urandom(1000))
    sizes = options.beside, options.objects
    small, large = both = [Imported(machine, place, size, scratch) for size in sizes]

    def note(name: str, take: Callable[[Imported], list[Usage]]) -> None:
        ours, theirs = take(large), take(small)
        report.note_ratio(name, Comparison(ours, {ONE_MILLION: theirs}), ONE_MILLION)
        print(report.notes[-1], flush=True)

    parts = {each: [*each.imports()] for each in both}
    note("import, an object", parts.__getitem__)
    note("import, an object of the last part", lambda each: parts[each][-1:])
    note("first push, an object", lambda each: [each.push().each(each.objects)])
    rounds: dict[Imported, list[Usages]] = {each: [] for each in both}
    reads: dict[Imported, list[Usages]] = {each: [] for each in both}
    for number in range(1 + options.rounds):  # the first one fills caches
        for each in both:
            usages = commands(machine, each.tree, number, file)
            rounds[each].append(usages)
            reads[each].append(each.reads(number) | {"push": each.push()})
    for name in reads[small][0]:
        note(name, lambda each: [usages[name] for usages in reads[each][1:]])  # noqa: B023
    check_commands(report, "a hundred million", rounds[small][1:], rounds[large][1:])
    note("fs ls -r, a line", lambda each: [each.listing(min(sizes))])
    note("status, a staged entry", lambda each: [each.staged(min(STAGED, *sizes))])
    if options.objects <= MOST_IN_LMDB:
        compared = large.against_lmdb(options.rounds, scratch)
        report.note_ratio("random read, in batches", compared, LMDB)
    machine.run(LAKECLI, "branch", "delete", f"{large.tree.uri}/staged", "--yes")
    for words in (("fsck", "--data"), ("refs-dump", "--push-first")):
        usage = machine.run(LAKECLI, *words, large.tree.uri)
        report.note(f"{' '.join(words)}: {usage.cpu:,.1f} s of processor time, nothing found")


def main() -> int:
    """Measure, print every figure, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--objects", type=int, default=HUNDRED_MILLION)
    parser.add_argument("--beside", type=int, default=MILLION)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    is_binding = (options.objects, options.beside) == (HUNDRED_MILLION, MILLION)
    report = Report(is_binding=is_binding)
    with tempfile.TemporaryDirectory(prefix="lakecli-scale-") as scratch:
        measure(report, options, Path(scratch))
    print(f"{options.objects:,} objects beside {options.beside:,}")
    for line in (*report.rows, *report.notes):
        print(line)
    return 1 if report.failed_since(0) else 0


if __name__ == "__main__":
    sys.exit(main())
