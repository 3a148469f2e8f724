"""``lakecli config`` alone on a terminal: asks for the settings that matter first."""

from __future__ import annotations

from typing import Final

from lakecli.cli.context import Context
from lakecli.errors import Refused, UsageError
from lakecli.settings.file import set_value
from lakecli.settings.keys import SYNC, find_key
from lakecli.settings.settings import OriginKind, git_user

ASKED: Final = ("user.name", "user.email", SYNC, "cache.size")
"""The settings, in the order of the questions. None is secret: credentials are the clouds' own."""


def is_asked(context: Context) -> bool:
    """Tell whether there is somebody to ask."""
    return context.stdin.isatty() and context.out.stderr_terminal and not context.out.json


def configure(context: Context) -> int:
    """Ask for settings, and write those that were changed, all at the end.

    Raises:
        Refused: the answers ended before the last question; nothing is written.
    """
    context.out.note(f"Settings in {context.config_file}. Enter keeps the value in brackets.")
    known = git_user(context.environ)
    changed: dict[str, str] = {}
    for name in ASKED:
        present = context.settings.find(name).text or known.get(name, "")
        answer = _ask(context, name, present)
        if answer not in ("", present):
            changed[name] = answer
    for name, text in changed.items():
        set_value(context.config_file, name, text)
        context.out.say(f"{name} = {text}")
        stronger = context.settings.find(name)
        if stronger.origin in (OriginKind.FLAG, OriginKind.ENVIRONMENT):
            context.out.warn(f"{stronger.place} still overrides {name}")
    if not changed:
        context.out.note("nothing changed")
    context.out.note("all settings: lakecli config list; credentials: lakecli help clouds")
    return 0


def _ask(context: Context, name: str, present: str) -> str:
    """Return the answer to a question, ``""`` for the present value; ask again for a wrong one."""
    key = find_key(name)
    summary = key.summary.partition("; default")[0]
    while True:
        shown = f" [{present}]" if present else f" (such as {key.example})"
        context.out.ask(f"{name}, {summary}{shown}: ")
        line = context.stdin.readline()
        if not line:
            raise Refused(
                "no more answers: nothing was changed", hint="lakecli config set KEY VALUE"
            )
        answer = line.strip()
        if not answer:
            return ""
        try:
            key.parse(answer)
        except UsageError as error:
            context.out.warn(error.message)
            if error.hint:
                context.out.hint(error.hint)
            continue
        return answer
