"""Every command there is: the one table, and how a command is found, loaded and built.

A command ``branch list`` is the function ``branch_list`` in ``commands/branch_list.py``. Only the
command that the command line names is imported and built; help, man pages and completion scripts
build all.
"""

from __future__ import annotations

from importlib import import_module
from keyword import iskeyword
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAM: Final = "lakecli"


class Command(NamedTuple):
    """One row of the table.

    Attributes:
        words: what is typed: ``branch list``.
        hidden: left out of help, man pages and completions.
    """

    words: str
    hidden: bool = False

    @property
    def name(self) -> str:
        """The name of its module and of its function; a keyword gets an underscore."""
        name = self.words.replace(" ", "_").replace("-", "_")
        return f"{name}_" if iskeyword(name) else name

    def load(self) -> Callable[..., int | None]:
        """Import the command and return its function."""
        module = import_module(f"lakecli.cli.commands.{self.name}")
        function: Callable[..., int | None] = getattr(module, self.name)
        return function


COMMANDS: Final = {
    command.words: command
    for command in (
        Command("branch create"),
        Command("branch delete"),
        Command("branch list"),
        Command("branch reset"),
        Command("branch revert"),
        Command("branch show"),
        Command("cherry-pick"),
        Command("clone"),
        Command("commit"),
        Command("completion"),
        Command("config get"),
        Command("config list"),
        Command("config set"),
        Command("config unset"),
        Command("diff"),
        Command("doctor"),
        Command("export"),
        Command("fetch"),
        Command("find-merge-base"),
        Command("fs cat"),
        Command("fs cp"),
        Command("fs download"),
        Command("fs ls"),
        Command("fs mv"),
        Command("fs presign"),
        Command("fs rm"),
        Command("fs stage"),
        Command("fs stat"),
        Command("fs upload"),
        Command("fsck"),
        Command("gc delete-config"),
        Command("gc get-config"),
        Command("gc run"),
        Command("gc set-config"),
        Command("gc status"),
        Command("gc undo"),
        Command("import"),
        Command("log"),
        Command("merge"),
        Command("op log"),
        Command("op redo"),
        Command("op restore"),
        Command("op show"),
        Command("op undo"),
        Command("pull"),
        Command("push"),
        Command("quickstart"),
        Command("redo"),
        Command("reflog"),
        Command("repo create"),
        Command("repo delete"),
        Command("repo list"),
        Command("rev-parse"),
        Command("show commit"),
        Command("status"),
        Command("tag create"),
        Command("tag delete"),
        Command("tag list"),
        Command("tag show"),
        Command("undo"),
        Command("version"),
    )
}
"""Every command by its words, in alphabetical order."""

GROUPS: Final = {
    "branch": "Create, list, move and delete branches",
    "config": "Read and change settings",
    "fs": "Read and write objects",
    "gc": "Find garbage, and delete it a grace period later",
    "op": "See what was done, and take it back",
    "repo": "Create, list and delete repositories",
    "show": "Show a commit",
    "tag": "Create, list and delete tags",
}
"""What the commands that share a first word do."""

_BEGINNINGS: Final = {
    tuple(words.split()[:count]) for words in COMMANDS for count in range(1, 1 + len(words.split()))
}


def is_prefix(words: tuple[str, ...]) -> bool:
    """Whether `words` are a command, or the beginning of one."""
    return words in _BEGINNINGS


def find_command(words: tuple[str, ...], next_word: str | None) -> Command:
    """Return the command of these words.

    Args:
        words: as far as they begin a command.
        next_word: what was typed after them, for the error.

    Raises:
        UsageError: they are no whole command; the hint names what comes near.
    """
    command = COMMANDS.get(" ".join(words))
    if command is not None:
        return command
    asked = " ".join((*words, next_word or ""))
    helps = " ".join((PROGRAM, *words, "--help"))
    if next_word is None or next_word.startswith("-"):
        if next_word is not None and not words:
            raise UsageError(f"unknown option {next_word} before a command", hint=helps)
        raise UsageError(f"{' '.join((PROGRAM, *words))} needs a command", hint=helps)
    raise UsageError(f"unknown command {asked!r}", hint=_suggest(words, asked) or helps)


def _suggest(words: tuple[str, ...], asked: str) -> str | None:
    from difflib import get_close_matches

    names = [name for name, command in COMMANDS.items() if not command.hidden]
    if words:
        candidates = [name for name in names if name.startswith(" ".join(words) + " ")]
    else:
        candidates = list(dict.fromkeys(name.split()[0] for name in names))
    # `lakecli list` and `lakecli delete` belong to a group that was left out.
    near = (
        get_close_matches(asked, candidates, n=3)
        or [name for name in names if name.split()[-1] == asked][:3]
    )
    return f"did you mean {' or '.join(f'{PROGRAM} {name}' for name in near)}?" if near else None
