"""Namespaces and directories of somebody who wants the machines of those who read them."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from lakecli.repository.transfer import walk as walking
from tests.support.exchanges import exchange
from tests.support.worktrees import files, write

if TYPE_CHECKING:
    from tests.support.demo import Demo
    from tests.support.golden import Cli

HOSTILE = (".git/config", "d/.GIT/hooks/pre-commit", "git~1/x", ".lakefs_ref.yaml", ".g\u200cit/y")


@pytest.fixture
def hostile(demo: Demo) -> Demo:
    demo.commit("hostile", {"data": "1", **dict.fromkeys(HOSTILE, "enemy")})
    return demo


def everything(root: Path) -> set[str]:
    return {os.fspath(each.relative_to(root)) for each in root.rglob("*")}


def test_no_transfer_writes_files_of_git_or_lakecli(cli: Cli, hostile: Demo) -> None:
    root, names = cli.directory, sorted(HOSTILE)
    cloned = cli("local", "clone", "lakefs://demo/main/", root / "clone", "--json")
    assert cloned.exit_code == 0
    assert json.loads(cloned.stdout)["left_out"] == names
    assert everything(root / "clone") == {"data", ".lakefs_ref.yaml"}
    hostile.commit("more", {".git/hooks/post-checkout": "enemy", "more": "2"})
    pulled = cli("local", "pull", root / "clone")
    assert pulled.exit_code == 0
    assert "left out: .git/hooks/post-checkout: Git" in pulled.stderr
    assert everything(root / "clone") == {"data", "more", ".lakefs_ref.yaml"}
    downloaded = cli("fs", "download", "-r", "lakefs://demo/main/", root / "down", "--json")
    assert downloaded.exit_code == 0
    assert len(json.loads(downloaded.stdout)["left_out"]) == len(HOSTILE) + 1
    assert everything(root / "down") == {"data", "more"}
    exported = cli("export", "lakefs://demo/main/", root / "out", "--json")
    assert exported.exit_code == 0
    assert len(json.loads(exported.stdout)["left_out"]) == len(HOSTILE) + 1
    assert not any(".git" in name.lower() for name in everything(root / "out"))
    one = cli("fs", "download", "lakefs://demo/main/.lakefs_ref.yaml", f"{root}/")
    assert one.exit_code == 2


def test_a_mirror_keeps_files_of_git(cli: Cli, hostile: Demo) -> None:
    root = cli.directory / "down"
    write(root, {".git/config": "mine", "old": "x"})
    cli.ok("fs", "download", "-r", "lakefs://demo/main/", root, "--delete")
    assert everything(root) == {".git", ".git/config", "data"}
    assert (root / ".git/config").read_text() == "mine"


def test_no_transfer_reads_files_of_git(cli: Cli, demo: Demo) -> None:
    demo.commit("first", {"data": "1"})
    root = cli.directory / "clone"
    cli.ok("local", "clone", "lakefs://demo/main/", root)
    write(root, {".git/config": "token", "new": "n"})
    assert "config" not in cli.ok("local", "status", root).stdout
    cli.ok("local", "commit", root, "-m", "mine")
    up = cli("fs", "upload", "-r", root, "lakefs://demo/main/up/", "--json")
    assert json.loads(up.stdout)["left_out"] == [".git", ".lakefs_ref.yaml"]
    cli.ok("commit", "lakefs://demo/main", "-m", "up")
    for options in ([], ["--delete"]):
        words = ("fs", "upload", "-r", root, "lakefs://demo/main/up/", "--dry-run", "--json")
        planned = cli.ok(*words, *options).json_lines
        excluded = [each["path"] for each in planned if each["action"] == "excluded"]
        assert excluded == ["up/.git", "up/.lakefs_ref.yaml"]
        assert [each["path"] for each in planned[:-1]] == [*excluded, "up/data", "up/new"]
    importing = ("import", "--from", root, "--to", "lakefs://demo/main/in/", "-m", "in", "--json")
    for options in (["--dry-run"], []):
        imported = cli.ok(*importing, *options)
        assert imported.json_lines[-1]["left_out"] == [".git", ".lakefs_ref.yaml"]
        assert "left out: .git, .lakefs_ref.yaml: Git" in imported.stderr
    assert not any(".git" in path for path in demo.contents())
    assert {"new", "up/new", "in/new"} <= set(demo.contents())
    (root / "new").unlink()
    assert "a second listing found the same" in cli.ok(*importing).stderr
    write(root, {"new": "n"})
    up = cli("fs", "upload", "-r", root, "lakefs://demo/main/new/", "--delete")
    assert "walk" not in up.stderr
    (root / "new").unlink()
    up = cli("fs", "upload", "-r", root, "lakefs://demo/main/new/", "--delete")
    assert "lacks 1 of 2 objects of the branch; a second walk found the same" in up.stderr
    write(root, {"new": "n"})
    assert files(root)["new"] == "n"


@pytest.fixture
def strangers(cli: Cli, demo: Demo, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a linked directory of another user."""
    demo.commit("first", {"data": "1"})
    root = cli.directory / "wd"
    cli.ok("local", "clone", "lakefs://demo/main/", root)
    if os.geteuid():
        stranger = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: stranger)
    else:
        os.chown(root / ".lakefs_ref.yaml", 12345, -1)
    (root / "below").mkdir()
    monkeypatch.chdir(root / "below")
    return root


