"""One process that answers many questions: --files-from and --stdin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from io import BufferedReader, BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.cli.commands import names_from_file
from lakecli.cli.commands.names_from_file import iter_questions, read_document
from lakecli.cli.context import Context, Environment
from lakecli.cli.exit_codes import ExitCode
from lakecli.cli.line import Globals
from lakecli.cli.out.output import Output
from lakecli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.golden import Cli, Golden

ROOT = "lakefs://demo/main/"
OBJECTS = {"a": b"text\n", "dir/b": b"\x00\xff\n" * 1_000, "dir/c": b""}


@pytest.fixture
def filled(cli: Cli) -> Cli:
    cli.ok("repo", "create", "lakefs://demo", cli.directory / "namespace")
    for path, data in OBJECTS.items():
        cli.ok("fs", "upload", "-s", "-", ROOT + path, stdin=data)
    cli.ok("commit", "lakefs://demo/main", "-m", "first")
    return cli


@pytest.mark.parametrize("source", ["-", "file"])
def test_a_document_may_have_any_bytes_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.setattr(names_from_file, "MAX_SIZE", 3)
    monkeypatch.chdir(tmp_path)
    Path("file").write_bytes(b"a\xff\r\nb")
    stdin = TextIOWrapper(BytesIO(b"a\xff\r\nb"), encoding="utf-8", errors="strict")
    context = Context(Environment({}, stdin, StringIO(), StringIO()), Globals())
    assert read_document(context, source) == "a\udcff\r\n"


def test_stat_answers_for_each_path(filled: Cli, golden: Golden) -> None:
    result = filled("fs", "stat", ROOT, "--files-from", "-", stdin="a\nnone\n\ndir/b")
    golden("fs_stat_files_from", result)
    assert result.exit_code == ExitCode.PARTIAL


def test_stat_answers_in_json_as_for_one(filled: Cli) -> None:
    result = filled("fs", "stat", ROOT + "dir", "--files-from", "-", "--json", stdin="b\nx\nc\n")
    one = [filled("fs", "stat", ROOT + path, "--json").json for path in ("dir/b", "dir/c")]
    assert result.json_lines == [
        {**one[0], "missing": False},
        {"path": "dir/x", "missing": True},
        {**one[1], "missing": False},
    ]
    assert result.error["message"] == "1 of 3 do not exist"


def test_names_come_from_a_file_separated_by_nul(filled: Cli) -> None:
    names = filled.directory / "names"
    names.write_bytes(b"a\0new\nline\0")
    filled.ok("fs", "upload", "-s", "-", ROOT + "new\nline", stdin=b"x")
    result = filled.ok("fs", "stat", ROOT, "--files-from", names, "-z", "--json")
    assert [each["path"] for each in result.json_lines] == ["a", "new\nline"]
    written = filled.ok("fs", "cat", ROOT, "--files-from", names, "-z").stdout_bytes
    assert written.split(b" ", 1)[1].startswith(b"5 a\0text\n\0")
    assert written.endswith(b" 1 new\nline\0x\0")


def test_cat_frames_each_object(filled: Cli) -> None:
    asked = ["dir/c", "none", "dir/b", "a"]
    result = filled("fs", "cat", ROOT, "--files-from", "-", stdin="\n".join(asked))
    assert result.exit_code == ExitCode.PARTIAL
    assert result.stderr == "error: 1 of 4 do not exist\n"
    source = BytesIO(result.stdout_bytes)
    for path in asked:
        checksum, size, name = source.readline().decode().rstrip("\n").split(" ", 2)
        assert name == path
        if path == "none":
            assert (checksum, size) == ("missing", "-")
            continue
        assert checksum == filled("fs", "stat", ROOT + path, "--json").json["checksum"]
        assert source.read(int(size)) == OBJECTS[path]
        assert source.read(1) == b"\n"
    assert source.read() == b""


def test_cat_writes_nothing_of_a_damaged_object(filled: Cli) -> None:
    address = filled("fs", "stat", ROOT + "a", "--json").json["physical_address"]
    Path(address.removeprefix("local://")).write_bytes(b"TEXT\n")
    result = filled("fs", "cat", ROOT, "--files-from", "-", stdin="dir/c\na\ndir/b\n")
    assert result.exit_code == ExitCode.INTEGRITY
    assert result.stdout.endswith(" 0 dir/c\n\n")


def test_rev_parse_answers_for_each_ref(filled: Cli, golden: Golden) -> None:
    head = filled("rev-parse", "lakefs://demo/main").stdout.strip()
    asked = "lakefs://demo/main\nlakefs://demo/none\n\nlakefs://other/main\nlakefs://demo/main@\n"
    result = filled("rev-parse", "--stdin", stdin=asked)
    assert result.lines == [head, "missing lakefs://demo/none", "missing lakefs://other/main", head]
    golden("rev_parse_stdin", result)
    answered = filled("rev-parse", "--stdin", "--json", stdin=asked).json_lines
    assert [each["missing"] for each in answered] == [False, True, True, False]
    one = filled("rev-parse", "lakefs://demo/main", "--json").json
    assert answered[0] == {**one, "missing": False}


@pytest.mark.parametrize(
    "line",
    [
        "rev-parse",
        "rev-parse lakefs://demo/main --stdin",
        f"fs stat {ROOT} --files-from - --pre-sign",
        f"fs stat {ROOT}a -z",
        f"fs cat {ROOT}a -z",
        f"fs cat {ROOT} {ROOT}dir --files-from -",
        f"fs stat {ROOT}",
        f"fs cat {ROOT}",
    ],
)
def test_what_makes_no_sense_is_refused(filled: Cli, line: str) -> None:
    result = filled(*line.split())
    assert result.exit_code == ExitCode.USAGE, result
    assert result.stderr.startswith("error: ")


def test_a_malformed_ref_ends_the_command(filled: Cli) -> None:
    refused = filled("rev-parse", "--stdin", stdin="lakefs://demo/main\nnonsense\n")
    assert (refused.exit_code, len(refused.lines)) == (ExitCode.USAGE, 1)


def test_a_path_that_no_object_can_have_is_missing(filled: Cli) -> None:
    filled.ok("fs", "upload", "-s", "-", ROOT + "staged", stdin=b"")
    long = "x" * 1_025
    result = filled("fs", "stat", ROOT, "--files-from", "-", "--json", stdin=f"a\n{long}\ndir/b\n")
    assert [each["missing"] for each in result.json_lines] == [False, True, False]
    assert result.exit_code == ExitCode.PARTIAL


def test_names_are_as_find_writes_them_unless_an_object_has_that_name(filled: Cli) -> None:
    filled.ok("fs", "upload", "-s", "-", ROOT + "./dir/c", stdin=b"other")
    asked = "./a\n./dir/c\ndir/c\n./none\n"
    result = filled("fs", "stat", ROOT, "--files-from", "-", "--json", stdin=asked)
    found = [(each["path"], each.get("size")) for each in result.json_lines]
    assert found == [("a", 5), ("./dir/c", 5), ("dir/c", 0), ("./none", None)]
    written = filled("fs", "cat", ROOT, "--files-from", "-", stdin="./a\n./none\n").stdout
    assert written.endswith(" 5 a\ntext\n\nmissing - ./none\n")


@pytest.mark.parametrize(
    ("line", "questions"),
    [
        (["rev-parse", "--stdin", "--json"], ["lakefs://demo/main", "lakefs://demo/main@"]),
        (["fs", "stat", ROOT, "--files-from", "-", "--json"], ["a", "none", "dir/b"]),
    ],
)
def test_each_answer_comes_before_the_next_question(
    filled: Cli, line: list[str], questions: list[str]
) -> None:
    filled.ok("repo", "list")
    with subprocess.Popen(
        [sys.executable, "-m", "lakecli", *line],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for question in questions:
            process.stdin.write(question.encode() + b"\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            assert question in (answer.get("uri"), answer.get("path"))
        process.stdin.close()
        assert process.stdout.read() == b""


def test_a_ref_that_moved_and_a_repository_that_was_created_anew_are_asked_anew(
    filled: Cli,
) -> None:
    """A process may ask for longer than a repository lives."""
    with subprocess.Popen(
        [sys.executable, "-m", "lakecli", "rev-parse", "--stdin"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:

        def ask() -> str:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"lakefs://demo/main\n")
            process.stdin.flush()
            return process.stdout.readline().decode()

        before = ask()
        filled.ok("commit", "lakefs://demo/main", "-m", "second", "--allow-empty-commit")
        assert before != ask() == filled.ok("rev-parse", "lakefs://demo/main").stdout
        filled.ok("repo", "delete", "-y", "lakefs://demo")
        assert ask() == "missing lakefs://demo/main\n"
        filled.ok("repo", "create", "lakefs://demo", filled.directory / "another")
        assert ask() == filled.ok("rev-parse", "lakefs://demo/main").stdout
        process.communicate()


class Dribbling(BytesIO):
    """Returns what it holds in pieces, as a pipe does."""

    def __init__(self, data: bytes, step: int) -> None:
        super().__init__(data)
        self._step = step

    def read1(self, size: int | None = -1, /) -> bytes:
        return super().read1(self._step)


@given(names=st.lists(st.binary(max_size=5)), null=st.booleans(), step=st.integers(1, 7))
def test_questions_are_lines(names: list[bytes], null: bool, step: int) -> None:  # noqa: FBT001
    end = b"\0" if null else b"\n"
    lines = [name.replace(end, b"") for name in names]
    data = end.join(lines)
    asked = lines if null else [line.removesuffix(b"\r") for line in lines]
    for text in (data, data + end):
        assert list(iter_questions(Dribbling(text, step), null=null)) == [*filter(None, asked)]


def test_a_line_without_end_is_refused() -> None:
    with Path("/dev/zero").open("rb") as zeros:
        assert isinstance(zeros, BufferedReader)
        with pytest.raises(UsageError, match="more than"):
            list(iter_questions(zeros, null=False))


def test_a_full_disk_is_reported_once(filled: Cli) -> None:
    """Also where the answer is still in a buffer when the error is reported."""
    for line in (["version"], ["fs", "ls", "-r", ROOT], ["fs", "stat", ROOT + "a"]):
        with Path("/dev/full").open("wb") as full:
            done = subprocess.run(
                [sys.executable, "-m", "lakecli", *line],
                stdout=full,
                stderr=subprocess.PIPE,
                env={**os.environ, "PYTHONUNBUFFERED": ""},
                check=False,
            )
        said, hint = done.stderr.decode().splitlines()
        assert said == "error: no space left on device", filled
        assert hint == "hint: free some space, and repeat the command"
        assert done.returncode == ExitCode.UNREACHABLE


def test_items_that_are_held_come_before_what_stderr_says() -> None:
    log = StringIO()
    out = Output(log, log)

    def items() -> Iterator[int]:
        yield 1
        out.note("between")
        yield 2
        raise LookupError

    with pytest.raises(LookupError):
        out.stream(items(), record=lambda item: {"item": item}, text=str)
    out.error("failed", hint=None, paths=())
    assert log.getvalue() == "1\nbetween\n2\nerror: failed\n"
    out.stream(range(1_000), record=lambda item: {"item": item}, text=str)
    out.say("done")
    assert log.getvalue().endswith("".join(f"{item}\n" for item in range(1_000)) + "done\n")
