"""``fs ls``, ``stat``, ``cat``, ``download`` and ``presign``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.layout import data_key
from lakecli.cli.exit_codes import ExitCode
from tests.support.sockets import make_socket

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden

MAIN = "lakefs://demo/main"


@pytest.fixture
def filled(cli: Cli, demo: Demo) -> Demo:
    """Objects with data, some committed and some not."""
    put(cli, {"a.txt": "one", "data/1.csv": "1,2", "data/sub/x": "x", "data-old": "old"})
    cli.ok("commit", MAIN, "-m", "first")
    put(cli, {"a.txt": "two!", "new\nline": "odd"})
    cli.ok("fs", "rm", f"{MAIN}/data/1.csv")
    return demo


def put(cli: Cli, contents: dict[str, str]) -> None:
    for path, text in contents.items():
        cli.ok("fs", "upload", "-", f"{MAIN}/{path}", stdin=text)


def object_file(demo: Demo, text: str) -> Path:
    """The file that holds an object's bytes."""
    return demo.namespace / data_key(blake3_of(text.encode()).hex())


@pytest.mark.usefixtures("either_core")
def test_ls_lists_prefixes(cli: Cli, filled: Demo, golden: Golden) -> None:
    golden(
        "fs_ls",
        cli("fs", "ls", MAIN),
        cli("fs", "ls", f"{MAIN}/"),
        cli("fs", "ls", f"{MAIN}/da"),
        cli("fs", "ls", f"{MAIN}/data/"),
        cli("fs", "ls", "-r", f"{MAIN}/data"),
        cli("fs", "ls", "-r", "lakefs://demo/main@/data"),
        cli("fs", "ls", "lakefs://demo/main~0/", "--json"),
        cli("fs", "ls", f"{MAIN}/nothing-like-that"),
    )


@pytest.mark.usefixtures("either_core")
def test_ls_pages(cli: Cli, filled: Demo, golden: Golden) -> None:
    golden(
        "fs_ls_pages",
        cli("fs", "ls", MAIN, "--amount", "2"),
        cli("fs", "ls", MAIN, "--amount", "2", "--after", "data-old"),
        cli("fs", "ls", MAIN, "--amount", "2", "--after", "data/", "--json"),
        cli("fs", "ls", "-r", MAIN, "--after", "data-old", "--amount", "0"),
        cli("fs", "ls", MAIN, terminal=True),
    )


def test_ls_refuses_bad_input(cli: Cli, filled: Demo, golden: Golden) -> None:
    golden(
        "fs_ls_refuses",
        cli("fs", "ls", "lakefs://demo"),
        cli("fs", "ls", "lakefs://demo/nope/"),
        cli("fs", "ls", "lakefs://none/main/"),
        cli("fs", "ls", "lakefs://demo/main~9/", "--json"),
        cli("fs", "ls", "demo/main"),
    )


def test_stat_prints_an_object(cli: Cli, filled: Demo, golden: Golden) -> None:
    golden(
        "fs_stat",
        cli("fs", "stat", f"{MAIN}/a.txt"),
        cli("fs", "stat", "--pre-sign=false", "lakefs://demo/main@/a.txt"),
        cli("fs", "stat", f"{MAIN}/new\nline", "--json"),
        cli("fs", "stat", f"{MAIN}/data"),
        cli("fs", "stat", f"{MAIN}/data/1.csv"),
        cli("fs", "stat", f"{MAIN}/"),
        cli("fs", "stat", "--expires", "2h", f"{MAIN}/a.txt"),
        cli("fs", "stat", "lakefs://demo/nope/a.txt", "--json"),
    )


def test_presign_refuses_a_directory_repository(cli: Cli, filled: Demo, golden: Golden) -> None:
    golden(
        "fs_presign_local",
        cli("fs", "presign", f"{MAIN}/a.txt"),
        cli("fs", "presign", f"{MAIN}/a.txt", "--json"),
        cli("fs", "stat", "--pre-sign", f"{MAIN}/a.txt"),
        cli("fs", "stat", "--pre-sign=true", "--expires", "2h", f"{MAIN}/a.txt"),
        cli("fs", "presign", f"{MAIN}/nope"),
        cli("fs", "presign", f"{MAIN}/a.txt", "--expires", "soon"),
    )


def test_cat_writes_an_object(cli: Cli, filled: Demo, golden: Golden) -> None:
    golden(
        "fs_cat",
        cli("fs", "cat", f"{MAIN}/a.txt"),
        cli("fs", "cat", "lakefs://demo/main~0/a.txt"),
        cli("fs", "cat", f"{MAIN}/nope"),
        cli("fs", "cat", f"{MAIN}/data"),
        cli("fs", "cat", f"{MAIN}/"),
    )


def test_cat_writes_bytes_unchanged(cli: Cli, demo: Demo) -> None:
    data = bytes(range(256)) * 20_000
    cli.ok("fs", "upload", "-", f"{MAIN}/bin", stdin=data)
    assert cli.ok("fs", "cat", f"{MAIN}/bin").stdout_bytes == data


def test_cat_reports_damage(cli: Cli, filled: Demo, golden: Golden) -> None:
    object_file(filled, "two!").write_bytes(b"bad!")
    object_file(filled, "odd").unlink()
    golden(
        "fs_cat_damaged", cli("fs", "cat", f"{MAIN}/a.txt"), cli("fs", "cat", f"{MAIN}/new\nline")
    )


