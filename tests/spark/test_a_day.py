"""A day of a data engineer: one table of 120 partitions, from Spark's Parquet to the sweep."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from lakecli.cli.exit_codes import ExitCode
from lakecli.repository.handle import housekeeping
from lakecli.repository.handle.lake import Lake
from lakecli.repository.runtime import Home, Runtime
from lakecli.spark import read_table, register, write_table
from tests.support.golden import Cli

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(900)]

DAYS: Final = 120
ORDERS: Final = 1_200
FIRST: Final = date(2026, 1, 1)
WRONG: Final = FIRST + timedelta(days=31)
"""A day whose amounts are half of what they should be."""
LAST: Final = FIRST + timedelta(days=DAYS - 1)

DEMO: Final = "lakefs://demo"
LONG_AGO: Final = 1_700_000_000
NOW: Final = datetime.now(UTC)  # noqa: TID251 - as Spark's executors and file systems have it

Sums = dict[date, float]
"""What all orders of a day amount to."""


def expected() -> Sums:
    """The sums of `make_orders`."""
    sums = dict.fromkeys((FIRST + timedelta(days=number) for number in range(DAYS)), 0.0)
    for number in range(ORDERS):
        sums[FIRST + timedelta(days=number % DAYS)] += number / 2
    return sums


def make_orders(spark: Any, directory: Path) -> None:
    """Have Spark itself write the table, a directory a day."""
    spark.range(0, ORDERS, 1, 2).selectExpr(
        "id", "id / 2 as amount", f"date'{FIRST}' + cast(id % {DAYS} as int) as day"
    ).repartition(2, "day").write.partitionBy("day").parquet(str(directory))


def sums_of(frame: Any) -> Sums:
    return {
        row.day: row.amount
        for row in frame.groupBy("day").sum("amount").toDF("day", "amount").collect()
    }


def pandas_sums(uri: str) -> Sums:
    import pandas as pd

    table = pd.read_parquet(uri, columns=["amount", "day"])
    sums = table.groupby("day", observed=True).amount.sum()
    return {date.fromisoformat(day): amount for day, amount in sums.items()}


class Day:
    """The lake as commands, Spark and pandas see it, on the same home and with the same clock."""

    def __init__(self, spark: Any, cli: Cli, source: str, namespace: str) -> None:
        self.spark = spark
        self.cli = cli
        self.source = source
        # The store's clock, by which garbage is judged, cannot be set: the day was in the past.
        cli.now = NOW - timedelta(days=20)
        cli.ok("repo", "create", DEMO, namespace, "--range-entries=16")

    def spark_sums(self, ref: str, **options: Any) -> Sums:
        return sums_of(read_table(self.spark, f"{DEMO}/{ref}/orders/", **options))

    def pandas_sums(self, ref: str) -> Sums:
        return pandas_sums(f"{DEMO}/{ref}/orders/")

    def entries(self, uri: str, **options: str) -> Any:
        return self.spark.read.format("lakefs").options(**options).load(uri)

    def begin(self) -> str:
        """Import twice, with and without copying, and return the commit on main."""
        cli = self.cli
        to = ("--to", f"{DEMO}/main/orders/", "--json")
        planned = cli.ok("import", "--from", self.source, *to, "--copy", "--dry-run").json_lines[-1]
        done = cli.ok("import", "--from", self.source, *to, "--copy", "--engine", "spark").json
        assert planned["added"] == done["added"] == done["objects"] > DAYS
        assert planned["size"] == done["size"]
        cli.ok("branch", "create", f"{DEMO}/linked", "-s", f"{DEMO}/main~1")
        to = ("--to", f"{DEMO}/linked/orders/", "--json")
        linked = cli.ok("import", "--from", self.source, *to).json
        assert (linked["added"], linked["size"]) == (done["added"], done["size"])
        addresses = cli.ok("fs", "ls", "-r", f"{DEMO}/linked/orders/", "--json").json_lines
        assert all("data/" not in each["physical_address"] for each in addresses)
        cli.ok("tag", "create", f"{DEMO}/v1", f"{DEMO}/main")
        return str(done["commit"]["id"])

    def correct(self) -> None:
        """Rewrite a partition on a branch, look at the difference, and merge it."""
        cli = self.cli
        cli.ok("branch", "create", f"{DEMO}/fix", "-s", f"{DEMO}/main")
        wrong = read_table(self.spark, f"{DEMO}/fix/orders/", where=f"day = '{WRONG}'")
        right = wrong.selectExpr("id", "amount * 2 as amount", "day")
        written = write_table(
            right, f"{DEMO}/fix/orders/", mode="overwrite_partitions", partition_by=["day"]
        )
        assert written.rows == ORDERS // DAYS
        cli.now = NOW - timedelta(days=15)
        changes = cli.ok("diff", f"{DEMO}/main", f"{DEMO}/fix", "--json").json_lines
        assert (
            cli.ok("diff", f"{DEMO}/main", f"{DEMO}/fix", "--json", "--engine", "spark").json_lines
            == changes
        )
        frame = self.entries(DEMO, diff="main...fix")
        assert [(row.type, row.path) for row in frame.collect()] == [
            (each["type"], each["path"]) for each in changes
        ]
        assert {each["type"] for each in changes} == {"added", "removed"}
        assert all(each["path"].startswith(f"orders/day={WRONG}/") for each in changes)
        cli.ok("merge", f"{DEMO}/fix", f"{DEMO}/main")

    def export(self, destination: Path) -> None:
        """Hand over what the tag names, then what has changed since."""
        cli = self.cli
        first = cli.ok("export", f"{DEMO}/v1/orders/", destination, "--json").json
        assert pandas_sums(str(destination)) == expected()
        args = ("export", f"{DEMO}/main/orders/", destination, "--since", "v1", "--json")
        second = cli.ok(*args, "--engine", "spark").json
        assert first["new"] > DAYS > 5 > second["new"] == 1
        assert sums_of(self.spark.read.parquet(str(destination))) == corrected()
        assert (destination / "_SUCCESS").exists()


def corrected() -> Sums:
    sums = expected()
    sums[WRONG] *= 2
    return sums


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def check_points_in_time(day: Day, first: str) -> None:
    """Check that every expression for a moment gives the table as it was then."""
    assert day.spark_sums("main") == corrected()
    assert day.spark_sums("main@{18 days ago}") == expected()
    assert day.spark_sums(first, where=f"day = '{WRONG}'") == {WRONG: expected()[WRONG]}
    assert day.pandas_sums("linked") == day.pandas_sums("v1") == expected()
    assert day.pandas_sums("main@{1}") == expected()
    assert day.pandas_sums("main") == corrected()


@pytest.mark.nightly
def test_a_day(spark: Any, cli: Cli, tmp_path: Path) -> None:
    raw, namespace, out = tmp_path / "raw", tmp_path / "namespace", tmp_path / "out"
    make_orders(spark, raw)
    register(spark)
    day = Day(spark, cli, str(raw), str(namespace))
    first = day.begin()
    day.correct()
    check_points_in_time(day, first)
    day.export(out)

    files = day.entries(f"{DEMO}/main/orders/", columns="path,size").where("path like '%.parquet'")
    assert files.groupBy().sum("size").collect()[0][0] == sum(
        path.stat().st_size for path in out.glob("day=*/*.parquet")
    )
    history = day.entries(f"{DEMO}/main", what="commits")
    assert first in {row.id for row in history.collect()}
    refs = {row.name: row.commit_id for row in day.entries(DEMO, what="refs").collect()}
    assert refs.keys() == {"main", "linked", "fix", "v1"}
    assert refs["v1"] == first

    forget_and_collect(day, namespace, first)
    damage_and_repair(day, namespace, out)


def forget_and_collect(day: Day, namespace: Path, first: str) -> None:
    """Delete a day and every name of the past, and collect what nothing reaches any more."""
    cli = day.cli
    cli.now = NOW - timedelta(days=10)
    cli.ok("fs", "rm", "-r", f"{DEMO}/main/orders/day={LAST}/")
    cli.ok("commit", f"{DEMO}/main", "-m", "The last day was a test")
    for name in ("linked", "fix"):
        cli.ok("branch", "delete", f"{DEMO}/{name}", "-y")
    cli.ok("tag", "delete", f"{DEMO}/v1", "-y")
    cli.ok("push", f"{DEMO}/main")
    cli.ok("gc", "set-config", DEMO, "-f", "-", stdin='{"default_retention_days": 7}')
    kept = keys(namespace)
    run = ("gc", "run", DEMO)
    assert cli.ok(*run, "--json").json["action"] == "found nothing"

    # Operations that could be taken back are forgotten, after two readings of the clock.
    cli.now = NOW + timedelta(days=365)
    tidy(cli)
    cli.now += timedelta(days=1)
    tidy(cli)
    grow_old(namespace)
    planned = cli.ok(*run, "--dry-run", "--json").json
    condemned = cli.ok(*run, "--json").json
    assert planned["action"] == condemned["action"] == "condemned"
    assert planned["garbage"] == condemned["garbage"]
    cli.ok("gc", "undo", DEMO)
    assert cli.ok("gc", "status", DEMO, "--json").json["phase"] == "idle"
    assert cli.ok(*run, "--json", "--engine", "spark").json["garbage"] == condemned["garbage"]
    assert cli.ok(*run, "--json").json["action"] == "waits"
    assert keys(namespace) == kept
    grow_old(namespace)
    assert cli.ok(*run, "-y", "--json").json["action"] == "swept"

    gone = kept - keys(namespace)
    assert len(gone) == sum(
        each["objects"] for each in condemned["garbage"] if each["kind"] == "data"
    )
    expected_now = corrected()
    del expected_now[LAST]
    assert day.spark_sums("main") == expected_now
    late = cli("fs", "ls", f"{DEMO}/{first}/orders/day={LAST}/", "--json")
    assert (late.exit_code, late.error["kind"]) == (ExitCode.INTEGRITY, "integrity")


def damage_and_repair(day: Day, namespace: Path, out: Path) -> None:
    """Lose data and a range, and heal them from what was exported and from the cache."""
    cli = day.cli
    cli.ok("fsck", DEMO, "--data")
    before = day.pandas_sums("main")
    shutil.rmtree(namespace / "data")
    found = cli("fsck", DEMO)
    assert found.exit_code == ExitCode.INTEGRITY
    assert f"orders/day={WRONG}" in found.stdout + found.stderr
    cli.ok("fsck", DEMO, "--repair", "--from", out, "--engine", "spark")
    cli.ok("fsck", DEMO, "--data")
    assert day.pandas_sums("main") == before


def keys(namespace: Path) -> set[str]:
    """The data objects of a namespace."""
    return {path.name for path in namespace.glob("data/*/*")}


def tidy(cli: Cli) -> None:
    """Let the operation log drop operations that are too old to be undone."""
    home = Path(os.environ["LAKECLI_HOME"])
    runtime = Runtime(lambda: cli.now, lambda: os.urandom(16))
    with Lake.open(Home(home / "store", home / "cache"), runtime) as lake:
        housekeeping.tidy(lake.repository(DEMO.removeprefix("lakefs://")))


def grow_old(namespace: Path) -> None:
    """Let everything in a namespace be old by its store's clock."""
    for path in namespace.rglob("*"):
        if path.is_file():
            os.utime(path, (LONG_AGO, LONG_AGO))
