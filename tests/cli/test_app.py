"""Errors, output and options that all commands share."""

from __future__ import annotations

import errno
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pytest

from lakecli.base.model import NO_METADATA
from lakecli.base.uri import LakeUri
from lakecli.cli import params, tree
from lakecli.cli.context import Context
from lakecli.cli.exit_codes import EXIT_CODES, ExitCode
from lakecli.cli.line import Option
from lakecli.errors import ConflictError, ErrorKind, LakeError, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden


class Probe:
    """A command of this test's own."""

    def __init__(self, function: Callable[..., int | None]) -> None:
        self.function = function

    def load(self) -> Callable[..., int | None]:
        return self.function


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., int | None]], None]:
    def add(function: Callable[..., int | None]) -> None:
        monkeypatch.setitem(tree.COMMANDS, "probe", Probe(function))
        monkeypatch.setattr(tree, "_BEGINNINGS", {*tree._BEGINNINGS, ("probe",)})

    return add


def raising(error: BaseException) -> Callable[[Context], None]:
    def command(context: Context) -> None:
        context.out.say("before")
        raise error

    return command


def test_an_error_is_printed_with_its_hint(
    cli: Cli, probe: Callable[..., None], golden: Golden
) -> None:
    paths = [b"a", b"b\nc", b"\xff"]
    probe(raising(ConflictError("conflict in 3 paths", hint="decide", paths=paths)))
    golden("errors", cli("probe"), cli("probe", "--json"))


@pytest.mark.parametrize("kind", list(ErrorKind))
def test_every_error_kind_has_its_exit_code(
    cli: Cli, probe: Callable[..., None], kind: ErrorKind
) -> None:
    class SomeError(LakeError):
        pass

    SomeError.kind = kind
    probe(raising(SomeError("it broke")))
    assert cli("probe").exit_code == EXIT_CODES[kind]
    result = cli("probe", "--json")
    assert result.exit_code == EXIT_CODES[kind]
    assert result.error == {
        "kind": kind,
        "exit_code": EXIT_CODES[kind],
        "message": "it broke",
        "hint": None,
        "paths": [],
    }


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (
            ValueError("odd"),
            1,
            "error: unexpected ValueError: odd\nhint: run the command again with --v",
        ),
        (AssertionError(), 1, "error: unexpected AssertionError\n"),
        (KeyboardInterrupt(), 130, "error: interrupted\n"),
        (
            FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "/no/such"),
            6,
            "error: no such file or directory: /no/such\n",
        ),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), 10, "error: no space left on device\n"),
        (NotFound("no 'a\nb'\x1b[2J"), 6, "error: no 'a\\nb'\\033[2J\n"),
    ],
)
def test_other_errors_are_translated(
    cli: Cli, probe: Callable[..., None], error: BaseException, code: int, told: str
) -> None:
    probe(raising(error))
    result = cli("probe")
    assert result.exit_code == code
    assert result.stderr.startswith(told)
    assert result.stdout == "before\n"


def test_verbose_prints_a_traceback(cli: Cli, probe: Callable[..., None]) -> None:
    probe(raising(ValueError("odd")))
    result = cli("probe", "--verbose")
    assert "Traceback" in result.stderr
    assert "in command" in result.stderr
    assert result.stderr.endswith("hint: run the command again with --verbose\n")


USAGE_ERRORS = (
    "confg list",
    "config lst",
    "config",
    "unset",
    "nonsense",
    "--nonsense config list",
    "config list --shw-origin",
    "config list --amount",
    "config list extra",
    "config get",
    "config list --show-origin=perhaps",
)


def test_usage_errors(cli: Cli, golden: Golden) -> None:
    results = [cli(*argv.split()) for argv in (*USAGE_ERRORS, "config list --base-uri")]
    assert {result.exit_code for result in results} == {ExitCode.USAGE}
    golden("usage", *results)


@pytest.mark.parametrize("argv", USAGE_ERRORS)
def test_usage_errors_in_json(cli: Cli, argv: str) -> None:
    result = cli(*argv.split(), "--json")
    assert (result.exit_code, result.error["kind"]) == (ExitCode.USAGE, "usage")
    assert cli(*argv.split()).stderr.splitlines()[0] == f"error: {result.error['message']}"


