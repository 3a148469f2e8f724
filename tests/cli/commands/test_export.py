"""``export``."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest
from pyarrow.parquet import read_table

from lakecli.base.identity import blake3_of
from lakecli.base.layout import data_key
from lakecli.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden

MAIN = "lakefs://demo/main"


@pytest.fixture
def out(cli: Cli, demo: Demo) -> Path:
    upload(cli, {"t/day=1/a": "one", "t/day=2/b": "two", "t/_SUCCESS": "", "x": "y"})
    cli.ok("commit", MAIN, "-m", "first")
    cli.ok("tag", "create", "lakefs://demo/v1", MAIN)
    return cli.directory / "out"


def upload(cli: Cli, contents: dict[str, str]) -> None:
    for path, text in contents.items():
        cli.ok("fs", "upload", "-", f"{MAIN}/{path}", stdin=text)


def test_export_copies_a_prefix(cli: Cli, demo: Demo, out: Path, golden: Golden) -> None:
    first = cli("export", f"{MAIN}/", out)
    upload(cli, {"t/day=2/b": "changed", "new": "new"})
    cli.ok("fs", "rm", f"{MAIN}/t/day=1/a")
    dirty = cli("export", f"{MAIN}/", out, "--dry-run")
    cli.ok("commit", MAIN, "-m", "second")
    golden(
        "export",
        first,
        dirty,
        cli("export", f"{MAIN}/", out, "--since", "v1", "--dry-run", "--json"),
        cli("export", f"{MAIN}/", out, "--since", "lakefs://demo/v1", "--json"),
        cli("export", f"{MAIN}/t/", out.with_name("table"), "--no-success"),
        cli("export", f"{MAIN}/", out.with_name("new"), "--since", "v1"),
    )
    assert sorted(path.name for path in out.iterdir() if "export" not in path.name) == [
        "_SUCCESS", "new", "t", "x"
    ]  # fmt: skip


def test_export_refuses_bad_input(cli: Cli, demo: Demo, out: Path, golden: Golden) -> None:
    (demo.namespace / data_key(blake3_of(b"two").hex())).write_bytes(b"TWO")
    golden(
        "export_refused",
        cli("export", f"{MAIN}/", out),
        cli("export", f"{MAIN}/", out, "--json"),
        cli("export", f"{MAIN}/", demo.namespace / "out"),
        cli("export", f"{MAIN}/none/", out),
        cli("export", "lakefs://demo/none/", out),
        cli("export", f"{MAIN}/", out, "--since", "none"),
        cli("export", f"{MAIN}/", out, "--since", "lakefs://other/main"),
        cli("export", f"{MAIN}/", out, "--engine", "local", "--master", "local[2]"),
        cli("export", f"{MAIN}/", "ftp://host/x"),
        cli("export", f"{MAIN}/", ""),
    )
    assert not (out / "_SUCCESS").exists()


def test_all_failures_are_counted(
    cli: Cli, demo: Demo, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakecli.exports.export_part.REPORTED_FAILURES", 1)
    for each in demo.namespace.glob("data/*/*"):
        each.unlink()
    failed = cli("export", f"{MAIN}/", out, "--json")
    record = json.loads(failed.stdout)
    assert (record["failed"], len(record["failures"])) == (3, 1)
    assert "3 objects failed to export" in failed.stderr


@pytest.mark.xdist_group("spark")
def test_export_runs_on_spark(cli: Cli, out: Path, spark: object) -> None:
    cli.ok("export", f"{MAIN}/", out)
    told = cli.ok("export", f"{MAIN}/", out.with_name("other"), "--engine", "spark", "--json").json
    assert (told["new"], told["failed"]) == (4, 0)
    assert (out.with_name("other") / "t/day=2/b").read_text() == "two"
    assert (out.with_name("other") / "_SUCCESS").exists()
    (out / "t/day=2/b").write_text("other")
    for options in ((), ("--json",)):
        dry = ("export", f"{MAIN}/", out, "--dry-run", *options, "--engine")
        here, there = cli.ok(*dry, "local"), cli.ok(*dry, "spark")
        assert "day=2/b" in here.stdout
        assert (there.stdout, there.stderr) == (here.stdout, here.stderr)


def test_a_manifest_of_paths_is_imported_elsewhere(cli: Cli, demo: Demo, out: Path) -> None:
    manifest = cli.directory / "paths.parquet"
    upload(cli, {"t/uncommitted": "no"})
    answer = cli.ok("export", f"{MAIN}/t/", manifest, "--to-lakefs-import", "--json").json
    assert (answer["objects"], answer["size"], answer["uncommitted"]) == (3, 6, True)
    rows = read_table(manifest).to_pylist()
    assert [row["path"] for row in rows] == ["_SUCCESS", "day=1/a", "day=2/b"]
    first = rows[1]
    assert first["physical_address"] == f"local://{demo.namespace}/{data_key(first['checksum'])}"
    assert (first["size"], first["content_type"]) == (3, "application/octet-stream")
    assert not list(cli.directory.glob(".paths*"))
    cli.ok("repo", "create", "lakefs://other", cli.directory / "other")
    cli.ok("config", "set", "trust.addresses", f"local://{demo.namespace}")
    cli.ok("import", "--from", manifest, "--to", "lakefs://other/main/u/", "-m", "m")
    assert cli.ok("fs", "cat", "lakefs://other/main/u/day=2/b").stdout == "two"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((f"{MAIN}/", "s3://bucket/x"), ExitCode.USAGE),
        ((f"{MAIN}/", "missing/x.parquet"), ExitCode.NOT_FOUND),
        ((f"{MAIN}/", "."), ExitCode.USAGE),
        ((f"{MAIN}/", "x.parquet", "--since", "v1"), ExitCode.USAGE),
        ((f"{MAIN}/nowhere/", "x.parquet"), ExitCode.NOT_FOUND),
        (("lakefs://demo/none/", "x.parquet"), ExitCode.NOT_FOUND),
    ],
)
def test_a_manifest_that_cannot_be_written_leaves_no_file(
    cli: Cli, out: Path, arguments: tuple[str, ...], code: ExitCode
) -> None:
    source, destination, *others = arguments
    target = destination if "://" in destination else cli.directory / destination
    result = cli("export", source, target, *others, "--to-lakefs-import")
    assert result.exit_code == code
    assert not list(cli.directory.glob("*.parquet*"))


def test_a_manifest_refuses_paths_that_parquet_cannot_hold(cli: Cli, out: Path) -> None:
    upload(cli, {"caf\udce9": "x"})
    cli.ok("commit", MAIN, "-m", "second")
    target = cli.directory / "x.parquet"
    result = cli("export", f"{MAIN}/", target, "--to-lakefs-import")
    assert result.exit_code == ExitCode.REFUSED
    assert "not UTF-8" in result.stderr
    assert not target.exists()


def test_a_manifest_without_arrow_names_the_extra_first(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    result = cli("export", "lakefs://none/main/", "missing/x", "--to-lakefs-import")
    assert "writing Parquet needs pyarrow" in result.stderr
    assert "[spark]" in result.stderr


def test_symlink_manifests(cli: Cli, demo: Demo, out: Path, golden: Golden) -> None:
    golden(
        "export_symlink",
        cli("export", f"{MAIN}/t/", out, "--symlink", "--dry-run"),
        cli("export", f"{MAIN}/t/", out, "--symlink"),
        cli("export", f"{MAIN}/t/", out, "--symlink", "--json"),
        cli("export", f"{MAIN}/", out, "--symlink"),
        cli("export", f"{MAIN}/t/", out, "--symlink", "--since", "v1"),
    )
    manifest = out / "_symlink_format_manifest" / "day=2" / "manifest"
    assert manifest.read_text() == f"file://{demo.namespace}/{data_key(blake3_of(b'two').hex())}\n"
