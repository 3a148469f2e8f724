"""The checks that ``--check`` names: settings ``checks.NAME`` of this machine, or commands."""

import re
from collections.abc import Sequence

from lakecli.base.validation import CHECK_NAME
from lakecli.cli.context import Context
from lakecli.cli.programs import outcome_of, run_program
from lakecli.errors import CheckFailed, NotFound
from lakecli.repository.check import CheckedCommit, TreeCheck
from lakecli.settings.keys import OF_CHECKS, parse_command


def checks_of(context: Context, texts: Sequence[str]) -> list[TreeCheck]:
    """Return a check for each text: the NAME of a setting ``checks.NAME``, or a command.

    Raises:
        UsageError: a text is neither a name nor a valid command.
    """
    return [
        _program(context, text, named)
        if (named := _setting(context, text)) is not None
        else _program(context, "", parse_command(text))
        for text in texts
    ]


def check_named(context: Context, name: str) -> TreeCheck:
    """Return the check that the setting ``checks.NAME`` defines.

    Raises:
        NotFound: there is no such setting.
    """
    words = _setting(context, name)
    if words is None:
        raise NotFound(
            f"no check {name!r} on this machine",
            hint=f"say what it runs: `config set {OF_CHECKS}NAME COMMAND`",
        )
    return _program(context, name, words)


def _setting(context: Context, name: str) -> tuple[str, ...] | None:
    return context.settings.check(name) if re.fullmatch(CHECK_NAME, name) else None


def _program(context: Context, name: str, words: Sequence[str]) -> TreeCheck:
    def run(candidate: CheckedCommit) -> None:
        context.out.note(f"check {name or words[0]} on {candidate.uri}")
        context.out.flush()
        environ = {
            **context.environ,
            "LAKECLI_BASE_URI": f"{candidate.uri}/",
            "LAKECLI_REF": candidate.uri,
            "LAKECLI_CHECK": name,
            "LAKECLI_DESTINATION": candidate.destination,
            "LAKECLI_PREFIX": candidate.prefix,
        }
        what = f"check {name or words[0]!r}"
        timeout = context.settings.timeout("check")
        if code := run_program(words, environ, CheckFailed, what, timeout=timeout):
            raise CheckFailed(f"{what} {outcome_of(code)}")

    return TreeCheck(run, name)
