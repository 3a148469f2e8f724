"""``import``."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakecli.cli.exit_codes import ExitCode
from lakecli.engine import runner
from lakecli.engine.spark_runner import SparkRunner
from lakecli.stores.contract import ANY
from tests.support import memory_store as memory

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden

MAIN = "lakefs://demo/main"


@pytest.fixture
def source(cli: Cli, demo: Demo) -> Path:
    """A directory with three files, beside a repository with objects."""
    demo.commit("first", {"data/old": "1", "database/x": "2", "readme": "3"})
    root = cli.directory / "source"
    for name, text in {"a.txt": "one", "sub/b.csv": "1,2", "sub/c": ""}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
        os.utime(root / name, (1_700_000_000, 1_700_000_000))
    return root


def test_import_replaces_a_prefix(cli: Cli, demo: Demo, source: Path, golden: Golden) -> None:
    command = ("import", "--from", source, "--to", f"{MAIN}/data")
    golden(
        "import",
        cli(*command, "--dry-run"),
        cli(*command, "--dry-run", "--json"),
        cli(*command),
        cli(*command),
        cli(*command, "--json", "--allow-empty-commit", "-m", "again", "--meta", "k=v"),
        cli("diff", f"{MAIN}~2", MAIN),
        cli("fs", "stat", f"{MAIN}/data/a.txt"),
        cli("fs", "cat", f"{MAIN}/data/sub/b.csv"),
    )
    assert set(demo.contents()) == {
        "data/a.txt", "data/sub/b.csv", "data/sub/c", "database/x", "readme",
    }  # fmt: skip


def test_import_merges_and_copies(cli: Cli, demo: Demo, source: Path, golden: Golden) -> None:
    golden(
        "import_merge",
        cli("import", "--from", source, "--to", f"{MAIN}/data/", "--mode", "merge", "--copy"),
        cli("fs", "stat", f"{MAIN}/data/a.txt"),
        cli("import", "--from", f"file://{source}", "--to", f"{MAIN}/data/", "--merge", "--json"),
    )
    assert "data/old" in demo.contents()


def test_import_refuses_bad_input(cli: Cli, demo: Demo, source: Path, golden: Golden) -> None:
    (source / "link").symlink_to("a.txt")
    namespace = cli("repo", "list", "--json").json_lines[0]["storage_namespace"]
    head = demo.head()
    demo.stage({"staged": "1"}, "main")
    dirty = cli("import", "--from", source, "--to", MAIN)
    cli.ok("branch", "reset", MAIN, "-y")
    golden(
        "import_refusals",
        dirty,
        cli("import", "--from", source, "--to", f"{MAIN}/data"),
        cli("import", "--from", source, "--to", f"{MAIN}/data", "--json"),
        cli("import", "--from", f"{namespace}/data/", "--to", MAIN),
        cli("import", "--from", cli.directory, "--to", MAIN),
        cli("import", "--from", cli.directory / "nothing", "--to", MAIN),
        cli("import", "--from", source, "--to", "lakefs://demo/nothing/"),
        cli("import", "--from", source, "--to", f"{MAIN}/data", "--skip", "--follow"),
        cli("import", "--from", source),
        cli("import", "--to", MAIN),
        cli("import", "--from", "ftp://host/x", "--to", MAIN),
        cli("import", "--from", source, "--to", MAIN, "--engine", "local", "--master", "yarn"),
        cli("import", "--from", source, "--to", MAIN, "--conf", "novalue"),
    )
    assert demo.head() == head
    cli.ok("import", "--from", source, "--to", f"{MAIN}/a", "--skip")
    cli.ok("import", "--from", source, "--to", f"{MAIN}/b", "--follow")
    assert "a/link" not in demo.contents()
    assert demo.contents()["b/link"] == demo.contents()["b/a.txt"]


@pytest.mark.xdist_group("spark")
def test_import_runs_on_spark(
    cli: Cli, demo: Demo, source: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark  # the session that the command finds
    dry: tuple[str | Path, ...] = (
        "import",
        "--from",
        source,
        "--to",
        f"{MAIN}/data",
        "--dry-run",
        "--no-progress",
    )
    for shares_disk in (True, False):
        monkeypatch.setattr(SparkRunner, "shares_disk", shares_disk)
        here, there = cli.ok(*dry), cli.ok(*dry, "--engine", "spark")
        assert "data/a.txt" in here.stdout
        assert (there.stdout, there.stderr) == (here.stdout, here.stderr)
        dry += ("--json",)
    local = cli.ok("import", "--from", source, "--to", f"{MAIN}/data", "--json").json
    demo.branch("other", "main~1")
    options = ("--engine", "spark", "--json")
    on_spark = cli.ok("import", "--from", source, "--to", "lakefs://demo/other/data", *options).json
    assert on_spark["commit"]["metarange_id"] == local["commit"]["metarange_id"]


def test_bad_manifests_are_refused(cli: Cli, demo: Demo, source: Path, golden: Golden) -> None:
    rows = "path,physical_address,size,checksum\n{0},s3://b/k,1,e\n"
    files = {
        "columns.csv": "path,uri\na,s3://b/a\n",
        "twice.csv": rows.format("a") + "b,s3://b/k,1,e\na,s3://b/l,1,f\n",
        "failing.csv": rows.format("a" * 2_000) + "b,nowhere,1,e\n",
        "values.csv": rows.format("a") + "b,s3://b/k,many,e\n",
        "fine.csv": rows.format("a"),
    }
    for name, text in files.items():
        (cli.directory / name).write_text(text)
    head = demo.head()
    unverified = ("--verify", "none")
    golden(
        "import_manifests",
        *(
            cli("import", "--from", cli.directory / name, "--to", f"{MAIN}/m", *unverified)
            for name in list(files)[:-1]
        ),
        cli(
            *("import", "--from", cli.directory / "fine.csv", "--to", f"{MAIN}/m", "--dry-run"),
            *unverified,
        ),
    )
    assert demo.head() == head


@pytest.mark.parametrize(
    ("options", "threads"), [((), []), (("--parallelism", "3"), [3]), (("--copy",), [2])]
)
def test_parts_that_wait_for_nothing_are_imported_one_by_one(
    cli: Cli,
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    threads: list[int],
) -> None:
    """Python runs one thread at a time, so others would only take turns with it."""
    manifest = cli.directory / "list.csv"
    row = f"a.txt,local://{source}/a.txt,3,e\n"
    manifest.write_text(f"path,physical_address,size,checksum\n{row}")
    started: list[int] = []

    def pool(workers: int) -> ThreadPoolExecutor:
        started.append(workers)
        return ThreadPoolExecutor(workers)

    monkeypatch.setattr(runner, "ThreadPoolExecutor", pool)
    command = ("import", "--from", manifest, "--to", f"{MAIN}/m", "--verify", "none")
    assert cli(*command, *options).exit_code == 0
    assert started == threads


def test_parts_of_a_manifest_in_a_bucket_are_imported_by_threads(
    cli: Cli, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits for the bucket while another one is at work."""
    monkeypatch.setitem(memory.BUCKETS, "lists", bucket := memory.MemoryBucket())
    row = f"a.txt,local://{source}/a.txt,3,e\n"
    body = f"path,physical_address,size,checksum\n{row}".encode()
    memory.MemoryStore(bucket, name="lists").put("list.csv", body, ANY)
    monkeypatch.setattr(runner, "ThreadPoolExecutor", pool := Mock(wraps=ThreadPoolExecutor))
    listing = "memory://lists/list.csv"
    cli("import", "--from", listing, "--to", f"{MAIN}/m", "--verify", "none")
    assert [call.args for call in pool.call_args_list] == [(2,)]


