"""Real programs, unmodified, that read and write branches through `lakecli serve`.

They are told of the endpoint by the lines that `lakecli serve --print` gives out. The others are in
`test_more_clients.py`, which runs each night.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, PreconditionError

from lakecli.serving.clients import ClientKind, EndpointAddress, lines_for
from tests.support.clients import packages_apart, run
from tests.support.serving import ROOT, Endpoint, serving, serving_a_bucket

pytestmark = pytest.mark.xdist_group("serve_clients")
NIGHTLY = pytest.mark.nightly

LARGE = 20 << 20
BODY = bytes(range(256)) * 64


@pytest.fixture(scope="module", params=["directory", pytest.param("bucket", marks=NIGHTLY)])
def endpoint(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Endpoint]:
    """An endpoint for the tests of this module, each of which has its own prefix."""
    if request.param == "bucket":
        with serving_a_bucket(tmp_path_factory) as running:
            yield running
        return
    with serving(tmp_path_factory.mktemp("serve") / "home") as running:
        yield running


def large() -> bytes:
    """Return bytes of which no two parts are equal."""
    return b"".join(number.to_bytes(8, "big") for number in range(LARGE // 8))


@contextmanager
def boto3_client(endpoint: Endpoint) -> Iterator[Any]:
    """Return the client that the lines for boto3 make."""
    client = made_by(ClientKind.BOTO3, endpoint)["s3"]
    yield client
    client.close()


def made_by(kind: ClientKind, endpoint: Endpoint) -> dict[str, Any]:
    """Return the names that the lines for a client in Python define; the last one is an example."""
    names: dict[str, Any] = {}
    exec("\n".join(lines_for(kind, endpoint.to)[:-1]), names)
    return names


def tree(directory: Path) -> dict[str, bytes]:
    """Return the contents of the files below a directory."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in files}


@pytest.fixture
def s3(endpoint: Endpoint) -> Iterator[Any]:
    """A client of boto3."""
    with boto3_client(endpoint) as client:
        yield client


def test_boto3(endpoint: Endpoint, s3: Any, tmp_path: Path) -> None:
    bucket, whole = endpoint.to.bucket, large()
    s3.put_object(Bucket=bucket, Key="main/b/small é+&.csv", Body=BODY, Metadata={"owner": "me"})
    (tmp_path / "large").write_bytes(whole)
    s3.upload_file(str(tmp_path / "large"), bucket, "main/b/large")
    s3.upload_fileobj(io.BytesIO(whole), bucket, "main/b/stream")
    s3.copy({"Bucket": bucket, "Key": "main/b/large"}, bucket, "main/b/copy")

    found = s3.get_object(Bucket=bucket, Key="main/b/small é+&.csv")
    assert (found["Body"].read(), found["Metadata"]) == (BODY, {"owner": "me"})
    s3.download_file(bucket, "main/b/copy", str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == whole
    assert s3.head_object(Bucket=bucket, Key="main/b/stream")["ContentLength"] == LARGE
    pages = s3.get_paginator("list_objects_v2").paginate(
        Bucket=bucket, Prefix="main/b/", PaginationConfig={"PageSize": 2}
    )
    keys = [each["Key"] for page in pages for each in page.get("Contents", ())]
    assert keys == [f"main/b/{name}" for name in ("copy", "large", "small é+&.csv", "stream")]
    url = s3.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "main/b/small é+&.csv"})
    with urllib.request.urlopen(url) as answer:
        assert answer.read() == BODY

    objects = [{"Key": key} for key in keys]
    assert len(s3.delete_objects(Bucket=bucket, Delete={"Objects": objects})["Deleted"]) == 4
    assert s3.list_objects_v2(Bucket=bucket, Prefix="main/b/")["KeyCount"] == 0


def test_boto3_goes_on_after_a_large_upload_was_refused(endpoint: Endpoint, s3: Any) -> None:
    bucket = endpoint.to.bucket
    with pytest.raises(s3.exceptions.NoSuchKey):
        s3.put_object(Bucket=bucket, Key="none/k", Body=large())
    s3.put_object(Bucket=bucket, Key="main/e/k", Body=large())
    assert s3.head_object(Bucket=bucket, Key="main/e/k")["ContentLength"] == LARGE


def test_boto3_reads_refs(endpoint: Endpoint, s3: Any) -> None:
    bucket = endpoint.to.bucket
    s3.put_object(Bucket=bucket, Key="main/r/k", Body=b"first")
    endpoint.lakecli("commit", f"lakefs://{bucket}/main", "-m", "First")
    endpoint.lakecli("tag", "create", f"lakefs://{bucket}/v1", f"lakefs://{bucket}/main")
    s3.put_object(Bucket=bucket, Key="main/r/k", Body=b"second")

    def read(key: str) -> bytes:
        found: bytes = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        return found

    assert read("main/r/k") == b"second"
    assert read("v1/r/k") == read("main@/r/k") == read("main~0/r/k") == b"first"
    with pytest.raises(s3.exceptions.NoSuchKey):
        read("main~1/r/k")
    for ref in ("v1", "main~0", "main@{1 minute ago}"):
        with pytest.raises(s3.exceptions.ClientError) as refused:
            s3.put_object(Bucket=bucket, Key=f"{ref}/r/k", Body=b"x")
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] in {403, 404, 405}
    roots = s3.list_objects_v2(Bucket=bucket, Delimiter="/")["CommonPrefixes"]
    assert {each["Prefix"] for each in roots} >= {"main/", "v1/"}


