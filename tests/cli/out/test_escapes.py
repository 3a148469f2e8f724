"""Text from a bucket is printed without characters that a reader does not see."""

from __future__ import annotations

import ast
import io
import os
import re
import subprocess
import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING
from unicodedata import category

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakecli.base.model import Entry
from lakecli.cli.out.output import Guarded, Output
from lakecli.cli.out.terminal import Pager
from lakecli.cli.out.text import harmless, one_line, quote_path, shell_word
from lakecli.cli.tree import COMMANDS
from lakecli.repository.commit import commit
from tests.support import lakes
from tests.support.command_lines import Sample, command_lines

if TYPE_CHECKING:
    from tests.support.demo import Demo
    from tests.support.golden import Cli

PACKAGE = Path(__file__).parents[3] / "lakecli"
IGNORABLE = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202e"
    "\u2060\u2064\u206f\u3164\ufe00\ufe0f\ufeff\uffa0\ufff0\U0001bca0\U0001d173\U000e0001\U000e0041"
    "\U000e007f\U000e0100\U000e01ef\U000e0fff"
)
"""Of each group that Unicode lets a program not show; some of it counts as printable in Python."""

CATEGORIES = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}
ALL = "".join(map(chr, range(sys.maxunicode + 1)))
HIDDEN = (
    "".join(run)
    for is_hidden, run in groupby(ALL, lambda char: category(char) in CATEGORIES)
    if is_hidden
)
FORBIDDEN = re.compile(f"(?![\t\n])[{IGNORABLE}{''.join(f'{run[0]}-{run[-1]}' for run in HIDDEN)}]")
HOSTILE = (
    "h\x1b[31m\x1b]52;c;eA==\x07\x1b]8;;http://x\x1b\\\r\b\x7f\x9b31m\x9d\u202e\u2066\u2028"
    "\u200b\u200f\xad\ufe0f\ufeff\u3164\ue000\u0378\U000e0041\U000e0101\U0010fffde"
)
STYLES = re.compile("\x1b\\[(0|1|2|3[0-7]|9[0-7])m")


def output(*, terminal: bool = False) -> tuple[Output, io.StringIO, io.StringIO]:
    class Stream(io.StringIO):
        def isatty(self) -> bool:
            return terminal

    out, err = Stream(), Stream()
    return Output(out, err, whole=True), out, err


@given(st.text())
def test_escaped_text_is_harmless_and_reversible(text: str) -> None:
    for shown in (harmless(text), one_line(text), quote_path(text), shell_word(text)):
        assert not FORBIDDEN.search(shown)
    assert "\n" not in one_line(text)
    assert harmless(harmless(text)) == harmless(text)
    if not FORBIDDEN.search(text):
        assert harmless(text) == text


@pytest.mark.parametrize("text", ["\ud800", "a\udcff", HOSTILE, "\0", "\x85", "plain", "ü\tü\n"])
def test_control_characters_are_escaped(text: str) -> None:
    assert not FORBIDDEN.search(harmless(text))
    assert not FORBIDDEN.search(quote_path(text))


@given(st.binary(max_size=40).filter(lambda data: b"\0" not in data and not data.endswith(b"\n")))
def test_a_shell_reads_a_quoted_word_unchanged(data: bytes) -> None:
    word = shell_word(os.fsdecode(data))
    done = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True)
    assert done.stdout == data


def test_the_hint_of_a_page_shows_the_next_page(tmp_path: Path) -> None:
    name = f"$(touch x)`touch x`'\"{HOSTILE}\n"
    out, _, err = output()
    list(out.page(iter([name, "b"]), amount=1, name=str))
    assert not FORBIDDEN.search(err.getvalue())
    word = err.getvalue().rpartition("--after ")[2].rstrip("\n")
    script = f"printf %s. {word}"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, check=True)
    assert done.stdout.decode() == f"{name}."
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("terminal", [False, True])
def test_every_way_to_a_stream_escapes(*, terminal: bool) -> None:
    out, stdout, stderr = output(terminal=terminal)
    out.emit({}, text=lambda: [HOSTILE, "x\nforged line"])
    out.say(HOSTILE, out.style(HOSTILE, "red"))
    out.stream([HOSTILE], record=lambda item: {"item": item}, text=str)
    out.table(
        ["one", "two"],
        [(HOSTILE, "a\tb\nc")],
        row=lambda item: item,
        record=lambda item: {"item": item},
    )
    for write in (out.note, out.warn, out.hint, out.ask, out.debug):
        write(HOSTILE)
    out.error(HOSTILE, hint=HOSTILE, paths=[os.fsencode(HOSTILE)])
    out.traceback(ValueError(HOSTILE))
    for text in (stdout.getvalue(), stderr.getvalue()):
        assert text
        assert not FORBIDDEN.search(STYLES.sub("", text) if terminal else text)
    assert "\nforged line" not in stdout.getvalue()
    assert "a\\tb\\nc" in stdout.getvalue()


@given(st.text("a\r\n\x1b\x9bé\udcff"))
@example("a\r")
@example("a\udcc3")
def test_a_document_on_a_terminal_is_escaped(text: str) -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    target = io.BytesIO()
    stdout = Terminal(target, encoding="utf-8")
    with Output(stdout, io.StringIO()).document() as document:
        for byte in text.encode("utf-8", "surrogateescape"):
            document.write(bytes([byte]))
    assert target.getvalue().decode() == harmless(text.replace("\r\n", "\n"))


