"""Every command has a row, a file, help, an example and a golden output."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from lakecli.cli import commands
from lakecli.cli.line.argv import GLOBAL_OPTIONS, Globals, normalise, split
from lakecli.cli.line.build import build
from lakecli.cli.line.declare import Declaration
from lakecli.cli.manual.describe import CommandHelp, describe_all
from lakecli.cli.manual.help import command_help
from lakecli.cli.tree import COMMANDS, GROUPS, is_prefix
from lakecli.settings.keys import BY_NAME

DIRECTORY = Path(__file__).parents[3] / "lakecli" / "cli" / "commands"
TESTS = Path(__file__).parents[1]
GOLDEN = TESTS / "golden"
ALL = {command.words: command for command in describe_all()}

every_command = pytest.mark.parametrize("command", ALL.values(), ids=ALL)


def test_the_table_is_in_order() -> None:
    assert list(COMMANDS) == sorted(COMMANDS)
    assert list(GROUPS) == sorted(GROUPS)


def test_every_module_has_a_command_or_is_in_the_map() -> None:
    files = {path.stem for path in DIRECTORY.glob("*.py")} - {"__init__"}
    modules = {command.module for command in COMMANDS.values()}
    shared = set(re.findall(r"^    (\w+)  +\S", commands.__doc__ or "", re.MULTILINE))
    assert files == modules | shared
    assert modules.isdisjoint(shared)


def test_every_group_is_used_and_explained() -> None:
    assert {words.split()[0] for words in COMMANDS if " " in words} == set(GROUPS)
    for summary in GROUPS.values():
        assert summary[0].isupper()
        assert not summary.endswith(".")


@every_command
def test_every_command_has_help(command: CommandHelp) -> None:
    assert command.summary
    assert command.summary[0].isupper()
    assert len(command.summary) <= 90
    assert all(len(line) <= 100 for line in command_help(command))
    for argument in command.arguments:
        assert argument.summary, argument
        assert argument.metavar.isupper()
    for option in command.options:
        assert option.summary, option
        assert option.summary[0].isupper() or option.summary.startswith("lakefs://")
        assert not option.summary.endswith(".")


@every_command
def test_no_option_hides_a_global_one(command: CommandHelp) -> None:
    shared = {flag for option in GLOBAL_OPTIONS for flag in option.flags}
    own = [flag for option in command.options for flag in option.flags]
    assert shared.isdisjoint(own)
    assert len(own) == len(set(own))


@every_command
def test_every_example_can_be_typed(command: CommandHelp) -> None:
    """An example names the command, and its options and arguments are as Typer reads them."""
    lines = [line for line in command.examples if f"lakecli {command.words}" in line]
    assert lines, "no example"
    for line in lines:
        words = shlex.split(line, comments=True)
        assert words, line
        if "$(" in line or "|" in words or words[0] != "lakecli":
            continue
        given = Globals()
        end = next((i for i, word in enumerate(words) if word in (">", "&&", ";")), len(words))
        found, rest = split(words[1:end], given, is_prefix=is_prefix)
        assert " ".join(found) == command.words, line
        declared = Declaration(COMMANDS[command.words].load())
        arguments = normalise(rest, given, declared.options, ends_at_word=declared.runs_a_command)
        build(declared, command.words).typer.make_context("lakecli", arguments)
        assert given.problem is None


@every_command
def test_descriptions_match_what_typer_reads(command: CommandHelp) -> None:
    declared = Declaration(COMMANDS[command.words].load())
    shown: list[Any] = [
        each
        for each in build(declared, command.words).typer.params
        if not getattr(each, "hidden", False)
    ]
    arguments = [each for each in shown if each.param_type_name == "argument"]
    assert [
        (each.metavar, each.help, each.required, each.nargs == -1, _choices(each))
        for each in arguments
    ] == [
        (each.metavar, each.summary, each.required, each.repeatable, each.choices)
        for each in command.arguments
    ]
    options = [each for each in shown if each.param_type_name == "option"]
    assert [
        (set(each.opts), each.help, each.required, each.multiple, _choices(each), each.is_flag)
        for each in options
    ] == [
        (
            set(each.flags),
            each.summary,
            each.required,
            each.repeatable,
            each.choices,
            not each.metavar,
        )
        for each in command.options
    ]


def _choices(parameter: Any) -> tuple[str, ...]:
    return tuple(getattr(parameter.type, "choices", ()))


def test_every_golden_file_is_used() -> None:
    tests = "".join(path.read_text() for path in TESTS.rglob("test_*.py"))
    assert [path.stem for path in GOLDEN.glob("*.txt") if f'"{path.stem}"' not in tests] == []


def test_defaults_of_settings_are_told_with_their_values() -> None:
    told = {
        match
        for command in ALL.values()
        for option in command.options
        for match in re.findall(r"default: (\S+) \(([a-z.]+)\)", option.summary)
    }
    assert {name for _, name in told} == {"gc.grace", "presign.expires", "transfer.parallelism"}
    for value, name in told:
        assert BY_NAME[name].default == value