def test_help_is_printed_for_commands_and_groups(cli: Cli, golden: Golden) -> None:
    golden("help_config_list", cli("config", "list", "--help"))
    first = cli("config", "list", "-h")
    for argv in ("help config list", "-h config list", "config -h list", "config get -h"):
        result = cli(*argv.split())
        assert result.exit_code == 0
        assert (result.stdout == first.stdout) == ("get" not in argv)
    assert "completion, config, diff" in cli().stdout
    assert cli("help").stdout == cli("--help").stdout == cli().stdout
    assert cli("help", "config").stdout == cli("config", "--help").stdout
    assert cli("config", "--help").stdout.startswith("Usage: lakecli config COMMAND")


def test_version_is_printed(cli: Cli) -> None:
    assert cli("--version").stdout == cli("version").stdout == cli("-v").stdout
    assert cli("--version", "--json").json == {"version": cli("version").lines[0].split()[-1]}


def test_parameters_are_converted_to_their_types(cli: Cli, probe: Callable[..., None]) -> None:
    seen: list[tuple[object, ...]] = []

    def command(
        context: Context,
        branch: params.BranchUri,
        refs: params.RefUris,
        *,
        metadata: params.Metadata = NO_METADATA,
        expires: params.Expires = None,
        yes: params.Yes = False,
        pre_sign: Annotated[bool | None, Option(None, "", "--pre-sign/--no-pre-sign")] = None,
    ) -> int:
        seen.append((branch, refs, dict(metadata), expires, yes, pre_sign))
        return ExitCode.DIFFERENCES

    probe(command)
    assert cli("probe", "lakefs://demo/main", "lakefs://demo/x~1").exit_code == 13
    line = "probe b lakefs://r22/y/ --base-uri lakefs://demo/ --meta a=1,b==2 --meta c= "
    result = cli(*line.split(), "--meta", '"d=x,y",e=z', "--expires=2h", "-y", "--pre-sign=false")
    assert (result.exit_code, result.stderr) == (13, "")
    assert seen == [
        (LakeUri("demo", "main"), [LakeUri("demo", "x~1")], {}, None, False, None),
        (
            LakeUri("demo", "b"),
            [LakeUri("r22", "y")],
            {"a": "1", "b": "=2", "c": "", "d": "x,y", "e": "z"},
            timedelta(hours=2),
            True,
            False,
        ),
    ]


@pytest.mark.parametrize(
    "words",
    [
        "b lakefs://demo/x",
        "lakefs://demo/main/path lakefs://demo/x",
        "lakefs://demo/main",
        "lakefs://demo/main lakefs://demo",
        "lakefs://demo/main lakefs://demo/x --meta a",
        "lakefs://demo/main lakefs://demo/x --meta =a",
        'lakefs://demo/main lakefs://demo/x --meta "a=b',
        "lakefs://demo/main lakefs://demo/x --expires 5",
    ],
)
def test_malformed_parameters_are_usage_errors(
    cli: Cli, probe: Callable[..., None], words: str
) -> None:
    def command(
        context: Context,
        branch: params.BranchUri,
        refs: params.RefUris,
        *,
        metadata: params.Metadata = NO_METADATA,
        expires: params.Expires = None,
    ) -> None:
        raise AssertionError

    probe(command)
    result = cli("probe", *words.split())
    assert result.exit_code == ExitCode.USAGE, result
    assert len(result.stderr.splitlines()) == 2


def test_confirm_asks_or_refuses(cli: Cli, probe: Callable[..., None]) -> None:
    def command(context: Context, *, yes: params.Yes = False) -> None:
        context.confirm("delete repository 'r'", yes=yes)
        context.out.say("deleted")

    probe(command)
    assert cli("probe", "-y").stdout == "deleted\n"
    refused = cli("probe", stdin="y\n")
    assert refused.exit_code == ExitCode.REFUSED
    assert refused.stderr == (
        "error: cannot ask for confirmation without a terminal: delete repository 'r'\n"
        "hint: confirm with -y\n"
    )
    asked = cli("probe", stdin="y\n", terminal=True)
    assert (asked.exit_code, asked.stdout) == (0, "deleted\n")
    assert asked.stderr == "Are you sure you want to delete repository 'r' [y/N]? "
    for answer in ("", "\n", "n\n", "yesterday\n"):
        assert cli("probe", stdin=answer, terminal=True).exit_code == ExitCode.REFUSED


def record(number: int) -> Mapping[str, object]:
    return {"number": number}


