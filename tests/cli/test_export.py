"""``export``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.identity import h
from lakecli.layout import data_key

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
    (demo.namespace / data_key(h(b"two").hex())).write_bytes(b"TWO")
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


@pytest.mark.xdist_group("spark")
def test_export_runs_on_spark(cli: Cli, out: Path, spark: object) -> None:
    cli.ok("export", f"{MAIN}/", out)
    told = cli.ok("export", f"{MAIN}/", out.with_name("other"), "--engine", "spark", "--json").json
    assert (told["new"], told["failed"]) == (4, 0)
    assert (out.with_name("other") / "t/day=2/b").read_text() == "two"
    assert (out.with_name("other") / "_SUCCESS").exists()
