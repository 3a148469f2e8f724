"""``fs upload``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from lakecli.base.identity import blake3_of
from lakecli.cli.exit_codes import ExitCode
from tests.support.sockets import make_socket

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden

MAIN = "lakefs://demo/main"


@pytest.fixture
def source(cli: Cli, demo: Demo) -> Path:
    """A directory with three files, beside the repository ``demo``."""
    root = cli.directory / "source"
    for name, text in {"a.txt": "one", "sub/b.csv": "1,2", "sub/c": ""}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
        os.utime(root / name, (1_700_000_000, 1_700_000_000))
    return root


def test_upload_stages_a_file(cli: Cli, source: Path, golden: Golden) -> None:
    golden(
        "fs_upload",
        cli("fs", "upload", source / "a.txt", f"{MAIN}/x/a.txt"),
        cli("fs", "upload", "-s", source / "a.txt", f"{MAIN}/dir/", "--meta", "a=1,b=2", "--json"),
        cli("fs", "upload", source / "a.txt", MAIN, "--content-type", "text/x-one"),
        cli("fs", "upload", "-", f"{MAIN}/stdin.md", stdin="# Title\n"),
        cli("fs", "upload", "-", f"{MAIN}/marker/"),
        cli("fs", "upload", "-r", source / "a.txt", f"{MAIN}/r.txt"),
        cli("diff", MAIN),
    )
    assert cli.ok("fs", "cat", f"{MAIN}/stdin.md").stdout == "# Title\n"


def test_upload_stages_a_directory(cli: Cli, source: Path, golden: Golden) -> None:
    first = cli("fs", "upload", "-r", source, f"{MAIN}/data")
    (source / "a.txt").write_text("other")
    golden(
        "fs_upload_directory",
        first,
        cli("fs", "upload", "-r", source, f"{MAIN}/data/", "--json"),
        cli("fs", "upload", "-r", source, f"{MAIN}/data/", "--no-progress", "-p", "3"),
        cli("fs", "upload", "-r", source, MAIN, "--parallelism=1"),
        cli("diff", MAIN),
    )


def test_upload_lists_failures(cli: Cli, source: Path, golden: Golden) -> None:
    (source / "link").symlink_to("a.txt")
    (source / "new\nline").symlink_to("nowhere")
    os.mkfifo(source / "pipe")
    golden(
        "fs_upload_failures",
        cli("fs", "upload", "-r", source, f"{MAIN}/data"),
        cli("fs", "upload", "-r", source, f"{MAIN}/data", "--json"),
        cli("fs", "upload", "-r", "--follow", source, f"{MAIN}/data"),
        cli("fs", "upload", "-r", "--skip", source, f"{MAIN}/data"),
        cli("fs", "ls", "-r", MAIN),
    )


def test_upload_refuses_bad_input(cli: Cli, source: Path, golden: Golden) -> None:
    file = source / "a.txt"
    make_socket(source / "pipe")
    golden(
        "fs_upload_refuses",
        cli("fs", "upload", source / "nope", f"{MAIN}/x"),
        cli("fs", "upload", "-r", source / "nope", f"{MAIN}/x", "--json"),
        cli("fs", "upload", source, f"{MAIN}/x"),
        cli("fs", "upload", source / "pipe", f"{MAIN}/x"),
        cli("fs", "upload", file),
        cli("fs", "upload"),
        cli("fs", "upload", "-s", file),
        cli("fs", "upload", "-s", f"{MAIN}/x"),
        cli("fs", "upload", "--files-from", file),
        cli("fs", "upload", "-s", file, file, f"{MAIN}/x"),
        cli("fs", "upload", "", f"{MAIN}/x"),
        cli("fs", "upload", file, "s3://demo/main/x"),
        cli("fs", "upload", file, "lakefs://demo"),
        cli("fs", "upload", file, "lakefs://demo/main~1/x"),
        cli("fs", "upload", file, "lakefs://demo/nope/x"),
        cli("fs", "upload", file, "lakefs://none/main/x"),
        cli("fs", "upload", "-", MAIN),
        cli("fs", "upload", "-r", "-", f"{MAIN}/x"),
        cli("fs", "upload", "-r", "--skip", "--follow", source, f"{MAIN}/x"),
        cli("fs", "upload", file, f"{MAIN}/x", "--meta", "novalue"),
        cli("fs", "upload", file, f"{MAIN}/x", "-p", "0"),
        cli("fs", "upload", "-r", cli.directory, f"{MAIN}/x"),
    )
    assert cli.ok("fs", "ls", MAIN).stdout == ""


def test_a_path_of_any_bytes_and_of_the_longest_length(cli: Cli, demo: Demo) -> None:
    names = ["100%", "a?b#c", "a b", "new\nline", "ünï", os.fsdecode(b"\xff\xfe"), "%2F", "\u202e"]
    names.append("x" * (1024 - len("p/")))
    for name in names:
        cli.ok("fs", "upload", "-", f"{MAIN}/p/{name}", stdin=name.encode("utf-8", "replace"))
    listed = cli.ok("fs", "ls", "-r", f"{MAIN}/p/", "--json").json_lines
    assert sorted(item["path"] for item in listed) == sorted(f"p/{name}" for name in names)
    for name in names:
        data = cli.ok("fs", "cat", f"{MAIN}/p/{name}").stdout_bytes
        assert data == name.encode("utf-8", "replace")
        found = cli.ok("fs", "stat", f"{MAIN}/p/{name}", "--json").json
        assert (found["path"], found["checksum"]) == (f"p/{name}", blake3_of(data).hex())
        assert "\n" not in cli.ok("fs", "stat", f"{MAIN}/p/{name}").lines[0]
        cli.ok("fs", "cp", f"{MAIN}/p/{name}", f"{MAIN}/q/")
        cli.ok(
            "fs", "mv", f"{MAIN}/q/{name}", f"{MAIN}/p/{name}" if len(name) > 99 else f"{MAIN}/r/"
        )
        cli.ok("fs", "rm", f"{MAIN}/p/{name}")
    too_long = cli("fs", "upload", "-", f"{MAIN}/{'x' * 1025}", "--json")
    assert too_long.error["exit_code"] == ExitCode.USAGE
    left = {item["path"] for item in cli.ok("fs", "ls", "-r", MAIN, "--json").json_lines}
    assert left == {f"r/{name}" for name in names if len(name) <= 99}


def test_progress_goes_to_stderr(cli: Cli, source: Path) -> None:
    shown = cli("fs", "upload", "-r", source, f"{MAIN}/data", terminal=True)
    assert shown.exit_code == ExitCode.OK
    assert "upload" in shown.stderr
    assert "upload" not in shown.stdout
    for option in ("--no-progress", "--quiet"):
        silent = cli("fs", "upload", "-r", source, f"{MAIN}/data", option, terminal=True)
        assert silent.stderr == ""


def test_a_pipe_gets_no_line_on_stderr_that_only_counts_bytes(cli: Cli, source: Path) -> None:
    target = cli.directory / "target"
    assert cli.ok("fs", "upload", "-r", source, f"{MAIN}/data/").stderr == ""
    assert cli.ok("fs", "download", "-r", f"{MAIN}/data/", target).stderr == ""
    again = cli.ok("fs", "upload", "-r", source, f"{MAIN}/data/")
    assert again.stderr == "6 B, 3 unchanged\n"


def test_an_interrupt_reports_what_was_staged(
    cli: Cli, source: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    from lakecli import native
    from lakecli.repository import upload_tree
    from lakecli.repository.transfer.ingest import Ingest
    from lakecli.repository.transfer.walk import OpenFile

    monkeypatch.setattr(native, "core", lambda: None)  # it brings in all three at once
    real = Ingest.file

    def file(self: Ingest, opened: OpenFile, **options: object) -> object:
        if opened.path.endswith(b"/c"):
            raise KeyboardInterrupt
        return real(self, opened, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Ingest, "file", file)
    monkeypatch.setattr(upload_tree, "CHUNK", 1)
    golden(
        "fs_upload_interrupted",
        cli("fs", "upload", "-r", source, f"{MAIN}/data"),
        cli("diff", MAIN),
    )


def test_a_terminal_shows_a_sentence_for_a_transfer(cli: Cli, demo: Demo) -> None:
    source = cli.directory / "source"
    source.mkdir()
    for name in ("a", "b"):
        (source / name).write_bytes(bytes(1500))
    uploaded = cli("fs", "upload", "-r", source, "lakefs://demo/main/x/", terminal=True)
    assert uploaded.lines == ["Uploaded 2 objects: 3.0 kB in 0.0 s."]
    again = cli("fs", "upload", "-r", source, "lakefs://demo/main/x/", terminal=True)
    assert again.lines == ["Uploaded 0 objects, 2 unchanged: 3.0 kB in 0.0 s."]
    target = cli.directory / "target"
    downloaded = cli("fs", "download", "-r", "lakefs://demo/main/x/", target, terminal=True)
    assert "Downloaded 2 objects: 3.0 kB in 0.0 s." in downloaded.stdout + downloaded.stderr
    cli.ok("commit", "lakefs://demo/main", "-m", "x")
    words = ("--from", source, "--to", "lakefs://demo/main/y/", "-m", "What was there")
    imported = cli("import", *words, terminal=True).lines
    assert imported[0] == "Imported 2 objects, 2 added: 3.0 kB in 0.0 s."
    assert imported[1].endswith(" on main: What was there")
