"""``--include``, ``--exclude`` and ``--dry-run`` of transfers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden

MAIN = "lakefs://demo/main"


@pytest.fixture
def source(cli: Cli, demo: Demo) -> Path:
    root = cli.directory / "source"
    for name, text in {"a.txt": "one", "raw/b.csv": "1,2", "raw/c": "see", "tmp/d": "x"}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
        os.utime(root / name, (1_700_000_000, 1_700_000_000))
    return root


def test_upload_selects_by_patterns(cli: Cli, source: Path, golden: Golden) -> None:
    upload = ("fs", "upload", "-r", source, f"{MAIN}/up/")
    first = cli(*upload, "--dry-run")
    some = cli(*upload, "--include", "/raw/", "--include", "*.txt", "--exclude", "*.csv")
    (source / "a.txt").write_text("two")
    golden(
        "fs_upload_choose",
        first,
        some,
        cli(*upload, "--exclude", "tmp/", "--dry-run"),
        cli(*upload, "--exclude", "tmp/", "--dry-run", "--json"),
        cli(*upload, "--exclude", "tmp/", "--json"),
    )


def test_download_selects_by_patterns(cli: Cli, source: Path, golden: Golden) -> None:
    assert cli("fs", "upload", "-r", source, f"{MAIN}/up/").exit_code == 0
    target = cli.directory / "target"
    download = ("fs", "download", "-r", f"{MAIN}/up/", target)
    first = cli(*download, "--dry-run")
    assert not target.exists()
    golden(
        "fs_download_choose",
        first,
        cli(*download, "--include", "*.csv", "--include", "c"),
        cli(*download, "--exclude", "/tmp/", "--dry-run", "--json"),
        cli(*download, "--exclude", "/tmp/", "--json"),
    )


def test_patterns_without_recursion_are_refused(cli: Cli, source: Path, golden: Golden) -> None:
    golden(
        "fs_choose_refuses",
        cli("fs", "upload", source / "a.txt", MAIN, "--include", "*.csv"),
        cli("fs", "download", f"{MAIN}/up/a.txt", "--exclude", "*.csv"),
        cli("fs", "upload", "-r", source, MAIN, "--exclude", "#comment"),
    )


def test_rm_dry_run_counts_objects(cli: Cli, source: Path, golden: Golden) -> None:
    assert cli("fs", "upload", "-r", source, f"{MAIN}/up/").exit_code == 0
    golden(
        "fs_rm_dry_run",
        cli("fs", "rm", "-r", f"{MAIN}/up/raw", "--dry-run"),
        cli("fs", "rm", "-r", f"{MAIN}/up/", "--dry-run", "--json"),
        cli("fs", "rm", "-r", f"{MAIN}/none/", "--dry-run"),
        cli("fs", "rm", f"{MAIN}/up/a.txt", "--dry-run"),
        cli("fs", "ls", f"{MAIN}/up/raw/", "--json"),
    )
