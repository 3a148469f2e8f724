"""pandas, pyarrow, DuckDB and Dask on any ref, and writing Parquet to a branch."""

from __future__ import annotations

import pickle
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from dask import dataframe
from fsspec.parquet import open_parquet_file
from pyarrow import dataset, parquet
from upath import UPath
from upath.registry import get_upath_class

from lakecli.filesystem import LakeFileSystem, lakes
from lakecli.filesystem.universal import LakeUPath
from lakecli.repository import repo, tag
from lakecli.repository.push import PushOptions, push

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAIN = "lakefs://demo/main"
SALES = f"{MAIN}/sales"
dd: Any = dataframe
ME = PushOptions(who="Ada <ada@example.com>")
REGIONS = ["north", "south"]


def frame(rows: int) -> Any:
    regions = [REGIONS[row % 2] for row in range(rows)]
    return pd.DataFrame({"amount": range(rows), "region": regions})


@pytest.fixture
def refs(fs: LakeFileSystem) -> dict[str, int]:
    """Refs of two commits of a table and of staged changes, with their numbers of rows."""
    for rows in (10, 20):
        frame(rows).to_parquet(f"{MAIN}/table.parquet")
        fs.commit(MAIN, f"{rows} rows")
    with lakes.repository(lakes.home_of(None), "demo") as repository:
        then = tag.create(repository, "v1", "main~1")
    frame(30).to_parquet(f"{MAIN}/table.parquet")
    return {
        "main": 30,
        "main@": 20,
        "v1": 10,
        then.commit_id: 10,
        "main@{now}": 20,
        "main@{1}": 10,
        "main@{0}~1": 10,
    }


@pytest.fixture
def duck(fs: LakeFileSystem) -> Iterator[Any]:
    with duckdb.connect() as connection:
        connection.register_filesystem(fs)
        yield connection


def test_pandas(refs: dict[str, int]) -> None:
    for ref, rows in refs.items():
        found = pd.read_parquet(f"lakefs://demo/{ref}/table.parquet", columns=["amount"])
        assert len(found) == rows, ref
        assert list(found.columns) == ["amount"]
    frame(5).to_csv(f"{MAIN}/t.csv.gz", index=False)
    assert pd.read_csv(f"{MAIN}/t.csv.gz").equals(frame(5))
    frame(5).to_json(f"{MAIN}/t.jsonl", orient="records", lines=True)
    assert pd.read_json(f"{MAIN}/t.jsonl", lines=True).equals(frame(5))


def test_pandas_partitions(fs: LakeFileSystem) -> None:
    frame(6).to_parquet(SALES, partition_cols=["region"])
    assert fs.ls(SALES, detail=False) == [f"demo/main/sales/region={region}" for region in REGIONS]
    fs.commit(MAIN, "partitions")
    fs.rm(SALES, recursive=True)
    found = pd.read_parquet("lakefs://demo/main@{now}/sales", filters=[("region", "=", "south")])
    assert list(found["amount"]) == [1, 3, 5]


def test_pandas_with_options(refs: dict[str, int]) -> None:
    options = {"home": lakes.home_of(None)}
    found = pd.read_parquet("lakefs://demo/v1/table.parquet", storage_options=options)
    assert len(found) == refs["v1"]


def test_pyarrow(fs: LakeFileSystem, refs: dict[str, int]) -> None:
    for ref, rows in refs.items():
        found = dataset.dataset(f"demo/{ref}/table.parquet", filesystem=fs, format="parquet")
        assert found.count_rows() == rows, ref
    with fs.committing(MAIN, "by pyarrow"):
        dataset.write_dataset(
            dataset.dataset("demo/main/table.parquet", filesystem=fs).to_table(),
            "demo/main/sales",
            filesystem=fs,
            format="parquet",
            partitioning=["region"],
            partitioning_flavor="hive",
            existing_data_behavior="overwrite_or_ignore",
        )
    found = dataset.dataset("demo/main@/sales", filesystem=fs, partitioning="hive")
    assert found.count_rows(filter=dataset.field("region") == "north") == 15
    assert parquet.read_table("demo/main/sales", filesystem=fs).num_rows == 30
    table = parquet.read_table("demo/v1/table.parquet", filesystem=fs)
    parquet.write_table(table, "demo/main/copy.parquet", filesystem=fs)
    assert fs.ukey(f"{MAIN}/copy.parquet") != fs.ukey(f"{MAIN}/table.parquet")


