"""Lines that `plain` reads mean the same to Typer, and Typer is loaded for no other reason."""

from __future__ import annotations

import shlex
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.core import TyperCommand
from typer.exceptions import TyperException

from lakecli.cli.line.action import plain
from lakecli.cli.line.argv import Globals, normalise, split
from lakecli.cli.line.build import build
from lakecli.cli.line.declare import REQUIRED, Declaration, Option, Parameter
from lakecli.cli.manual.describe import describe_all
from lakecli.cli.tree import COMMANDS, is_prefix

TYPED: dict[Any, str] = {int: "7", str: "text", list[str]: "text"}
WORDS = (
    "",
    "-",
    "--",
    "a",
    "b=c",
    "-x",
    "0",
    "7",
    "-7",
    "007",
    "\u0667",
    "1_0",
    " 1",
    "--unknown",
    "é\n",
)


class Probe(NamedTuple):
    """A command whose function only notes what it is called with."""

    words: str
    declared: Declaration
    built: TyperCommand
    seen: list[dict[str, Any]]

    def by_typer(self, arguments: list[str]) -> dict[str, Any] | None:
        """Return the values that Typer reads, or ``None`` for its usage error."""
        try:
            with self.built.make_context("probe", list(arguments)) as ctx:
                self.built.invoke(ctx)
        except TyperException:
            return None
        return self.seen.pop()

    def by_plain(self, arguments: list[str]) -> dict[str, Any] | None:
        """Return the values that `plain` reads, or ``None`` where Typer has to."""
        values = plain(self.declared, arguments)
        if values is None:
            return None
        self.declared.call(None, values)
        return self.seen.pop()


def probe(words: str) -> Probe:
    seen: list[dict[str, Any]] = []

    def note(_context: object, **values: Any) -> None:
        defaults = {each.name: each.default for each in parameters.values()}
        seen.append(defaults | values)

    declared = Declaration(COMMANDS[words].load())
    parameters = {
        name: each._replace(read=each.read and (lambda text, _: text))
        for name, each in declared.parameters.items()
    }
    noted = Declaration(note)
    noted.parameters = parameters
    return Probe(words, noted, build(noted, words), seen)


PROBES = {words: probe(words) for words in COMMANDS}
every_command = pytest.mark.parametrize("probed", PROBES.values(), ids=PROBES.keys())


def text_for(parameter: Parameter) -> str:
    choices = list(getattr(parameter.type, "__members__", {}).values())
    if choices:
        return str(choices[-1].value)
    least = parameter.mark.min if isinstance(parameter.mark, Option) else None
    return TYPED.get(parameter.type, "text") if least is None else str(least + 7)


def spellings(parameter: Parameter) -> list[list[str]]:
    """Every way to type a parameter once."""
    mark = parameter.mark
    if not isinstance(mark, Option):
        return [[text_for(parameter)]]
    if not mark.takes_value:
        return [[flag] for flag in (*mark.flags, *filter(None, [mark.negative]))]
    if mark.bare is not None:
        return [[f"{flag}={text}"] for flag in mark.flags for text in (mark.bare, "x")]
    text = text_for(parameter)
    return [[flag, text] for flag in mark.flags] + [
        [f"{flag}={text}" if flag.startswith("--") else flag + text] for flag in mark.flags
    ]


def needed(probed: Probe) -> list[str]:
    """The shortest line of a command."""
    required = [each for each in probed.declared.parameters.values() if each.default is REQUIRED]
    return [word for each in required for word in spellings(each)[0]]


def normalised(probed: Probe, line: list[str]) -> list[str]:
    declared = probed.declared
    return normalise(line, Globals(), declared.options, ends_at_word=declared.runs_a_command)


@every_command
def test_each_option_in_each_spelling_is_read_without_typer(probed: Probe) -> None:
    lines = [needed(probed), [*needed(probed), "--"]]
    for parameter in probed.declared.parameters.values():
        if isinstance(parameter.mark, Option) or parameter.default is not REQUIRED:
            for spelling in spellings(parameter):
                lines += [needed(probed) + spelling, spelling + needed(probed)]
    for line in lines:
        arguments = normalised(probed, line)
        read = probed.by_plain(arguments)
        assert read is not None, line
        assert read == probed.by_typer(arguments), line


@every_command
def test_typer_knows_the_same_options(probed: Probe) -> None:
    of_typer = [
        (tuple(option.opts), "".join(option.secondary_opts), not option.is_flag)  # type: ignore[attr-defined]
        for option in probed.built.params
        if option.param_type_name == "option"
    ]
    ours = probed.declared.options
    assert [(each.flags, each.negative, each.takes_value) for each in ours] == of_typer


@given(data=st.data())
def test_what_is_read_without_typer_is_what_typer_reads(data: st.DataObject) -> None:
    probed = data.draw(st.sampled_from(list(PROBES.values())))
    parameters = list(probed.declared.parameters.values())
    known = [st.sampled_from(spellings(each)) for each in parameters]
    flags = ["-x", *(flag for each in probed.declared.options for flag in each.flags)]
    words = st.sampled_from(WORDS) | st.text("-=ab1", max_size=4)
    odd = st.builds(
        lambda flag, glue, word: [flag + glue + word], st.sampled_from(flags), words, words
    )
    line = data.draw(st.lists(st.one_of(*known, words.map(lambda word: [word]), odd), max_size=8))
    flat = [word for part in line for word in part]
    for arguments in (flat, normalised(probed, [*needed(probed), *flat])):
        read = probed.by_plain(arguments)
        if read is not None:
            assert read == probed.by_typer(arguments), arguments


def test_examples_are_read_without_typer() -> None:
    for command in describe_all():
        for line in command.examples:
            words = shlex.split(line, comments=True)
            if "$(" in line or {"|", ">", "&&", ";"} & set(words) or words[:1] != ["lakecli"]:
                continue
            found, rest = split(words[1:], Globals(), is_prefix=is_prefix)
            probed = PROBES[" ".join(found)]
            assert probed.by_plain(normalised(probed, rest)) is not None, line
