"""Turns the hints of the library into commands.

The library knows verbs but not command lines, and its lower layers do not know the repository that
they work for. So a hint names a verb with its arguments between backquotes, such as ```fsck
REPOSITORY --data```. Only this module turns such a call into a command that can be pasted.
"""

from __future__ import annotations

import re
from typing import Final

from lakecli.base.uri import SCHEME
from lakecli.cli.tree import COMMANDS, PROGRAM

_CALL: Final = re.compile(r"""(?<![^\s(])`([a-z-]+)( (?:'[^']*'|"[^"]*"|[^`'"])*)?`""")
_VERBS: Final = {"help", *(words.split()[0] for words in COMMANDS)}


def as_commands(hint: str, repository: str | None) -> str:
    """Return a hint in which each call of a verb is replaced by a command.

    A call is text in backquotes that follows a space, a parenthesis or the start of the hint.

    Args:
        hint: a hint of the library; text in other backquotes stays as it is.
        repository: the URI that replaces ``REPOSITORY``; ``None`` unless exactly one repository is
            open.
    """
    named = repository or f"{SCHEME}REPOSITORY"

    def command(call: re.Match[str]) -> str:
        if call[1] not in _VERBS:
            return call[0]
        arguments = re.sub(r"(?<!\S)REPOSITORY\b", lambda _: named, call[2] or "")
        return f"{PROGRAM} {call[1]}{arguments}"

    return _CALL.sub(command, hint)