def test_obstore(endpoint: Endpoint) -> None:
    store, whole = made_by(ClientKind.OBSTORE, endpoint)["store"], large()
    made = obstore.put(store, "o/d/small", BODY)
    obstore.put(store, "o/d/large", whole, chunk_size=5 << 20, use_multipart=True)

    assert obstore.get(store, "o/d/large").bytes() == whole
    ranges = obstore.get_ranges(store, "o/d/large", starts=[0, 9 << 20], lengths=[8, 8])
    assert [bytes(each) for each in ranges] == [whole[:8], whole[9 << 20 :][:8]]
    assert obstore.head(store, "o/d/small")["e_tag"] == made["e_tag"]
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "o/d/small", b"x", mode="create")
    obstore.put(store, "o/d/small", b"next", mode={"e_tag": made["e_tag"]})
    with pytest.raises(PreconditionError):
        obstore.put(store, "o/d/small", b"x", mode={"e_tag": made["e_tag"]})
    obstore.copy(store, "o/d/small", "o/copy")
    obstore.rename(store, "o/copy", "o/renamed")
    listed = [each["path"] for batch in obstore.list(store, "o", chunk_size=2) for each in batch]
    assert sorted(listed) == ["o/d/large", "o/d/small", "o/renamed"]
    found = obstore.list_with_delimiter(store, "o")
    assert list(found["common_prefixes"]) == ["o/d"]
    obstore.delete(store, listed)
    assert not obstore.list(store, "o").collect()


def variables(to: EndpointAddress, kind: ClientKind = ClientKind.ENV) -> dict[str, str]:
    """Return the variables that the lines for a shell set."""
    lines = lines_for(kind, to)
    return dict(line.removeprefix("export ").split("=", 1) for line in lines)


S3FS = """
import sys
import duckdb
import pandas as pd
import s3fs

where, large = sys.argv[1], open(sys.argv[2], "rb").read()
system = s3fs.S3FileSystem(skip_instance_cache=True)
system.pipe(f"{where}/d/a", b"a")
with system.open(f"{where}/d/large", "wb", block_size=5 << 20) as file:
    file.write(large)
with system.open(f"{where}/d/large", "rb") as file:
    file.seek(9 << 20)
    assert file.read(8) == large[9 << 20 :][:8]
assert system.cat(f"{where}/d/a") == b"a"
assert system.ls(f"{where}/d") == [f"{where}/d/a", f"{where}/d/large"]
assert system.info(f"{where}/d")["type"] == "directory"
system.copy(f"{where}/d/", f"{where}/e/", recursive=True)
system.mv(f"{where}/e/a", f"{where}/e/b")
assert system.find(f"{where}/e") == [f"{where}/e/b", f"{where}/e/large"]
system.rm(where, recursive=True)
assert not system.exists(f"{where}/d/a")

frame = pd.DataFrame({"id": range(100)})
frame.to_parquet(f"s3://{where}/t.parquet")
assert pd.read_parquet(f"s3://{where}/t.parquet").equals(frame)
frame.to_csv(f"s3://{where}/t.csv", index=False)
assert pd.read_csv(f"s3://{where}/t.csv").equals(frame)

connection = duckdb.connect()
connection.register_filesystem(system)
for part in (1, 2):
    connection.sql(f"SELECT range AS id, {part} AS part FROM range(1000)").write_parquet(
        f"s3://{where}/duckdb/part={part}/data.parquet"
    )
read = f"read_parquet('s3://{where}/duckdb/*/*.parquet', hive_partitioning = true)"
rows = connection.sql(f"SELECT part, count(*), sum(id) FROM {read} GROUP BY 1 ORDER BY 1")
print(rows.fetchall())
"""


def test_s3fs_with_pandas_and_duckdb(endpoint: Endpoint, downloads: Path, tmp_path: Path) -> None:
    """It is installed apart: the botocore that it takes is often older than boto3's newest."""
    apart = packages_apart(downloads, "s3fs-2026.9.0-apart", "s3fs==2026.9.0")
    (tmp_path / "large").write_bytes(large())
    environment = {**os.environ, **variables(endpoint.to), "PYTHONPATH": str(apart)}
    where = f"{endpoint.to.bucket}/main/s3fs"
    said = run(environment, sys.executable, "-c", S3FS, where, tmp_path / "large")
    assert "[(1, 1000, 499500), (2, 1000, 499500)]" in said