def test_duckdb(duck: Any, refs: dict[str, int], fs: LakeFileSystem) -> None:
    for ref, rows in refs.items():
        query = f"SELECT count(*) FROM read_parquet('lakefs://demo/{ref}/table.parquet')"
        assert duck.execute(query).fetchall() == [(rows,)], ref
    duck.execute(f"COPY (SELECT range AS n FROM range(7)) TO '{MAIN}/n.parquet' (FORMAT parquet)")
    assert duck.execute(f"SELECT sum(n) FROM '{MAIN}/n.parquet'").fetchall() == [(21,)]
    duck.execute(
        f"COPY (SELECT range AS n, range % 3 AS k FROM range(9)) TO '{SALES}' "
        "(FORMAT parquet, PARTITION_BY (k))"
    )
    fs.commit(MAIN, "by DuckDB")
    query = f"SELECT sum(n) FROM read_parquet('{MAIN}@{{now}}/sales/*/*.parquet') WHERE k = 2"
    assert duck.execute(query).fetchall() == [(15,)]
    compared = f"""
        SELECT count(*) FROM '{MAIN}/table.parquet' AS new
        ANTI JOIN 'lakefs://demo/v1/table.parquet' AS old USING (amount)
    """
    assert duck.execute(compared).fetchall() == [(20,)]


def test_universal_pathlib(fs: LakeFileSystem, demo: Path) -> None:
    main = UPath(MAIN)  # no warning that the file system is not implemented
    assert type(main) is get_upath_class("lakefs") is LakeUPath
    file = main / "d" / "x.txt"
    file.write_text("1")
    assert [str(each) for each in main.rglob("*.txt")] == [f"{MAIN}/d/x.txt"]
    assert [str(each) for each in file.parents] == [f"{MAIN}/d", MAIN, "lakefs://demo", "lakefs://"]
    assert str(file.relative_to(main)) == "d/x.txt"
    assert file.rename(main / "d" / "y.txt").read_text() == "1"
    for options in ({}, {"parents": True}, {"exist_ok": True}):
        with pytest.raises(FileExistsError):
            (main / "d" / "y.txt").mkdir(**options)
    with pytest.raises(FileExistsError):
        (main / "d").mkdir()
    (main / "d").mkdir(exist_ok=True)
    (main / "new").mkdir()
    assert (main / "new").is_dir()
    assert pickle.loads(pickle.dumps(main)) == main
    fs.commit(MAIN, "y")
    with lakes.repository(fs.home, "demo") as repository:
        push(repository, "main", options=ME)
    there = UPath(f"lakefs://local://{demo}@main")
    assert [str(each) for each in there.glob("*/*")] == [f"{there}/d/y.txt"]
    assert (there / "d" / "y.txt").read_text() == "1"
    assert (there / "d" / "y.txt").parent.parent == there
    assert there.parents[-1] == UPath("lakefs://")


def test_a_namespace_without_a_clone(fs: LakeFileSystem, duck: Any, demo: Path) -> None:
    frame(10).to_parquet(f"{MAIN}/t.parquet")
    frame(6).to_csv(f"{MAIN}/t.csv.gz", index=False)
    frame(6).to_parquet(SALES, partition_cols=["region"])
    fs.commit(MAIN, "tables")
    with lakes.repository(fs.home, "demo") as repository:
        push(repository, "main", options=ME)
        repo.delete(repository.lake, "demo")
    there = f"lakefs://local://{demo}@main"
    assert pd.read_parquet(f"{there}/t.parquet").equals(frame(10))
    assert pd.read_csv(f"{there}/t.csv.gz").equals(frame(6))
    found = pd.read_parquet(f"{there}/sales", filters=[("region", "=", "south")])
    assert list(found["amount"]) == [1, 3, 5]
    inside = there.removeprefix("lakefs://")
    assert dataset.dataset(f"{inside}/sales", filesystem=fs, partitioning="hive").count_rows() == 6
    for query, answer in {
        f"SELECT count(*) FROM '{there}/t.parquet'": 10,
        f"SELECT count(*) FROM '{there}/t.csv.gz'": 6,
        f"SELECT sum(amount) FROM '{there}/sales/*/*.parquet' WHERE region = 'south'": 9,
        f"SELECT sum(amount) FROM '{there}/sales/**/*.parquet' WHERE region = 'south'": 9,
    }.items():
        assert duck.execute(query).fetchall() == [(answer,)], query
    assert dd.read_parquet(f"{there}/sales")["amount"].sum().compute() == 15


