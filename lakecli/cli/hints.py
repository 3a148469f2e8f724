"""Turn the hints of the library into commands and options.

The library knows verbs and their parameters, but no command lines, and its lower layers do not know
which repository they serve. So a hint has a verb with its arguments in backquotes, such as
```fsck REPOSITORY --data```, or a parameter with its value, such as ```remote=True```. Only this
module turns them into commands and options that users can paste.
"""

import re
from typing import Final

from lakecli.base.uri import SCHEME
from lakecli.cli.tree import COMMANDS, PROGRAM

_CALL: Final = re.compile(r"""(?<![^\s(])`([a-z-]+)( (?:'[^']*'|"[^"]*"|[^`'"])*)?`""")
_VERBS: Final = {"help", *(words.split()[0] for words in COMMANDS)}

_PARAMETER: Final = re.compile(r"(?<![^\s(])`([a-z_]+)=([^`]+)`")
_OPTIONS: Final = {
    "copies=True": "--copy",
    "lease=PushLease()": "--force-with-lease",
    "links=follow": "--follow",
    "links=skip": "--skip",
    "listed=LIST.append": "--dry-run",
    "may_be_empty=True": "--allow-empty",
    "must_exist=False": "without --must-exist",
    "pins=False": "--no-pin-versions",
    "pins=True": "--pin-versions",
    "policy=force": "--force",
}
"""The options of parameters whose names differ; other options are named like their parameters."""


def as_commands(hint: str, repository: str | None, command: str = "") -> str:
    """Return a hint with verbs replaced by commands, and parameters by options.

    Args:
        hint: a hint of the library; other text in backquotes stays unchanged.
        repository: the URI to insert for ``REPOSITORY``; ``None`` unless exactly one is open.
        command: the words of the failed command, on which the name of an option may depend.
    """
    named = repository or f"{SCHEME}REPOSITORY"

    def call_of(call: re.Match[str]) -> str:
        if call[1] not in _VERBS:
            return call[0]
        arguments = re.sub(r"(?<!\S)REPOSITORY\b", lambda _: named, call[2] or "")
        return f"{PROGRAM} {call[1]}{arguments}"

    def option_of(parameter: re.Match[str]) -> str:
        name, value = parameter.groups()
        if name == "allow_empty" and command not in {"merge", "publish"}:
            return "--allow-empty-commit"
        option = f"--{name.replace('_', '-')}" + (f" {value}" if value != "True" else "")
        return _OPTIONS.get(f"{name}={value}", option)

    return _PARAMETER.sub(option_of, _CALL.sub(call_of, hint))