def test_a_link_of_another_user_counts_only_if_it_is_trusted(cli: Cli, strangers: Path) -> None:
    refused = cli("status")
    assert refused.exit_code == 7
    assert "belongs to another user" in refused.stderr
    assert f"lakecli config set local.trust {strangers}" in refused.stderr
    cli.ok("config", "set", "local.trust", strangers)
    assert "linked" in cli.ok("status").stdout
    cli.ok("config", "set", "local.trust", "/elsewhere")
    assert cli("local", "status").exit_code == 7
    cli.ok("config", "set", "local.trust", "*")
    cli.ok("local", "status")


def test_a_link_that_is_a_pipe_or_a_device_ends_at_once(
    cli: Cli, demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo.commit("first", {"data": "1"})
    monkeypatch.chdir(cli.directory)
    link = cli.directory / ".lakefs_ref.yaml"
    os.mkfifo(link)
    assert "not a regular file" in cli("status").stderr
    link.unlink()
    link.symlink_to("/dev/zero")
    assert "not a regular file" in cli("status").stderr
    link.unlink()
    link.write_text("src: a" + " " * 60_000 + "b\n")
    assert "malformed" in cli("status").stderr


def make_secret(directory: Path, secret: Path) -> None:
    """Give a directory files of the same names, sizes and times as another one."""
    for file in directory.iterdir():
        status = file.stat()
        copy = secret / file.name
        copy.write_text("s" * status.st_size)
        os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("size", [1, 2 << 20])
def test_an_upload_follows_no_link_that_replaces_a_directory(
    cli: Cli, demo: Demo, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    root = cli.directory / "source"
    write(root, {"a": "1", "sub/key": "k" * size})
    secret = exchange(monkeypatch, "lakecli.repository.transfer.walk", root / "sub")
    make_secret(root / "sub", secret)
    sent = cli("fs", "upload", "-r", root, "lakefs://demo/main/", "--json")
    assert sent.exit_code == 3
    assert set(demo.contents()) == {"a"}


@pytest.mark.parametrize("options", [["--copy"], []])
def test_an_import_follows_no_link_that_replaces_a_directory(
    cli: Cli, demo: Demo, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    root = cli.directory / "source"
    write(root, {"a": "1", "sub/key": "k"})
    secret = exchange(monkeypatch, "lakecli.imports.sources", root / "sub")
    make_secret(root / "sub", secret)
    cli("import", "--from", root, "--to", "lakefs://demo/main/x/", "--allow-partial", *options)
    assert "x/sub/key" not in demo.contents()


def test_a_walk_enters_no_link_that_replaces_a_directory(
    cli: Cli, demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, secret = cli.directory / "source", cli.directory / "secret"
    write(root, {"a": "1", "sub/key": "k"})
    write(secret, {"id_rsa": "s"})
    listed = walking._kind

    def exchanged(entry: os.DirEntry[str], *, follow: bool) -> str:
        kind = listed(entry, follow=follow)
        if entry.name == "sub":
            (root / "sub").rename(cli.directory / "moved")
            (root / "sub").symlink_to(secret)
        return kind

    monkeypatch.setattr(walking, "_kind", exchanged)
    sent = cli("fs", "upload", "-r", root, "lakefs://demo/main/", "--json")
    assert sent.exit_code == 3
    assert set(demo.contents()) == {"a"}


@pytest.fixture(params=["/dev/zero", "fifo", "socket", "directory"])
def special(cli: Cli, request: pytest.FixtureRequest) -> Path:
    """A link to something that is no file."""
    there = cli.directory / "there"
    if request.param == "fifo":
        os.mkfifo(there)
    elif request.param == "socket":
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(os.path.relpath(there))
    elif request.param == "directory":
        there.mkdir()
    else:
        there = Path(request.param)
    link = cli.directory / "special"
    link.symlink_to(there)
    return link


@pytest.mark.timeout(60)
@pytest.mark.usefixtures("demo")
def test_what_is_no_file_is_refused(cli: Cli, special: Path) -> None:
    main = "lakefs://demo/main/x"
    for line in (
        ("fs", "upload", special, main),
        ("gc", "set-config", "lakefs://demo", "-f", special),
        ("refs-restore", "lakefs://demo", "--manifest", special),
    ):
        if special.is_fifo():  # the command waits for who writes to it
            writer = Thread(target=lambda: special.write_bytes(b""))
            writer.start()
        done = cli(*line)
        if special.is_fifo():
            writer.join()
        assert (
            done.exit_code == 0
            if line[0] == "fs" and special.is_fifo()
            else (done.exit_code not in {0, 1})
        ), line
        assert "unexpected" not in done.stderr
    if not special.is_fifo():
        named = cli("fs", "cat", "--files-from", special, "lakefs://demo/main/")
        assert named.exit_code in {2, 9}
    done = cli("--config", special, "repo", "list")
    assert done.exit_code == 0 if special.is_fifo() else done.exit_code in {2, 9}
