"""lakeFS itself, built from its source: a repository goes to lakecli and back, each night."""

from __future__ import annotations

import json
import os
import subprocess
from time import sleep
from typing import TYPE_CHECKING
from urllib.request import Request, urlopen

import pytest

from tests.servers.programs import from_lakefs
from tests.support.servers import running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.golden import Cli

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(2_400)]

VERSION = "v1.84.0"
KEYS = {
    "access_key_id": "AKIAJEXAMPLEEXAMPLEQ",
    "secret_access_key": "wJalrXUtnFEMIexampleexampleEXAMPLEKEY0123",
}
CONFIGURATION = """\
listen_address: 127.0.0.1:{port}
database: {{type: local, local: {{path: {home}/database}}}}
auth: {{encrypt: {{secret_key: 0123456789abcdef0123456789abcdef}}}}
blockstore: {{type: local, local: {{path: {home}/data}}}}
stats: {{enabled: false}}
"""
SALES = "lakefs://sales"
MAIN = SALES + "/main"


@pytest.fixture(scope="module")
def programs() -> tuple[str, str]:
    """Return the paths of lakeFS and lakectl, built before tests have a home of their own."""
    return from_lakefs("lakefs", VERSION), from_lakefs("lakectl", VERSION)


@pytest.fixture
def lakectl(programs: tuple[str, str], tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Run lakeFS; return a function that runs lakectl and returns what it prints."""
    server, client = programs
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    file = tmp_path / "lakefs.yaml"

    def command(port: int) -> list[str]:
        file.write_text(CONFIGURATION.format(port=port, home=tmp_path))
        return [server, "--config", str(file), "run"]

    with running(command, tmp_path / "lakefs.log", environment=environment) as url:
        body = json.dumps({"username": "admin", "key": KEYS}).encode()
        headers = {"Content-Type": "application/json"}
        urlopen(Request(f"{url}/api/v1/setup_lakefs", body, headers), timeout=60).close()
        options = {"credentials": KEYS, "server": {"endpoint_url": f"{url}/api/v1"}}
        (tmp_path / "lakectl.yaml").write_text(json.dumps(options))

        def run(*arguments: str | Path) -> str:
            line = [client, "-c", tmp_path / "lakectl.yaml", *arguments]
            ended = subprocess.run(
                line, env=environment, capture_output=True, text=True, timeout=120, check=False
            )
            assert ended.returncode == 0, (arguments, ended.stdout, ended.stderr)
            return ended.stdout

        yield run


def test_there_and_back_and_there(lakectl: Callable[..., str], cli: Cli, tmp_path: Path) -> None:
    def upload(
        program: Callable[..., object], ref: str, text: str, path: str = "raw/a.csv"
    ) -> None:
        (tmp_path / "file").write_text(text)
        program("fs", "upload", "-s", tmp_path / "file", f"{ref}/{path}")
        program("commit", ref, "-m", f"Upload {text}", "--meta", "k=v")

    def compare() -> None:
        assert cli.ok("log", MAIN).stdout == lakectl("log", MAIN)
        line = ("fs", "ls", "-r", f"{MAIN}/")
        listed = cli.ok(*line).stdout, lakectl(*line)
        ours, theirs = ([line.split()[-1] for line in each.splitlines()] for each in listed)
        assert ours == theirs
        assert "Problems: 0" in cli.ok("fsck", SALES, "--data").stdout

    def dump() -> Path:
        (tmp_path / "dump.json").write_text(lakectl("refs-dump", SALES))
        return tmp_path / "dump.json"

    lakectl("repo", "create", SALES, "local://sales")
    upload(lakectl, MAIN, "first")
    lakectl("branch", "create", f"{SALES}/dev", "-s", MAIN)
    upload(lakectl, f"{SALES}/dev", "second")
    upload(lakectl, MAIN, "third", "other.csv")
    lakectl("merge", f"{SALES}/dev", MAIN, "-m", "Merge")
    lakectl("tag", "create", f"{SALES}/v1", MAIN)
    line = ("clone", "--from-lakefs", tmp_path / "data/sales", SALES, "--refs", dump())
    cli.ok(*line, "--take-over")
    compare()

    lakectl("repo", "delete", "-y", SALES)
    upload(cli.ok, MAIN, "fourth", "raw/b.csv")
    cli.ok("fs", "rm", f"{MAIN}/other.csv")
    cli.ok("commit", MAIN, "-m", "Remove")
    cli.ok("refs-dump", SALES, "--push-first", "-o", tmp_path / "back.json")
    sleep(10)  # until then lakeFS's cache would restore into the deleted repository
    lakectl("repo", "create-bare", SALES, "local://sales", "--default-branch", "main")
    lakectl("refs-restore", SALES, "--manifest", tmp_path / "back.json")
    compare()

    assert lakectl("fs", "cat", f"{MAIN}/raw/b.csv") == "fourth"
    upload(lakectl, MAIN, "fifth", "raw/c.csv")
    lakectl("branch", "revert", "-y", MAIN, "main")
    cli.ok("refs-restore", "--update", SALES, "--manifest", dump())
    compare()
