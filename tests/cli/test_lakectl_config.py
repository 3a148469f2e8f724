"""``-c ~/.lakectl.yaml`` and ``LAKECTL_*``: what applies is used, the rest is explained."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.demo import Demo
    from tests.support.golden import Cli

YAML = "options:\n  parallelism: 7\nserver:\n  endpoint_url: http://127.0.0.1:8000\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / ".lakectl.yaml"
    path.write_text(YAML)
    return path


def value_of(cli: Cli, key: str, *argv: str | Path, env: dict[str, str] | None = None) -> str:
    result = cli(*argv, "config", "get", key, env=env)
    assert result.exit_code == 0, result
    return result.stdout.strip()


def test_the_file_is_used_where_it_applies(cli: Cli, file: Path) -> None:
    named = {"LAKECTL_CONFIG_FILE": str(file)}
    assert value_of(cli, "transfer.parallelism") == "25"
    assert value_of(cli, "transfer.parallelism", "-c", file) == "7"
    assert value_of(cli, "transfer.parallelism", env=named) == "7"
    cli.ok("config", "set", "transfer.parallelism", "9")
    cli.ok("config", "set", "user.name", "Ada")
    assert value_of(cli, "transfer.parallelism") == "9"
    assert value_of(cli, "transfer.parallelism", "-c", file) == "7"
    assert value_of(cli, "user.name", "-c", file) == "Ada"  # the own file counts, too
    own = {**named, "LAKECTL_OPTIONS_PARALLELISM": "5"}
    assert value_of(cli, "transfer.parallelism", env=own) == "5"
    own["LAKECLI_TRANSFER_PARALLELISM"] = "4"
    assert value_of(cli, "transfer.parallelism", env=own) == "4"
    assert file.read_text() == YAML


def test_origins_name_the_file_and_the_variable(cli: Cli, file: Path) -> None:
    listed = cli("config", "list", "--show-origin", "-c", file)
    assert f"transfer.parallelism\t7\t{file}\n" in listed.stdout
    listed = cli("config", "list", "--show-origin", env={"LAKECTL_BASE_URI": "lakefs://demo/"})
    assert "base_uri\tlakefs://demo/\tLAKECTL_BASE_URI\n" in listed.stdout


def test_the_base_uri_is_used(cli: Cli, demo: Demo) -> None:
    demo.commit("first", {"a": "1"})
    found = cli("fs", "ls", "main/", env={"LAKECTL_BASE_URI": "lakefs://demo/"})
    assert found.exit_code == 0
    assert found.lines[0].endswith("    a")


@pytest.mark.usefixtures("demo")
@pytest.mark.parametrize(
    ("variable", "terminal", "aligned"),
    [
        ("false", True, False),
        ("0", True, False),
        ("true", False, True),
        ("T", False, True),
        ("perhaps", True, True),
        ("perhaps", False, False),
    ],
)
def test_interactive_chooses_the_layout(
    cli: Cli, *, variable: str, terminal: bool, aligned: bool
) -> None:
    env = {"LAKECTL_INTERACTIVE": variable, "NO_COLOR": ""}
    shown = cli("branch", "list", "lakefs://demo", terminal=terminal, env=env)
    assert ("SUBJECT" in shown.stdout) is aligned
    plain = cli("branch", "list", "lakefs://demo", terminal=terminal, env={**env, "NO_COLOR": "1"})
    assert ("SUBJECT" in plain.stdout) is aligned
    assert "\033" not in plain.stdout


@pytest.mark.usefixtures("demo")
def test_what_is_ignored_is_explained_on_stderr(cli: Cli, file: Path) -> None:
    env = {"LAKECTL_CREDENTIALS_ACCESS_KEY_ID": "AKIA-SECRET"}
    said = (
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID is ignored: there is no server to log in to",
        f"server.endpoint_url in {file} is ignored: there is no server",
    )
    for line in (("doctor", "lakefs://demo"), ("config", "list"), ("version", "--verbose")):
        shown = cli(*line, "-c", file, env=env)
        assert shown.exit_code == 0
        for text in said:
            assert text in shown.stderr
        assert "is ignored:" not in shown.stdout
        assert "AKIA-SECRET" not in shown.stdout + shown.stderr
    assert cli("branch", "list", "lakefs://demo", "-c", file, env=env).stderr == ""


def test_a_malformed_file_is_a_usage_error(cli: Cli, file: Path) -> None:
    file.write_text("a: [")
    result = cli("config", "list", "-c", file)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "malformed configuration of lakectl" in result.stderr
    missing = cli("config", "list", "-c", file.with_name("none.yaml"))
    assert missing.exit_code == 6
    variable = {"LAKECTL_CONFIG_FILE": str(file.with_name("none.yaml"))}
    assert cli("config", "list", env=variable).exit_code == 0
