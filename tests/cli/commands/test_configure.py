"""``lakecli config`` alone: the questions on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakecli.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.support.golden import Cli


def test_answers_are_written_and_enter_keeps(cli: Cli, home: Path) -> None:
    result = cli("config", stdin="Ada Lovelace\nada@example.com\nauto\n\n", terminal=True)
    assert result.exit_code == ExitCode.OK, result
    assert result.lines == [
        "user.name = Ada Lovelace",
        "user.email = ada@example.com",
        "sync = auto",
    ]
    assert "sync, fetch before and push after every command: auto or manual [manual]" in (
        result.stderr
    )
    assert "cache.size, size limit of the local cache [10 GiB]: " in result.stderr
    assert cli.ok("config", "get", "sync").stdout == "auto\n"
    assert cli.ok("config", "get", "user.email").stdout == "ada@example.com\n"
    file = home / "lakecli" / "config.toml"
    written = file.read_text()
    again = cli("config", stdin="\n\n\n\n", terminal=True)
    assert "[Ada Lovelace]" in again.stderr
    assert "nothing changed" in again.stderr
    assert file.read_text() == written


def test_a_wrong_answer_is_explained_and_asked_for_again(cli: Cli) -> None:
    result = cli("config", stdin="\n\nsometimes\nmanual\n1 GB\n", terminal=True)
    assert "neither auto nor manual: 'sometimes'" in result.stderr
    assert result.stderr.count("sync, ") == 2
    assert result.lines == ["cache.size = 1 GB"]


def test_an_end_of_the_answers_changes_nothing(cli: Cli, home: Path) -> None:
    result = cli("config", stdin="Ada\n", terminal=True)
    assert result.exit_code == ExitCode.REFUSED
    assert not (home / "lakecli" / "config.toml").exists()


def test_a_variable_that_overrides_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKECLI_USER_NAME", "Grace")
    result = cli("config", stdin="Ada\n\n\n\n", terminal=True)
    assert "[Grace]" in result.stderr
    assert "LAKECLI_USER_NAME still overrides user.name" in result.stderr


def test_without_a_terminal_a_command_is_missing(cli: Cli) -> None:
    for line in (("config",), ("config", "--json")):
        result = cli(*line, stdin="Ada\n")
        assert result.exit_code == ExitCode.USAGE
        assert "lakecli config needs a command" in result.stderr
    assert cli("config", "--json", stdin="Ada\n", terminal=True).exit_code == ExitCode.USAGE
    assert "get" in cli.ok("config", "--help").stdout
