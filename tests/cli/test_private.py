"""Files of lakecli are readable by their owner only, whatever the umask."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.golden import Cli


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_files_of_the_home_are_private(cli: Cli, home: Path) -> None:
    lakecli = home / "lakecli"
    assert not lakecli.exists()
    source = cli.directory / "source"
    source.mkdir()
    for number in range(30):
        (source / f"{number}").write_text(str(number))
    cli.ok("repo", "create", "lakefs://demo", cli.directory / "namespace")
    cli.ok("config", "set", "user.name", "me")
    cli.ok("fs", "upload", "-r", "-s", source, "lakefs://demo/main/up/")
    cli.ok("commit", "lakefs://demo/main", "-m", "first")
    cli.ok("import", "--from", source, "--to", "lakefs://demo/main/imported/", "-m", "second")
    cli.ok("doctor", "lakefs://demo")
    cli.ok("fs", "ls", "lakefs://demo/main/")
    open_to_others = [
        str(path)
        for path in [lakecli, *lakecli.rglob("*")]
        if path.is_dir() and stat.S_IMODE(path.stat().st_mode) & 0o077
    ]
    assert open_to_others == []
    assert {"cache", "store"} <= {path.name for path in lakecli.iterdir()}
