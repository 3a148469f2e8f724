"""Every command has a row, a file, help, an example and a golden output."""

from __future__ import annotations

import re
import shlex
from datetime import timedelta
from importlib import import_module
from inspect import isfunction
from pathlib import Path
from typing import Any

import pytest

from lakecli.base.layout import LARGEST_PACK, SHORTEST_GRACE
from lakecli.cli import commands
from lakecli.cli.commands import fs_cat, quickstart
from lakecli.cli.line.argv import GLOBAL_OPTIONS, Globals, normalise, split
from lakecli.cli.line.build import build
from lakecli.cli.line.declare import Declaration
from lakecli.cli.manual.describe import CommandHelp, describe_all
from lakecli.cli.manual.help import GROUP_SUMMARIES, command_help
from lakecli.cli.tree import COMMANDS, GROUPS, is_prefix
from lakecli.doctor import conditions, probe
from lakecli.remote.gc_protocol import DEFAULT_GRACE, LEASE
from lakecli.remote.ref_records import MAX_MOVES
from lakecli.repository.handle import housekeeping
from lakecli.repository.lakefs import kept_dumps
from lakecli.settings.keys import BY_NAME
from lakecli.stores.capabilities import PART_SIZE
from lakecli.worktree.index import UNUSED_NS

PROJECT = Path(__file__).parents[3]
DIRECTORY = PROJECT / "lakecli" / "cli" / "commands"
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
    assert list(GROUP_SUMMARIES) == list(GROUPS)
    for summary in GROUP_SUMMARIES.values():
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
        build(declared, command.words).make_context("lakecli", arguments)
        assert given.problem is None


@every_command
def test_descriptions_match_what_typer_reads(command: CommandHelp) -> None:
    declared = Declaration(COMMANDS[command.words].load())
    shown: list[Any] = [
        each for each in build(declared, command.words).params if not getattr(each, "hidden", False)
    ]
    arguments = [each for each in shown if each.param_type_name == "argument"]
    assert [
        (each.metavar, each.required, each.nargs == -1, _choices(each)) for each in arguments
    ] == [
        (each.metavar, each.required, each.repeatable, each.choices) for each in command.arguments
    ]
    options = [each for each in shown if each.param_type_name == "option"]
    assert [
        (set(each.opts), each.required, each.multiple, _choices(each), each.is_flag)
        for each in options
    ] == [
        (set(each.flags), each.required, each.repeatable, each.choices, not each.metavar)
        for each in command.options
    ]
    assert all(each.summary for each in (*command.arguments, *command.options))


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


HOUR = timedelta(hours=1)
WEEKS = {timedelta(weeks=2): "two weeks"}
MINUTES = {timedelta(minutes=2): "two minutes"}
LEAST = f"{SHORTEST_GRACE // HOUR} hours"
KEPT = housekeeping.KEPT_FOR.days
DUMPS = kept_dumps.KEPT_FOR.days
LEASED = LEASE // timedelta(minutes=1)
UNUSED = UNUSED_NS // (24 * 3_600 * 10**9)

RACES = conditions.RACES
ALL_RACES = f"{probe.requests(RACES):,}"
FEW_RACES = f"{probe.requests(conditions.LOOK):,}"
SENT = 2 * RACES * conditions.WRITERS * conditions.BODY_SIZE
assert 16 << 20 < SENT < 17 << 20

NUMBERS = [
    ("README.md", f"large files in parts of {PART_SIZE >> 20} MiB"),
    ("README.md", f"one PUT for each {LARGEST_PACK >> 20} MiB of commits"),
    (
        "README.md",
        f"tests the store's guarantees with up to {ALL_RACES} (17 MiB, a minute at most)",
    ),
    ("README.md", f"{WEEKS.get(DEFAULT_GRACE)} apart (`gc.grace`, never below {LEAST})"),
    (".github/ARCHITECTURE.md", f"a ref with its last {MAX_MOVES} moves"),
    (".github/ARCHITECTURE.md", f"a refs dump, written or restored, that is kept for {DUMPS} days"),
    (".github/ARCHITECTURE.md", f"the right to delete, for {LEASED} minutes"),
    ("doctor", f"{RACES} create-only races and {RACES} compare-and-set races"),
    (
        "lakecli/cli/manual/topics/clouds.md",
        f"{RACES} create-only and {RACES} compare-and-set races",
    ),
    ("doctor", f"at most {ALL_RACES} requests with 17 MiB ({FEW_RACES}"),
    ("doctor", f"and end after {MINUTES.get(probe.TIME_LIMIT)} or when the store stops"),
    ("doctor", f"later runs need only {conditions.LOOK} races of each kind"),
    ("fs cat", f"An object of up to {fs_cat.SMALL >> 20} MiB is verified before"),
    ("gc run", f"their positions in the last {KEPT} days"),
    ("gc undo", f"wait {LEASED} minutes after its last sign of life"),
    ("refs-dump", f"all that it refers to, for {DUMPS} days"),
    ("local list", f"An index that was not used for {UNUSED} days is deleted"),
    ("quickstart", f"{quickstart.MAX_FILES} files or {quickstart.MAX_SIZE >> 20} MiB of DIR"),
    ("repo delete", f"restores everything for {KEPT} days"),
    ("undo", f"the operations of the last {KEPT} days"),
]
"""What a page of the project or the help of a command says of a constant, made of that constant."""


@pytest.mark.parametrize(("page", "sentence"), NUMBERS)
def test_numbers_in_documents_are_those_of_the_code(page: str, sentence: str) -> None:
    path = PROJECT / page
    text = path.read_text("utf-8") if path.exists() else "\n".join(command_help(ALL[page]))
    assert sentence in " ".join(text.split())


def test_each_operation_is_in_the_module_that_the_page_on_python_names() -> None:
    page = (PROJECT / "lakecli/cli/manual/topics/python.md").read_text(encoding="utf-8")
    named = page.partition("with the command's name: ")[2].partition(".")[0]
    operations = [each.strip() for each in named.split(",")]
    assert {"cherry_pick", "mv", "revert"}.issubset(operations)
    for operation in operations:
        module = import_module(f"lakecli.repository.{operation}")
        functions = filter(isfunction, vars(module).values())
        assert any(each.__module__ == module.__name__ for each in functions), operation