def test_a_cut_page_prints_a_hint(cli: Cli, probe: Callable[..., None]) -> None:
    def command(context: Context, *, amount: params.Amount = 2) -> None:
        context.out.table(
            ("Number", "Square"),
            context.out.page(iter(range(3)), amount=amount, name=lambda number: f"n{number}"),
            row=lambda number: (str(number), str(number**2)),
            record=record,
        )

    probe(command)
    hint = 'hint: for more results run with --amount 2 --after "n1"\n'
    cut = cli("probe")
    assert (cut.stdout, cut.stderr) == ("0\t0\n1\t1\n", hint)
    cut = cli("probe", "--json", "-q")
    assert (cut.json_lines, cut.stderr) == ([{"number": 0}, {"number": 1}], hint)
    assert cli("probe", terminal=True).lines[1].split() == ["0", "0"]
    assert cli("probe", "--no-color", terminal=True).lines[0] == "NUMBER  SQUARE"
    assert cli("probe", env={"NO_COLOR": "1"}, terminal=True).lines[0] == "NUMBER  SQUARE"
    for whole in ("--amount=3", "--amount=0", "--amount=-1"):
        result = cli("probe", whole)
        assert (len(result.lines), result.stderr) == (3, "")
    assert cli("probe", "--amount=-2").exit_code == ExitCode.USAGE


def test_colours_are_printed_on_a_terminal_only(cli: Cli, probe: Callable[..., None]) -> None:
    def command(context: Context) -> None:
        context.out.say(context.out.style("+ added", "green"))
        raise NotFound("gone")

    probe(command)
    assert cli("probe").stdout == "+ added\n"
    coloured = cli("probe", terminal=True)
    assert coloured.stdout == "\033[32m+ added\033[0m\n"
    assert coloured.stderr == "\033[91merror:\033[0m gone\n"
    assert cli("probe", "--no-color", terminal=True).stderr == "error: gone\n"


def test_path_bytes_are_printed_unchanged(cli: Cli, probe: Callable[..., None]) -> None:
    def command(context: Context, path: params.NewPathUri) -> None:
        context.out.emit({"path": path.path}, text=lambda: [str(path)])

    probe(command)
    odd = "lakefs://demo/main/" + os.fsdecode(b"a%20?#b\xff")
    # In text a terminal could take such a byte for a control character.
    assert cli("probe", odd).stdout == "lakefs://demo/main/a%20?#b\\377\n"
    assert cli("probe", odd, "--json").stdout == '{"path": "a%20?#b\\udcff"}\n'


def test_stdout_is_flushed_before_stderr(cli: Cli) -> None:
    """A log that catches both reads in order, though stdout is buffered."""
    code = (
        "import sys, os\n"
        "from lakecli.cli.context import Context, Environment\n"
        "from lakecli.cli.line import Globals\n"
        "context = Context(Environment(os.environ, sys.stdin, sys.stdout, sys.stderr), Globals())\n"
        "context.out.say('one')\n"
        "context.out.warn('two')\n"
        "context.out.say('three')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=True,
        text=True,
    )
    assert done.stdout == "one\nwarning: two\nthree\n"


def test_standard_input_that_does_not_wait_is_read_to_its_end(cli: Cli) -> None:
    cli.ok("repo", "create", "lakefs://demo", f"{cli.directory}/namespace")
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    upload = [sys.executable, "-m", "lakecli", "fs", "upload", "-", "lakefs://demo/main/a"]
    with subprocess.Popen(upload, stdin=reader, stdout=subprocess.DEVNULL) as process:
        os.close(reader)
        for piece in (b"one\n", b"two\n", b"three\n"):
            os.write(writer, piece)
            time.sleep(0.3)
        os.close(writer)
    assert process.returncode == 0
    assert cli.ok("fs", "cat", "lakefs://demo/main/a").stdout == "one\ntwo\nthree\n"


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts threads by Linux's /proc")
def test_numpy_starts_no_threads() -> None:
    """Arrow imports it."""
    code = (
        "import os, sys\n"
        "from lakecli.cli.app import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "import numpy\n"
        "print(len(os.listdir('/proc/self/task')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, "version"], capture_output=True, check=True)
    assert done.stdout.splitlines()[-1] == b"1"


def test_a_closed_pipe_ends_the_command_quietly(cli: Cli) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "lakecli", "config", "list"],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (ExitCode.BROKEN_PIPE, b"")


