"""lakectl itself, built from its source, against `lakecli serve`; it runs each night."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from lakecli.serving.clients import ClientKind, lines_for
from tests.servers.programs import from_lakefs
from tests.support.serving import serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(2_400)]

VERSION = "v1.84.0"
DEMO = "lakefs://demo"
MAIN = DEMO + "/main"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """Return a function that runs a command in one directory, and returns what it prints."""
    program = from_lakefs("lakectl", VERSION)
    directory = tmp_path_factory.mktemp("lakectl")
    with serving(directory / "home", repositories=()) as endpoint:
        lines = lines_for(ClientKind.LAKECTL, endpoint.to)
        (directory / "lakectl.yaml").write_text("\n".join(lines) + "\n")
        environment = {"PATH": os.environ["PATH"], "HOME": str(directory)}

        def run(*arguments: str | Path, code: int = 0) -> str:
            ended = subprocess.run(
                [program, "-c", directory / "lakectl.yaml", *arguments],
                cwd=directory, env=environment, capture_output=True, text=True, timeout=120,
                stdin=subprocess.DEVNULL, check=False,
            )  # fmt: skip
            assert ended.returncode == code, (arguments, ended.stdout, ended.stderr)
            assert "Enterprise" not in ended.stderr
            return ended.stdout + ended.stderr

        run("repo", "create", DEMO, f"local://{directory}/demo")
        yield run


def commit(run: Callable[..., str], ref: str) -> str:
    """Commit, and return the ID."""
    said = run("commit", ref, "-m", "A commit", "--meta", "k=v")
    return said.partition("ID: ")[2].split()[0]


def test_repositories_and_settings(run: Callable[..., str], tmp_path: Path) -> None:
    assert "Valid configuration" in run("doctor")
    assert "lakeFS version: 1.84.0" in run("--version")
    assert "User ID:" in run("identity")
    assert "created" in run("repo", "create", "lakefs://shop", f"local://{tmp_path}/shop")
    assert "shop\t" in run("repo", "list")
    assert "deleted" in run("repo", "delete", "-y", "lakefs://shop")
    assert "404" in run("repo", "delete", "-y", "lakefs://shop", code=1)
    run("branch-protect", "add", DEMO, "stable*")
    assert "stable*" in run("branch-protect", "list", DEMO)
    run("branch-protect", "delete", DEMO, "stable*")
    assert "501" in run("auth", "users", "list", code=1)


def test_objects(run: Callable[..., str], tmp_path: Path) -> None:
    source = tmp_path / "source"
    for name in ("a.csv", "d/b c", "d/e/f"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(name)
    (source / "large").write_bytes(os.urandom(12_000_000))
    where = f"{MAIN}/objects/"
    assert "Uploaded: 4" in run("fs", "upload", "-r", "-s", source, where)
    assert "Content-Type: text/csv" in run(
        "fs", "upload", "-s", source / "a.csv", where + "a.csv", "--content-type", "text/csv"
    )
    run("fs", "update-metadata", where + "a.csv", "--metadata", "k=v")
    assert "k                  = v" in run("fs", "stat", where + "a.csv")
    assert run("fs", "cat", where + "d/b c") == "d/b c"
    listed = run("fs", "ls", where)
    assert "common_prefix" in listed
    assert "d/" in listed
    assert run("fs", "ls", "-r", where).count("object  ") == 4
    run("fs", "download", "-r", where, tmp_path / "target")
    assert (tmp_path / "target/large").read_bytes() == (source / "large").read_bytes()
    run("fs", "rm", where + "a.csv")
    run("fs", "rm", "-r", where + "d/")
    assert run("fs", "ls", "-r", where).count("object  ") == 1
    assert "404" in run("fs", "stat", where + "a.csv", code=1)
    assert "+ added objects/large" in run("diff", MAIN)
    run("branch", "reset", "-y", MAIN, "--prefix", "objects/")
    assert "added" not in run("diff", MAIN)


def test_history(run: Callable[..., str], tmp_path: Path) -> None:
    dev, file = f"{DEMO}/dev", tmp_path / "x"
    run("branch", "create", dev, "-s", MAIN)
    file.write_text("1")
    run("fs", "upload", "-s", file, f"{dev}/x")
    first = commit(run, dev)
    assert "k                  = v" in run("log", dev)
    assert first in run("log", "--amount", "1", "--show-meta-range-id", dev)
    assert first in run("show", "commit", dev)
    assert first[:16] in run("annotate", "-r", f"{dev}/")
    assert "+ added x" in run("diff", MAIN, dev)
    run("tag", "create", f"{DEMO}/v1", dev)
    assert first in run("tag", "show", f"{DEMO}/v1")
    assert 'Merged "dev" into "main"' in run("merge", dev, MAIN, "-m", "Merge it")
    assert "400" in run("merge", dev, MAIN, code=1)
    assert "400" in run("commit", dev, "-m", "Nothing", code=1)
    for ref, text in ((dev, "2"), (MAIN, "3")):
        file.write_text(text)
        run("fs", "upload", "-s", file, f"{ref}/x")
        commit(run, ref)
    assert "Found base" in run("find-merge-base", dev, MAIN)
    assert "Conflict found" in run("merge", dev, MAIN, code=1)
    run("merge", dev, MAIN, "--strategy", "source-wins", "--squash")
    assert run("fs", "cat", f"{MAIN}/x") == "2"
    assert "reverted" in run("branch", "revert", "-y", MAIN, "main")
    assert run("fs", "cat", f"{MAIN}/x") == "3"
    file.write_text("4")
    run("fs", "upload", "-s", file, f"{dev}/y")
    last = commit(run, dev)
    run("cherry-pick", dev, MAIN)
    assert run("fs", "cat", f"{MAIN}/y") == "4"
    assert "Found commit" in run("bisect", "start", dev, f"{dev}~1")
    assert last in run("branch", "list", DEMO)
    run("tag", "delete", "-y", f"{DEMO}/v1")
    run("branch", "delete", "-y", dev)
    assert "404" in run("branch", "show", dev, code=1)


def test_imports_and_directories(run: Callable[..., str], tmp_path: Path) -> None:
    source, clone = tmp_path / "source", tmp_path / "clone"
    (source / "d").mkdir(parents=True)
    (source / "d/a").write_text("a")
    where = f"{MAIN}/imported/"
    line = ("import", "--no-progress", "-m", "Import", "--to", where, "--from")
    assert "Import of 1 object(s)" in run(*line, f"local://{source}/")
    assert "no directory" in run(*line, f"local://{tmp_path}/none/", code=1)
    run("local", "clone", where, clone)
    assert (clone / "d/a").read_text() == "a"
    (clone / "new").write_text("new")
    assert "added" in run("local", "status", clone)
    run("local", "commit", clone, "-m", "A local change")
    assert run("fs", "cat", where + "new") == "new"
    assert "No changes" in run("local", "pull", clone)
