"""An unknown command X runs ``lakecli-X``."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from lakecli.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.golden import Cli

SCRIPT = """\
#!/bin/sh
printf '<%s>' "$0" "$@"
printf ' %s ' "$MARK"
cat
echo told >&2
exit 42
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory in PATH, with the plugin ``hello``."""
    directory = tmp_path / "programs"
    directory.mkdir()
    write(directory / "lakecli-hello", SCRIPT)
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")
    return directory


def write(file: Path, text: str, mode: int = 0o755) -> None:
    file.write_text(text)
    file.chmod(mode)


def test_an_unknown_command_runs_a_plugin(cli: Cli, programs: Path) -> None:
    done = cli.process("hello", "--json", "a b", "-c", "x", stdin=b"in", env={"MARK": "env"})
    assert done.exit_code == 42
    assert done.stdout == f"<{programs}/lakecli-hello><--json><a b><-c><x> env in"
    assert done.stderr == "told\n"


def test_a_plugin_gets_the_environment_unchanged(cli: Cli, programs: Path) -> None:
    """Of lakecli itself, OpenBLAS gets one thread."""
    write(programs / "lakecli-env", "#!/bin/sh\nexec env\n")
    variables = cli.process("env", env={"MARK": "a"}).stdout.splitlines()
    assert "MARK=a" in variables
    assert not [each for each in variables if each.startswith("OPENBLAS_NUM_THREADS")]


def test_global_options_before_it_are_not_passed(cli: Cli, programs: Path) -> None:
    done = cli.process("-q", "--base-uri", "lakefs://demo/", "hello")
    assert (done.exit_code, done.stdout) == (42, f"<{programs}/lakecli-hello>  ")


def test_help_asks_the_plugin(cli: Cli, programs: Path) -> None:
    assert "<--help>" in cli.process("help", "hello").stdout
    assert "<--help>" in cli.process("hello", "--help").stdout
    assert cli.process("help", "nothing").exit_code == ExitCode.USAGE
    assert programs.is_dir()


def test_a_broken_pipe_ends_a_plugin(cli: Cli, programs: Path) -> None:
    write(programs / "lakecli-endless", "#!/bin/sh\nyes | head -n 1\n")
    done = cli.process("endless")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "y\n", "")


def test_commands_of_lakecli_come_first(cli: Cli, programs: Path) -> None:
    write(programs / "lakecli-version", SCRIPT)
    write(programs / "lakecli-branch", SCRIPT)
    assert cli.process("version").stdout.startswith("lakecli version")
    assert cli.process("branch").exit_code != 42
    assert cli.process("branch", "nope").exit_code == ExitCode.USAGE


@pytest.mark.parametrize("name", ["../lakecli-hello", "hel/lo", "-hello", "nope", ""])
def test_other_words_are_unknown_commands(cli: Cli, programs: Path, name: str) -> None:
    assert programs.is_dir()
    assert cli(name, "x").exit_code == ExitCode.USAGE


def test_what_cannot_be_executed_is_an_error(cli: Cli, programs: Path) -> None:
    write(programs / "lakecli-text", "just text")
    before = signal.getsignal(signal.SIGPIPE)
    failed = cli("text")
    assert signal.getsignal(signal.SIGPIPE) == before
    assert failed.exit_code == ExitCode.REFUSED
    assert "cannot run the plugin" in failed.stderr
    write(programs / "lakecli-data", SCRIPT, mode=0o644)
    assert cli("data").exit_code == ExitCode.USAGE


def test_plugins_are_listed(cli: Cli, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    second = programs.with_name("second")
    second.mkdir()
    write(second / "lakecli-hello", SCRIPT)
    write(second / "lakecli-a", SCRIPT)
    write(second / "lakecli-data", SCRIPT, mode=0o644)
    (second / "lakecli-directory").mkdir()
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{second}{os.pathsep}/nowhere")
    assert cli.ok("plugin", "list").stdout == "Available plugins:\n  a\n  hello\n"
    assert cli.ok("plugin", "list", "--json").json_lines == [
        {"name": "a", "path": f"{second}/lakecli-a"},
        {"name": "hello", "path": f"{programs}/lakecli-hello"},
    ]
    monkeypatch.setenv("PATH", "/nowhere")
    none = cli.ok("plugin", "list")
    assert (none.stdout, none.stderr) == ("", "No lakecli plugins found in your PATH.\n")
