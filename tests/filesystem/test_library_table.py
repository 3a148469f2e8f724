"""Each line of the page on libraries, tried with the versions that it names.

The page is what is tested: its lines name the versions, which one new environment gets by uv. Each
line has a piece of code here, under the first name in it, which fails if the line is wrong.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from lakecli.cli.manual.topics import find_topic
from lakecli.filesystem import lakes

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1_200), pytest.mark.xdist_group("libraries")]

PROJECT = Path(__file__).parents[2]
PYTHON = "3.13"
NEEDED: Final = ("lightning-utilities", "obstore")
"""What litdata needs beside PyTorch."""

VERSIONED: Final = re.compile(r"([A-Za-z][\w-]*) (\d[\w.]*\d)\b")

START: Final = """
    import os, pathlib, fsspec, pytest
    fs = fsspec.filesystem("lakefs", committer="Ada <ada@example.com>")
    MAIN = "lakefs://demo/main"
    def head():
        return fs.commit(MAIN, "tried").id
"""

TRIED: Final = {
    "pandas": """
        import pandas as pd
        rows = pd.DataFrame({"a": [1, 2]})
        for kind, end in (("parquet", ""), ("csv", ".gz"), ("json", ".xz"), ("pickle", ".zip")):
            options = {"index": False} if kind == "csv" else {}
            getattr(rows, f"to_{kind}")(f"{MAIN}/a.{kind}{end}", **options)
            assert getattr(pd, f"read_{kind}")(f"{MAIN}/a.{kind}{end}").equals(rows), kind
        at = head()
        fs.rm(f"{MAIN}/a.parquet")
        assert pd.read_parquet(f"lakefs://demo/{at}/a.parquet").equals(rows)
        with pytest.raises(OSError):
            rows.to_csv(f"{MAIN}/a.csv", mode="a")
    """,
    "Dask": """
        import dask.bag, dask.dataframe as dd, pandas as pd
        if __name__ == "__main__":
            rows = pd.DataFrame({"a": range(10)})
            dd.from_pandas(rows, npartitions=3).to_parquet(f"{MAIN}/d")
            found = dd.read_parquet(f"{MAIN}/d")["a"].sum()
            assert found.compute() == 45
            assert found.compute(scheduler="processes", num_workers=1) == 45
            dask.bag.from_sequence(["a", "b"]).to_textfiles(f"{MAIN}/t/*.txt")
            lines = dask.bag.read_text(f"{MAIN}/t/*.txt").compute(scheduler="threads")
            assert [line.strip() for line in lines] == ["a", "b"]
    """,
    "Xarray": """
        import xarray as xr
        first = xr.Dataset({"a": ("x", [1, 2])})
        first.to_zarr(f"{MAIN}/z")
        at = head()
        first.to_zarr(f"{MAIN}/z", append_dim="x")
        assert list(xr.open_zarr(f"{MAIN}/z")["a"].values) == [1, 2, 1, 2]
        assert list(xr.open_zarr(f"lakefs://demo/{at}/z")["a"].values) == [1, 2]
        first.to_zarr(f"{MAIN}/z", mode="w")
        assert list(xr.open_zarr(f"{MAIN}/z")["a"].values) == [1, 2]
    """,
    "h5netcdf": """
        import xarray as xr
        xr.Dataset({"a": ("x", range(5))}).to_netcdf("a.nc", engine="h5netcdf")
        fs.put("a.nc", "demo/main/a.nc")
        with xr.open_dataset(f"{MAIN}/a.nc", engine="h5netcdf") as found:
            assert found.sizes == {"x": 5}
        with pytest.raises(Exception):
            xr.Dataset().to_netcdf(f"{MAIN}/b.nc", engine="h5netcdf")
    """,
    "universal-pathlib": """
        from upath import UPath
        path = UPath(f"{MAIN}/u/a.txt")
        assert type(path).__module__ == "lakecli.filesystem.universal"
        path.write_text("1")
        assert path.rename(path.with_name("b.txt")).read_text() == "1"
        with pytest.raises(NotImplementedError):
            path.with_name("b.txt").replace(path)
    """,
    "Apache-Airflow-Task-SDK": """
        from airflow.sdk import ObjectStoragePath
        from airflow.sdk.io import attach
        attach("lakefs", fs=fs)
        path = ObjectStoragePath(f"{MAIN}/d/a.txt")
        with path.open("w") as file:
            file.write("1")
        at = head()
        assert ObjectStoragePath(f"{MAIN}@{{now}}/d/a.txt").read_text() == "1"
        assert [each.name for each in ObjectStoragePath(f"{MAIN}/d").iterdir()] == ["a.txt"]
    """,
    "Dagster": """
        import dagster
        from upath import UPath
        class Manager(dagster.UPathIOManager):
            extension = ".txt"
            def dump_to_path(self, context, obj, path):
                path.write_text(obj)
            def load_from_path(self, context, path):
                return path.read_text()
        @dagster.asset
        def one() -> str:
            return "1"
        @dagster.asset
        def two(one: str) -> str:
            return one + "2"
        manager = Manager(base_path=UPath(f"{MAIN}/dagster"))
        with dagster.DagsterInstance.ephemeral() as instance:
            done = dagster.materialize(
                [one, two], resources={"io_manager": manager}, instance=instance
            )
        assert done.success and fs.cat(f"{MAIN}/dagster/two.txt") == b"12"
    """,
    "kedro": """
        from kedro_datasets.pandas import CSVDataset
        import pandas as pd
        fs.makedirs(f"{MAIN}/k")
        rows = pd.DataFrame({"a": [1]})
        CSVDataset(filepath="lakefs:///demo/main/a.csv").save(rows)
        assert CSVDataset(filepath="lakefs:///demo/main/a.csv").load().equals(rows)
        assert fs.exists(f"{MAIN}/a.csv")
        with pytest.raises(Exception):
            CSVDataset(filepath=f"{MAIN}/a.csv").load()
    """,
    "datasets": """
        from datasets import Dataset, load_dataset, load_from_disk
        def load(ref, **options):
            found = load_dataset(
                "parquet", data_files=f"lakefs://demo/{ref}/a.parquet", split="train", **options
            )
            return [row["a"] for row in found]
        seen = []
        for value in (1, 2):
            Dataset.from_dict({"a": [value]}).to_parquet(f"{MAIN}/a.parquet")
            at = head()
            assert load(at) == load("main", streaming=True) == [value]
            seen.append(load("main"))
        assert seen == [[1], [1]]  # the old rows
        Dataset.from_dict({"a": [3]}).save_to_disk(f"{MAIN}/saved")
        assert load_from_disk(f"{MAIN}/saved")["a"][0] == 3
    """,
    "pyarrow": """
        import pyarrow as pa, pyarrow.dataset as ds, pyarrow.parquet as pq
        table = pa.table({"a": [1, 2], "b": ["x", "y"]})
        pq.write_table(table, "demo/main/a.parquet", filesystem=fs)
        assert pq.read_table("demo/main/a.parquet", filesystem=fs).equals(table)
        ds.write_dataset(
            table, "demo/main/d", filesystem=fs, format="parquet", partitioning=["b"]
        )
        assert ds.dataset("demo/main/d", filesystem=fs).count_rows() == 2
        with pytest.raises(pa.ArrowInvalid):
            pq.read_table(f"{MAIN}/a.parquet")
    """,
    "DuckDB": """
        import duckdb
        duckdb.register_filesystem(fs)
        for name in "ab":
            duckdb.sql(f"COPY (SELECT 1 AS n) TO '{MAIN}/d/{name}.parquet'")
        for pattern in ("d/*", "**/*", "d/[ab]"):
            found = duckdb.sql(f"SELECT sum(n) FROM '{MAIN}/{pattern}.parquet'").fetchall()
            assert found == [(2,)], pattern
        with duckdb.connect("local.db") as made:
            made.execute("CREATE TABLE t AS SELECT 7 AS n")
        fs.put("local.db", "demo/main/local.db")
        duckdb.sql(f"ATTACH '{MAIN}/local.db' AS there (READ_ONLY)")
        assert duckdb.sql("SELECT n FROM there.t").fetchall() == [(7,)]
        duckdb.sql("DETACH there")
        with pytest.raises(Exception):
            duckdb.sql(f"ATTACH '{MAIN}/local.db' AS there")
    """,
    "rasterio": """
        import numpy as np, rasterio
        shape = {"driver": "GTiff", "width": 4, "height": 4, "count": 1, "dtype": "uint8"}
        with rasterio.open("a.tif", "w", **shape) as file:
            file.write(np.full((1, 4, 4), 7, "uint8"))
        fs.put("a.tif", "demo/main/a.tif")
        with rasterio.open("demo/main/a.tif", opener=fs) as file:
            assert file.read().sum() == 7 * 16
        with pytest.raises(Exception):
            rasterio.open("demo/main/b.tif", "w", opener=fs, **shape)
    """,
    "polars": """
        import polars as pl
        rows = pl.DataFrame({"a": [1, 2], "b": ["x", "y"]})
        with fs.open(f"{MAIN}/a.parquet", "wb") as file:
            rows.write_parquet(file)
        with fs.open(f"{MAIN}/a.parquet") as file:
            assert pl.read_parquet(file).equals(rows)
        with pytest.raises(Exception):
            pl.read_parquet(f"{MAIN}/a.parquet")
        rows.write_parquet(f"{MAIN}/p", partition_by="b")
        assert pathlib.Path("lakefs:").is_dir() and not fs.exists(f"{MAIN}/p")
    """,
    "h5py": """
        import h5py
        with fsspec.open(f"simplecache::{MAIN}/a.h5", "wb") as file, h5py.File(file, "w") as made:
            made["x"] = [1, 2]
        with h5py.File(fs.open(f"{MAIN}/a.h5")) as found:
            assert list(found["x"]) == [1, 2]
        with pytest.raises(Exception):
            h5py.File(fs.open(f"{MAIN}/b.h5", "wb"), "w")
    """,
    "tifffile": """
        import numpy as np, tifffile
        with fsspec.open(f"simplecache::{MAIN}/a.tif", "wb") as file:
            tifffile.imwrite(file, np.full((4, 4), 7, "uint8"))
        with fs.open(f"{MAIN}/a.tif") as file:
            assert tifffile.imread(file).sum() == 7 * 16
    """,
    "fastavro": """
        import fastavro
        kind = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
        with fs.open(f"{MAIN}/a.avro", "wb") as file:
            fastavro.writer(file, kind, [{"a": 1}])
        with fs.open(f"{MAIN}/a.avro") as file:
            assert list(fastavro.reader(file)) == [{"a": 1}]
        with pytest.raises(Exception):
            fs.open(f"{MAIN}/a.avro", "a+b")
    """,
    "webdataset": """
        import webdataset
        with fs.open(f"{MAIN}/a.tar", "wb") as file, webdataset.TarWriter(file) as made:
            made.write({"__key__": "one", "txt": "1"})
        head()
        read = webdataset.WebDataset(f"pipe:lakecli fs cat {MAIN}/a.tar", shardshuffle=False)
        assert [each["txt"] for each in read] == [b"1"]
    """,
    # PyTorch, of several gigabytes, is replaced by names: it has no part in finding the directory.
    "litdata": """
        import sys, types
        from importlib.abc import Loader, MetaPathFinder
        from importlib.machinery import ModuleSpec
        def name_of(name):
            if name.startswith("__"):
                raise AttributeError(name)
            return type(name, (), {"__class_getitem__": classmethod(lambda owner, key: owner)})
        class Names(MetaPathFinder, Loader):
            def find_spec(self, name, path, target=None):
                if name.partition(".")[0] in ("torch", "torchvision"):
                    return ModuleSpec(name, self, is_package=True)
            def create_module(self, spec):
                made = types.ModuleType(spec.name)
                made.__getattr__ = name_of
                return made
            def exec_module(self, module):
                pass
        sys.meta_path.insert(0, Names())
        import litdata.streaming.resolver
        found = litdata.streaming.resolver._resolve_dir(f"{MAIN}/l")
        assert found.url is None and found.path == os.path.abspath("lakefs:/demo/main/l")
    """,
    "icechunk": """
        import icechunk
        icechunk.Repository.create(icechunk.local_filesystem_storage(f"{MAIN}/i"))
        assert pathlib.Path("lakefs:").is_dir() and not fs.exists(f"{MAIN}/i")
    """,
    "cloudpathlib": """
        import cloudpathlib
        assert isinstance(cloudpathlib.AnyPath(f"{MAIN}/a"), pathlib.Path)
        with pytest.raises(Exception):
            cloudpathlib.CloudPath(f"{MAIN}/a")
    """,
    "deltalake": """
        import deltalake
        with pytest.raises(Exception, match="(?i)lakefs endpoint"):
            deltalake.DeltaTable(f"{MAIN}/t").schema()
    """,
    "smart-open": """
        import smart_open
        with pytest.raises(NotImplementedError, match="lakefs"):
            smart_open.open(f"{MAIN}/a")
    """,
}


def lines() -> dict[str, dict[str, str]]:
    """Return the packages and versions of each line of the page, by the first name in it."""
    topic = find_topic("libraries")
    assert topic is not None
    found = {}
    for block in topic.blocks:
        if block.kind == "item":
            versions = dict(VERSIONED.findall(block.text.partition(":")[0]))
            found[next(iter(versions))] = versions
    return found


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The Python of a new environment with lakecli, and all that the page names."""
    directory = tmp_path_factory.mktemp("libraries", numbered=True)
    uv = Path(sys.executable).with_name("uv")
    wanted = {f"{name}=={version}" for each in lines().values() for name, version in each.items()}
    here = {**os.environ, "LAKECLI_NO_NATIVE": "1"}
    made = directory / "bin" / "python"
    alone = {each for each in wanted if each.startswith("litdata==")}
    install = [uv, "pip", "install", "--quiet", "--python", made]
    for line in (
        [uv, "venv", "--quiet", "--clear", "--python", PYTHON, directory],
        [*install, f"{PROJECT}[fsspec]", "pytest", *NEEDED, *(wanted - alone)],
        [*install, "--no-deps", *alone],
    ):
        subprocess.run(list(map(str, line)), check=True, timeout=900, env=here)
    yield made
    shutil.rmtree(directory)


def test_the_page_and_this_file_have_the_same_lines() -> None:
    assert list(lines()) == list(TRIED)


@pytest.mark.parametrize("name", TRIED)
def test_the_line_of(name: str, python: Path, tmp_path: Path) -> None:
    lakes.close_unused()
    code = tmp_path / "tried.py"
    code.write_text(textwrap.dedent(START) + textwrap.dedent(TRIED[name]))
    environment = {
        **os.environ,
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "HF_HOME": str(tmp_path / "hf"),
        "DAGSTER_HOME": str(tmp_path),
    }
    done = subprocess.run(
        [python, "-W", "error::UserWarning:upath", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    assert "not explicitly implemented" not in done.stderr