def test_a_full_disk_at_stdout_is_an_error(cli: Cli) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "lakecli", "config", "list"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == ExitCode.UNREACHABLE
    hint = b"hint: free some space, and repeat the command\n"
    assert done.stderr == b"error: no space left on device\n" + hint


@pytest.mark.parametrize("locale", ["C", "en_US.ISO-8859-1"])
def test_the_locale_changes_no_path(cli: Cli, locale: str) -> None:
    """Python decodes paths and arguments by the locale, unless it is in UTF-8 mode."""
    environ = {**os.environ, "LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    argv = [sys.executable, "-m", "lakecli", "fs", "cat", "lakefs://nö/é/日", "--json"]
    done = subprocess.run(argv, env=environ, capture_output=True, check=False)
    message = json.loads(done.stderr)["error"]["message"]
    assert message == "illegal repository name 'nö' in 'lakefs://nö/é/日'"


def test_an_answer_that_is_not_utf8_is_a_no(demo: Demo) -> None:
    ours, theirs = pty.openpty()
    environ = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    command = (sys.executable, "-m", "lakecli", "repo", "delete", "lakefs://demo")
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environ) as run:
        os.write(ours, b"\xff\n")
    os.close(theirs)
    os.close(ours)
    assert run.returncode == ExitCode.REFUSED


def test_closed_streams_are_tolerated(cli: Cli) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-m", "lakecli", "version"],
        check=False,
    )
    assert done.returncode == 0


def test_an_interrupt_is_reported_in_one_line(cli: Cli) -> None:
    code = (
        "import sys, time\n"
        "from lakecli.cli import app, tree\n"
        "class Probe:\n"
        "    def load(self):\n"
        "        def command(context):\n"
        "            print('ready', flush=True)\n"
        "            time.sleep(60)\n"
        "        return command\n"
        "tree.COMMANDS['probe'] = Probe()\n"
        "tree._BEGINNINGS.add(('probe',))\n"
        "sys.argv = ['lakecli', 'probe']\n"
        "app.main()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b"error: interrupted\n"
    assert process.returncode == ExitCode.INTERRUPTED


def test_progress_without_a_terminal_prints_lines(
    cli: Cli, probe: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakecli.cli.out import progress

    monkeypatch.setattr(progress, "INTERVAL", 0.0)

    def command(context: Context) -> None:
        with context.out.progress("upload", items=2) as shown:
            shown.expect(size=3000)
            shown.advance(items=1, size=1500)
            shown.expect(items=1, size=1000)
            shown.advance(items=1, size=1500)

    probe(command)
    assert cli("probe").stderr == (
        "upload: 1 of 2 objects, 1.5 kB of 3.0 kB\nupload: 2 of 3 objects, 3.0 kB of 4.0 kB\n"
    )
    assert cli("probe", "--quiet").stderr == ""
    monkeypatch.setattr(progress, "INTERVAL", 5.0)
    assert cli("probe").stderr == ""


def test_progress_on_a_terminal_draws_a_bar(cli: Cli, probe: Callable[..., None]) -> None:
    def command(context: Context) -> None:
        with context.out.progress("upload", items=2) as shown:
            shown.advance(items=1)
            context.out.say("upload one")
            shown.advance(items=1)

    probe(command)
    result = cli("probe", terminal=True)
    assert "2/2 objects" in result.stderr
    assert "upload one" in result.stderr
    assert "upload one" in cli("probe").stdout


def test_the_help_of_the_whole_program(cli: Cli, golden: Golden) -> None:
    shown = cli("--help")
    golden("help", shown)
    assert all(cli(*line).stdout == shown.stdout for line in ([], ["help"], ["-h"]))


@pytest.mark.parametrize("options", [(), ("--no-pager",)])
def test_a_table_is_as_wide_as_the_terminal_with_a_pager_too(
    demo: Demo, options: tuple[str, ...]
) -> None:
    demo.commit("s" * 90, {"a": "1"})
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (50, 160))
    environ = {**os.environ, "TERM": "xterm", "PAGER": "sed s/^/paged:/"}
    command = (sys.executable, "-m", "lakecli", "branch", "list", "lakefs://demo", *options)
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, env=environ):
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # Linux's end of a terminal
            while part := os.read(ours, 1 << 16):
                shown += part
    os.close(ours)
    assert shown.count(b"paged:") == (0 if options else 3)
    assert b"s" * 90 in shown
