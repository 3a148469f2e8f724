"""Hints of the library, as commands.

The library knows verbs, not command lines, and its lower layers do not know which repository they
serve. So a hint names a verb with its arguments between backquotes, such as ```fsck REPOSITORY
--data```. Here, and nowhere else, that becomes a command which can be pasted.
"""

from __future__ import annotations

import re
from typing import Final

from lakecli.base.uri import SCHEME
from lakecli.cli.tree import COMMANDS, PROGRAM

_CALL: Final = re.compile(r"""(?<![^\s(])`([a-z-]+)( (?:'[^']*'|"[^"]*"|[^`'"])*)?`""")
_VERBS: Final = {"help", *(words.split()[0] for words in COMMANDS)}


def as_commands(hint: str, repository: str | None) -> str:
    """Return a hint whose calls of verbs are commands; a call stands at the beginning of a word.

    Args:
        hint: from the library; other backquotes stay.
        repository: the URI that stands for ``REPOSITORY``; ``None`` if no single one is open.
    """
    named = repository or f"{SCHEME}REPOSITORY"

    def command(call: re.Match[str]) -> str:
        if call[1] not in _VERBS:
            return call[0]
        arguments = re.sub(r"(?<!\S)REPOSITORY\b", lambda _: named, call[2] or "")
        return f"{PROGRAM} {call[1]}{arguments}"

    return _CALL.sub(command, hint)