def test_dask(fs: LakeFileSystem, refs: dict[str, int]) -> None:
    for ref, rows in refs.items():
        found = dd.read_parquet(f"lakefs://demo/{ref}/table.parquet")
        assert len(found) == rows, ref
    dd.from_pandas(frame(12), npartitions=4).to_parquet(SALES, write_index=False)
    assert len(fs.glob(f"{SALES}/*.parquet")) == 4
    fs.commit(MAIN, "by Dask")
    dd.from_pandas(frame(8), npartitions=2).to_parquet(SALES, overwrite=True, write_index=False)
    assert dd.read_parquet(SALES)["amount"].sum().compute() == 28
    assert dd.read_parquet(f"{MAIN}@{{now}}/sales")["amount"].sum().compute() == 66


def test_dask_in_processes(refs: dict[str, int]) -> None:
    """Workers receive strings, and open their own store."""
    found = dd.read_parquet("lakefs://demo/v1/table.parquet", split_row_groups=True)
    assert found["amount"].sum().compute(scheduler="processes", num_workers=1) == 45
    assert refs


def test_the_example_of_the_manual(fs: LakeFileSystem, tmp_path: Path) -> None:
    with lakes.lake(fs.home) as held:
        repo.create(held.lake, "sales", str(tmp_path / "sales"))
    for rows in (10, 12):
        frame(rows).rename(columns={"amount": "id"}).to_parquet(
            "lakefs://sales/main/orders.parquet"
        )
        fs.commit("lakefs://sales/main", f"{rows} rows")
    page = Path(__file__).parents[2] / "lakecli" / "cli" / "manual" / "topics" / "python.md"
    section = page.read_text().partition("## pandas, pyarrow, DuckDB and Dask")[2]
    section = section.partition("\n## ")[0]
    [code] = re.findall(r"^    import duckdb.*?(?=^\S)", section, re.DOTALL | re.MULTILINE)
    code = textwrap.dedent(code)
    names: dict[str, Any] = {}
    exec(code.replace("main@{2026-11-01}", "main@{1}"), names)
    assert (len(names["before"]), len(names["orders"])) == (10, 12)
    assert len(fs.find("lakefs://sales/main@/orders")) == 2
    duckdb.unregister_filesystem("lakefs")


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of what is read from now on."""
    sizes: list[int] = []
    whole = LakeFileSystem.read_range

    def counted(self: LakeFileSystem, *args: Any) -> bytes:
        sizes.append(len(whole(self, *args)))
        return whole(self, *args)

    monkeypatch.setattr(LakeFileSystem, "read_range", counted)
    return sizes


def test_a_column_of_parquet_is_read_without_its_neighbours(
    fs: LakeFileSystem, duck: Any, read: list[int]
) -> None:
    rows = np.random.default_rng(0).random((400_000, 8))
    columns = [f"c{number}" for number in range(8)]
    path = "demo/main/wide.parquet"
    table = pa.table(dict(zip(columns, rows.T, strict=True)))
    parquet.write_table(table, path, filesystem=fs, row_group_size=100_000)
    footer = parquet.read_metadata(path, filesystem=fs)
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    wanted = sum(group.column(3).total_compressed_size for group in groups)
    url = f"lakefs://{path}"
    ways: dict[str, Callable[[], Any]] = {
        "pandas": lambda: pd.read_parquet(url, columns=["c3"])["c3"],
        "read_table": lambda: parquet.read_table(path, filesystem=fs, columns=["c3"])["c3"],
        "dataset": lambda: dataset.dataset(path, filesystem=fs).to_table(columns=["c3"])["c3"],
        "DuckDB": lambda: duck.execute(f"SELECT sum(c3) FROM '{url}'").fetchall()[0][0],
        "dask": lambda: dd.read_parquet(url, columns=["c3"])["c3"].sum().compute(),
        "fsspec": lambda: pd.read_parquet(
            open_parquet_file(path, fs=fs, columns=["c3"]), columns=["c3"]
        )["c3"],
    }
    for name, way in ways.items():
        read.clear()
        assert np.sum(way()) == pytest.approx(rows[:, 3].sum()), name
        # fsspec reads a megabyte of the end twice.
        assert wanted <= sum(read) < 1.2 * wanted + (2_000_000 if name == "fsspec" else 0), name
        assert len(read) <= 3 * len(groups), name


def test_a_file_that_is_read_in_order_takes_few_requests(
    fs: LakeFileSystem, read: list[int]
) -> None:
    lines = b"".join(b"%d,%d\n" % (number, number * number) for number in range(1_000_000))
    fs.pipe_file(f"{MAIN}/long.csv", b"a,b\n" + lines)
    assert len(pd.read_csv(f"{MAIN}/long.csv")) == 1_000_000
    assert len(read) <= 5 + len(lines) // fs.blocksize + 5
    assert sum(read) == 4 + len(lines)