def test_data_cannot_name_a_style() -> None:
    out, stdout, _ = output(terminal=True)
    out.say(out.style("text", "red"), "<0123456789abcdef:red;", "\x1b[31m")
    assert STYLES.findall(stdout.getvalue()) == ["31", "0"]


def test_messages_of_libraries_are_escaped() -> None:
    stream = io.StringIO()
    print(HOSTILE, file=Guarded(stream))
    assert not FORBIDDEN.search(stream.getvalue())
    code = (
        "import sys, threading, warnings\n"
        "from lakecli.cli import app\n"
        "import lakecli.cli.run\n"
        "def run(argv, world):\n"
        "    warnings.warn('w\\x1b[31m')\n"
        "    thread = threading.Thread(target=lambda: 1 / len('t\\x1b' * 0))\n"
        "    def fail(): raise ValueError('t\\x1b[31m')\n"
        "    thread = threading.Thread(target=fail)\n"
        "    thread.start(); thread.join()\n"
        "    print('p\\x1b[31m', file=sys.stderr)\n"
        "    return 0\n"
        "lakecli.cli.run.run = run\n"
        "app.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for said in ("w\\033[31m", "t\\033[31m", "p\\033[31m"):
        assert said in done.stderr
    assert "\x1b" not in done.stderr


def test_only_output_writes_to_streams() -> None:
    """Only `Output` writes; what else names a stream is listed here with its reason."""
    allowed = {
        "cli/app.py",  # hands the streams over
        "cli/manual/complete.py",  # prints only what is printable, for a shell
        "engine/object_reader.py",  # a program: Java reads its answers
    }
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name in allowed:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                text = ast.unparse(node.func)
                if text in {"print", "rich.print", "pprint"} or text.endswith(
                    (".echo", ".secho", "StreamHandler", "basicConfig", "print_exc", "excepthook")
                ):
                    found.append(f"{name}:{node.lineno}: {text}")
            if isinstance(node, ast.Attribute) and ast.unparse(node) in {
                "sys.stdout",
                "sys.stderr",
                "sys.__stdout__",
                "sys.__stderr__",
                "environment.stdout",
                "environment.stderr",
            }:
                found.append(f"{name}:{node.lineno}: {ast.unparse(node)}")
    # What reads or replaces the streams of a run, and gives them to `Output`.
    assert [line for line in found if not line.startswith("cli/context.py")] == []
    assert len(found) == 2, found


@pytest.fixture
def hostile(demo: Demo) -> Sample:
    """A repository in which every text is hostile that may be any text."""
    entry = Entry(
        f"s3://bucket/{HOSTILE}",
        1,
        HOSTILE,
        lakes.START,
        HOSTILE,
        {HOSTILE: HOSTILE, "::lakefs::client-mtime": HOSTILE},
    )
    for at, address in enumerate((f"s3://bucket/{HOSTILE}", f"data/{HOSTILE}", f"../{HOSTILE}")):
        entries = {
            os.fsencode(f"{HOSTILE}{at}{name}"): Entry(
                address, 1, HOSTILE, lakes.START, HOSTILE, entry.metadata
            )
            for name in ("", "\n", "/below")
        }
        with demo.lake() as lake:
            repository = lake.repository("demo")
            lakes.stage_entries(repository, "main", entries)
            commit(
                repository,
                "main",
                message=f"{HOSTILE}\n{HOSTILE}",
                committer=HOSTILE,
                metadata={HOSTILE: HOSTILE},
            )
    demo.cli.ok("tag", "create", "lakefs://demo/v1", "lakefs://demo/main~1")
    demo.cli.ok("push", "lakefs://demo/main")
    with demo.lake() as lake:
        lakes.stage_entries(lake.repository("demo"), "main", {os.fsencode(f"s{HOSTILE}"): entry})
    (operation, *_) = demo.cli.ok("op", "log", "lakefs://demo", "--json").json_lines
    return Sample(
        demo.cli.directory / "files",
        str(demo.namespace),
        path=f"{HOSTILE}0",
        operation=operation["id"],
    )


def test_every_command_is_tested_with_hostile_text(tmp_path: Path) -> None:
    lines = [" ".join(line) for line in command_lines(Sample(tmp_path, str(tmp_path)))]
    for words in COMMANDS.keys() - {"policy edit"}:  # it starts an editor
        assert any(f"{line} ".startswith(f"{words} ") for line in lines), words


@pytest.mark.parametrize("verbose", [False, True])
def test_every_command_escapes_hostile_records(cli: Cli, hostile: Sample, *, verbose: bool) -> None:
    unexpected = []
    for line in command_lines(hostile):
        result = cli(*line, *(["--verbose"] if verbose else []))
        if line[:2] != ("fs", "cat"):
            assert not FORBIDDEN.search(result.stdout), result
        assert not FORBIDDEN.search(result.stderr), result
        assert result.exit_code != 2, result
        if result.exit_code == 1:
            unexpected.append(result)
    assert unexpected == []


def test_a_pager_gets_the_bytes_of_a_path(tmp_path: Path) -> None:
    pager = Pager(f"tee {tmp_path / 'shown'}")
    pager.stream.write(os.fsdecode(b"a\xff\0"))
    pager.finish()
    assert (tmp_path / "shown").read_bytes() == b"a\xff\0"