def rclone(endpoint: Endpoint, home: Path, *arguments: str) -> str:
    """Run rclone with the configuration that is printed."""
    program = Path(sys.executable).with_name("rclone")
    config = home / "rclone.conf"
    lines = [line for line in lines_for(ClientKind.RCLONE, endpoint.to) if line[0] != "#"]
    config.write_text("\n".join([*lines, ""]))
    done = subprocess.run(
        [program, "--config", config, "--retries", "1", "--use-json-log", "-v", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**endpoint.environment, "HOME": str(home)},
    )
    assert not done.returncode, done.stderr
    return done.stderr + done.stdout


def test_rclone(endpoint: Endpoint, tmp_path: Path, home: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for name in ("a.csv", "d/b c+é.csv", "d/e/f", "d/empty"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(b"" if name == "d/empty" else BODY)
    (source / "large").write_bytes(large())
    remote = f"lakecli:{endpoint.to.bucket}/main/rclone"

    rclone(
        endpoint,
        home,
        "sync",
        str(source),
        remote,
        "--s3-upload-cutoff",
        "8M",
        "--s3-chunk-size",
        "8M",
    )
    rclone(endpoint, home, "check", "--download", str(source), remote)
    rclone(endpoint, home, "sync", remote, str(target))
    assert tree(target) == tree(source)

    again = rclone(endpoint, home, "sync", str(source), remote, "--stats", "0")
    assert "Copied" not in again
    (source / "a.csv").unlink()
    (source / "new").write_bytes(b"new")
    rclone(endpoint, home, "sync", str(source), remote)
    rclone(endpoint, home, "sync", remote, str(target))
    assert tree(target) == tree(source)
    rclone(endpoint, home, "moveto", f"{remote}/new", f"{remote}/moved")
    assert rclone(endpoint, home, "cat", f"{remote}/moved").endswith("new")
    rclone(endpoint, home, "purge", remote)
    assert "a.csv" not in rclone(endpoint, home, "lsf", f"lakecli:{endpoint.to.bucket}/main")


WRITER = """
import sys
from concurrent.futures import ThreadPoolExecutor
import boto3
{lines}
def put(number):
    key = f"main/{prefix}/{{sys.argv[1]}}-{{number}}"
    s3.put_object(Bucket="{bucket}", Key=key, Body=b"x" * number)
with ThreadPoolExecutor(8) as pool:
    list(pool.map(put, range(60)))
"""


def writer(endpoint: Endpoint, prefix: str, name: str) -> subprocess.Popen[bytes]:
    """Start a program that writes sixty objects by eight threads."""
    lines = "\n".join(lines_for(ClientKind.BOTO3, endpoint.to)[:-1])
    program = WRITER.format(lines=lines, bucket=endpoint.to.bucket, prefix=prefix)
    return subprocess.Popen(
        [sys.executable, "-c", program, name], cwd=ROOT, env=dict(endpoint.environment)
    )


def test_two_programs_write_beside_commits(endpoint: Endpoint) -> None:
    uri = f"lakefs://{endpoint.to.bucket}/main"
    programs = [writer(endpoint, "two", name) for name in ("a", "b")]
    commits = 0
    while any(program.poll() is None for program in programs):
        endpoint.lakecli("commit", uri, "-m", f"Commit {commits}", "--allow-empty")
        commits += 1
    assert [program.wait() for program in programs] == [0, 0]

    listed = endpoint.rows("fs", "ls", f"{uri}/two/")
    assert len(listed) == 120
    assert commits > 1


def test_two_servers_of_one_home(tmp_path: Path) -> None:
    with serving(tmp_path / "home") as one, serving(tmp_path / "home") as other:
        programs = [writer(one, "two", "a"), writer(other, "two", "b")]
        assert [program.wait() for program in programs] == [0, 0]
        assert len(one.rows("fs", "ls", "lakefs://demo/main/two/")) == 120


def test_undo_takes_back_what_a_client_wrote(tmp_path: Path) -> None:
    with serving(tmp_path / "home") as endpoint, boto3_client(endpoint) as s3:
        uri = "lakefs://demo/main"
        endpoint.lakecli("fs", "upload", f"{uri}/kept", "-s", __file__)
        for number in range(5):
            s3.put_object(Bucket="demo", Key=f"main/k{number}", Body=b"x")
        s3.delete_object(Bucket="demo", Key="main/kept")

        said = json.dumps(endpoint.rows("op", "log", "lakefs://demo"))
        assert said.count("s3: ") == 1
        assert "s3: PutObject by Boto3" in said or "s3: PutObject by boto3" in said.lower()
        endpoint.lakecli("undo", "lakefs://demo")
        assert [each["path"] for each in endpoint.rows("fs", "ls", f"{uri}/")] == ["kept"]
        assert s3.list_objects_v2(Bucket="demo", Prefix="main/")["KeyCount"] == 1