def test_cat_into_a_closed_pipe_is_quiet(cli: Cli, demo: Demo) -> None:
    import subprocess
    import sys

    cli.ok("fs", "upload", "-", f"{MAIN}/big", stdin=b"line\n" * 1_000_000)
    command = [sys.executable, "-m", "lakecli", "fs", "cat", f"{MAIN}/big"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"line\n"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == ExitCode.BROKEN_PIPE


def test_download_writes_one_object(
    cli: Cli, filled: Demo, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cli.directory / "here").mkdir()
    monkeypatch.chdir(cli.directory / "here")
    golden(
        "fs_download",
        cli("fs", "download", f"{MAIN}/a.txt"),
        cli("fs", "download", "lakefs://demo/main@/a.txt", "old.txt", "--json"),
        cli("fs", "download", f"{MAIN}/data/sub/x", cli.directory / "to" / "dir/"),
        cli("fs", "download", f"{MAIN}/data/sub/x", f"{cli.directory}/to/dir/"),
        cli("fs", "download", f"{MAIN}/new\nline", ".", "--no-progress"),
    )
    found = {path.name: path.read_text() for path in (cli.directory / "here").iterdir()}
    assert found == {"a.txt": "two!", "old.txt": "one", "new\nline": "odd"}
    assert (cli.directory / "to/dir").read_text() == "x"


def test_download_tells_what_it_replaces(
    cli: Cli, filled: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.csv").write_text("mine")
    refused = cli("fs", "download", f"{MAIN}/a.txt", "mine.csv", "--no-clobber")
    assert refused.exit_code == ExitCode.REFUSED
    assert (tmp_path / "mine.csv").read_text() == "mine"
    replaced = cli("fs", "download", f"{MAIN}/a.txt", "mine.csv")
    assert replaced.stderr.startswith("replaced the old file (4 B, of ")
    os.utime("mine.csv", (10**12, 10**12))  # some file systems keep any time
    assert cli("fs", "download", f"{MAIN}/a.txt", "mine.csv").exit_code == ExitCode.OK
    assert (tmp_path / "mine.csv").read_text() != "mine"
    assert cli("fs", "download", f"{MAIN}/a.txt", "new.csv", "--no-clobber").stderr == ""
    assert cli("fs", "download", "-r", MAIN + "/", "--no-clobber").exit_code == ExitCode.USAGE


def test_download_writes_a_directory(cli: Cli, filled: Demo, golden: Golden) -> None:
    target = cli.directory / "target"
    golden(
        "fs_download_tree",
        cli("fs", "download", "-r", "lakefs://demo/main@/data", target / "data"),
        cli("fs", "download", "-r", MAIN, target / "all", "--json"),
        cli("fs", "download", "-r", f"{MAIN}/", target / "all", "-p", "3", "--no-progress"),
    )
    assert (target / "data/1.csv").read_text() == "1,2"
    assert (target / "all/data/sub/x").read_text() == "x"
    assert (target / "all/a.txt").read_text() == "two!"


def test_download_lists_failures(cli: Cli, filled: Demo, golden: Golden) -> None:
    target, outside = cli.directory / "target", cli.directory / "outside"
    target.mkdir()
    outside.mkdir()
    put(cli, {"t/../../up": "1", "t/link/x": "2", "t/good": "3", "t/damaged": "4", "t/": ""})
    (target / "link").symlink_to(outside)
    object_file(filled, "4").write_text("5")
    golden(
        "fs_download_failures",
        cli("fs", "download", "-r", f"{MAIN}/t", target),
        cli("fs", "download", "-r", f"{MAIN}/t", target, "--json"),
    )
    assert sorted(path.name for path in target.iterdir()) == ["good", "link"]
    assert not list(outside.iterdir())


def test_download_refuses(cli: Cli, filled: Demo, golden: Golden) -> None:
    (cli.directory / "file").write_text("kept")
    make_socket(cli.directory / "pipe")
    golden(
        "fs_download_refuses",
        cli("fs", "download", f"{MAIN}/nope", cli.directory / "x"),
        cli("fs", "download", f"{MAIN}/data", cli.directory / "x"),
        cli("fs", "download", MAIN, cli.directory / "x"),
        cli("fs", "download", "-r", f"{MAIN}/nope", cli.directory / "x", "--json"),
        cli("fs", "download", "-r", f"{MAIN}/data", cli.directory / "file"),
        cli("fs", "download", f"{MAIN}/a.txt", cli.directory / "file" / "x"),
        cli("fs", "download", f"{MAIN}/a.txt", cli.directory / "pipe"),
        cli("fs", "download", f"{MAIN}/a.txt", ""),
        cli("fs", "download"),
    )
    assert (cli.directory / "file").read_text() == "kept"
    assert not (cli.directory / "x").exists()


def test_download_takes_the_size_of_parts(
    cli: Cli, demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakecli.repository import download

    demo.commit("first", {"a": "1"})
    seen: list[int] = []
    real = download.Downloader.__init__

    def init(self: object, repository: object, options: download.DownloadOptions) -> None:
        seen.append(options.part_size)
        real(self, repository, options)  # type: ignore[arg-type]

    monkeypatch.setattr(download.Downloader, "__init__", init)
    target = cli.directory / "got"
    cli.ok("fs", "download", "lakefs://demo/main/a", target)
    cli.ok("fs", "download", "lakefs://demo/main/a", target, "--part-size", "65536")
    assert seen == [8_388_608, 65_536]
    small = cli("fs", "download", "lakefs://demo/main/a", target, "--part-size", "65535")
    assert small.exit_code == 2