def test_objects_of_a_manifest_are_verified(
    cli: Cli, demo: Demo, source: Path, golden: Golden
) -> None:
    manifest = cli.directory / "list.csv"
    lines = [f"{name},local://{source}/{name},{size},e" for name, size in (("a.txt", 1), ("no", 1))]
    manifest.write_text("path,physical_address,size,checksum\n" + "\n".join(lines) + "\n")
    (source / "a.txt").write_text("x")
    command = ("import", "--from", manifest, "--to", f"{MAIN}/m")
    head = demo.head()
    failed = cli(*command), cli(*command, "--verify", "all", "--json")
    assert demo.head() == head
    done = cli(*command, "--verify", "none")
    (source / "no").write_text("y")
    golden("import_verify", *failed, done, cli(*command, "--allow-empty-commit"))


@pytest.mark.parametrize("kind", ["directory", "only links"])
def test_an_empty_source_is_refused(cli: Cli, demo: Demo, source: Path, kind: str) -> None:
    """A disk that is not mounted is an empty directory."""
    cli.ok("import", "--from", source, "--to", f"{MAIN}/data")
    before = demo.contents()
    empty = cli.directory / "empty"
    empty.mkdir()
    flags: tuple[str, ...] = ()
    if kind == "only links":
        (empty / "link").symlink_to(source)
        flags = ("--skip",)
    importing = ("import", "--from", str(empty), "--to", f"{MAIN}/data", *flags)
    for options in ((), ("--dry-run",)):
        refused = cli(*importing, *options)
        assert refused.exit_code == ExitCode.NOT_FOUND, refused
        assert "--allow-empty" in refused.stderr
    assert demo.contents() == before
    cli.ok(*importing, "--allow-empty")
    assert not [path for path in demo.contents() if path.startswith("data/")]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("size", 2**70, "column 'size' does not contain integers: '1180591620717411303424'"),
        ("size", True, "column 'size' does not contain integers: 'True'"),
        ("size", [1], "column 'size' does not contain integers: '[1]'"),
        ("size", None, "a value of column 'size' is missing"),
        ("path", ["a"], "column 'path' does not contain text"),
        ("path", {"a": 1}, "column 'path' does not contain text"),
        ("path", 5, "column 'path' does not contain text"),
        ("path", "\ud800", "column 'path' does not contain text"),
        ("physical_address", ["x"], "column 'physical_address' does not contain text"),
        ("checksum", 5, "column 'checksum' does not contain text"),
        ("content_type", [1], "column 'content_type' does not contain text"),
        ("mtime", 10**30, "column 'mtime' does not contain times"),
        ("mtime", 1e300, "column 'mtime' does not contain times"),
        ("mtime", 2**62, "column 'mtime' does not contain times"),
        ("mtime", [1], "column 'mtime' does not contain times"),
    ],
)
def test_a_wrong_value_of_a_manifest_is_named_with_its_line(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, field: str, value: object, message: str
) -> None:
    cli.ok("repo", "create", "lakefs://demo", cli.directory / "namespace")
    good = {"path": "a", "physical_address": "s3://bucket/a", "size": 1, "checksum": "e"}
    good |= {"mtime": 5, "content_type": "text/plain"}
    file = cli.directory / "list.jsonl"
    file.write_text(f"{json.dumps(good)}\n\n{json.dumps({**good, field: value})}\n")
    result = cli("import", "--from", file, "--to", "lakefs://demo/main/x/", "--verify", "none")
    assert result.exit_code == ExitCode.INTEGRITY
    assert f"line 3: {message}" in result.stderr
    if isinstance(value, list | float):
        table = pa.Table.from_pylist([{**good, field: value}])
        pq.write_table(table, cli.directory / "list.parquet")
        file = cli.directory / "list.parquet"
        result = cli("import", "--from", file, "--to", "lakefs://demo/main/x/", "--verify", "none")
        assert result.exit_code == ExitCode.INTEGRITY
        assert f"row 1 of row group 0: column '{field}' does not contain" in result.stderr
    if field == "size" and value is not None:
        rows = [",".join(map(str, each.values())) for each in (good, {**good, field: "2x"})]
        file = cli.directory / "list.csv"
        file.write_text("\n".join([",".join(good), *rows, ""]))
        result = cli("import", "--from", file, "--to", "lakefs://demo/main/x/", "--verify", "none")
        assert f"row 2: column '{field}' does not contain integers: '2x'" in result.stderr
