"""The table of all commands, and functions that find and load a command.

The command ``branch list`` is the function ``branch_list`` in the module of its group,
``commands/branch.py``. A command of `fs` or without a group has its own module, such as
``commands/fs_ls.py`` and ``commands/commit.py``, unless `_TOGETHER` names another module.

Typer would import all commands to find a single command, which takes longer than most commands run.
This module imports only the command that is called. Help of groups, man pages and completion
scripts import all commands.
"""

import shlex
from collections.abc import Callable, Sequence
from importlib import import_module
from keyword import iskeyword
from typing import Final, NamedTuple, NoReturn

from lakecli.base.uri import SCHEME
from lakecli.errors import UsageError

PROGRAM: Final = "lakecli"


_WORDS: Final = {
    "": "annotate@ approve blame@ cat-sst= check-ignore= checkout cherry-pick clone commit "
    "completion= diff@ doctor export fetch find-merge-base@ fsck= import log@ merge publish pull "
    "push quickstart redo reflog@ refs-dump refs-restore restore rev-parse@ run serve status= undo "
    "use version=",
    "bisect": "bad good log= new old reset run skip start view=",
    "branch": "create delete list@ rename reset revert show@",
    "branch-protect": "add delete list=",
    "check": "list= run",
    "config": "get= list= set unset",
    "fs": "cat@ cp download@ du@ find@ ls@ mv presign@ rm stage stat@ update-metadata upload",
    "gc": "delete-config get-config= run set-config status= undo",
    "local": "checkout clone commit diff= init list= pull status=",
    "op": "compact= log= redo restore show= undo",
    "plugin": "list=",
    "policy": "edit log= set show=",
    "repo": "create delete list=",
    "run": "abort list= resume show=",
    "show": "commit@",
    "tag": "create delete list@ show@",
}
"""The commands of each group; those without a group are under ``""``.

``=`` marks commands that never change a repository. ``@`` marks such commands that also accept
NAMESPACE@REF/PATH, and then read without a clone.
"""

GROUPS: Final = tuple(filter(None, _WORDS))
"""The first words that several commands share."""

_MARKS: Final = "=@"

_TOGETHER: Final = {
    "annotate": "blame",
    "check": "approve",
    "checkout": "check-ignore, restore",
    "config": "use",
    "fs_cp": "fs mv",
    "fs_ls": "fs du, fs find",
    "fs_stage": "fs update-metadata",
    "lakefs": "cat-sst, refs-dump, refs-restore",
    "merge": "cherry-pick, find-merge-base",
    "op": "redo, undo",
    "policy": "branch-protect add, branch-protect delete, branch-protect list",
    "program": "completion, version",
    "pull": "fetch",
}
"""The commands that share a module with related commands, by the name of the module."""

PAGED: Final = frozenset(
    {
        *("annotate", "blame", "branch list", "diff", "fs find", "fs ls", "log", "op log"),
        *("reflog", "show commit", "tag list"),
    }
)
"""The commands whose answer is shown in a pager on a terminal."""

IN_PLACE: Final = "@"
"""In completion, the suffix of a word's kind if the command also accepts NAMESPACE@REF/PATH."""


class Command(NamedTuple):
    """A command, identified by its words, such as ``branch list``."""

    words: str

    @property
    def name(self) -> str:
        """The name of the command's function; a Python keyword gets a trailing underscore."""
        name = self.words.replace(" ", "_").replace("-", "_")
        return f"{name}_" if iskeyword(name) else name

    @property
    def module(self) -> str:
        """The name of the command's module in `lakecli.cli.commands`."""
        for module, commands in _TOGETHER.items():
            if self.words in commands.split(", "):
                return module
        group, _, rest = self.words.partition(" ")
        return group if rest and group != "fs" else self.name

    def load(self) -> Callable[..., int | None]:
        """Import the command and return its function."""
        module = import_module(f"lakecli.cli.commands.{self.module}")
        function: Callable[..., int | None] = getattr(module, self.name)
        return function


_MARKED: Final = [
    f"{group} {name}".strip() for group, names in _WORDS.items() for name in names.split()
]

READS: Final = frozenset(each.rstrip(_MARKS) for each in _MARKED if each[-1] in _MARKS)
"""The commands that never change a repository."""

READ_IN_PLACE: Final = frozenset(each[:-1] for each in _MARKED if each.endswith("@"))
"""The commands that also accept NAMESPACE@REF/PATH, and then read without a clone."""

COMMANDS: Final = {
    words: Command(words) for words in sorted(each.rstrip(_MARKS) for each in _MARKED)
}
"""All commands by their words, in alphabetical order."""

_LISTED: Final = ("branch", "repo", "tag")
"""Groups whose name alone, such as ``lakecli branch``, runs the command ``list`` of the group."""

_BEGINNINGS: Final = {
    tuple(words.split()[:count]) for words in COMMANDS for count in range(1, 1 + len(words.split()))
}


def is_prefix(words: tuple[str, ...]) -> bool:
    """Return whether `words` are a command or the beginning of a command."""
    return words in _BEGINNINGS


def instead(words: tuple[str, ...], rest: Sequence[str]) -> tuple[str, ...]:
    """Return the words of the command to run for a line: `words`, or a likely correction of them.

    A line is corrected only if its meaning is clear and the other command is harmless: ``lakecli
    branch`` lists branches, and ``fs cp`` of a local file uploads the file.

    Args:
        words: the words of a command or a group.
        rest: the line after `words`.
    """
    if len(words) == 1 and words[0] in _LISTED:
        is_whole = not rest or (len(rest) == 1 and _names_repository(rest[0]))
        return (*words, "list") if is_whole else words
    if words == ("fs", "cp"):
        named = [word for word in rest if not word.startswith("-")]
        if len(named) == 2:  # noqa: PLR2004 - source and destination
            source, destination = named
            if destination.startswith(SCHEME) and _is_file(source):
                return ("fs", "upload")
            if source.startswith(SCHEME) and destination.startswith((".", "/", "~")):
                return ("fs", "download")
    return words


def _is_file(word: str) -> bool:
    from pathlib import Path

    return "://" not in word and Path(word).exists()


def _names_repository(word: str) -> bool:
    return word.startswith(SCHEME) and "/" not in word.removeprefix(SCHEME).rstrip("/")


def refuse_command(words: tuple[str, ...], *rest: str, topics: Sequence[str] = ()) -> NoReturn:
    """Refuse a line whose command is missing or unknown.

    Args:
        words: the first words of the line, as far as they are the beginning of a command.
        rest: the words after `words`, for the error.
        topics: the topics of help, which the hint may suggest.

    Raises:
        UsageError: always; the hint names similar commands.
    """
    next_word = next(iter(rest), None)
    helps = " ".join((PROGRAM, *words, "--help"))
    if next_word is None or next_word.startswith("-"):
        if next_word is not None and not words:
            raise UsageError(f"unknown option {next_word} before a command", hint=helps)
        raise UsageError(f"{' '.join((PROGRAM, *words))} needs a command", hint=_choices(words))
    hint = _suggest(words, rest, topics) or (_choices(words) if words else helps)
    raise UsageError(f"unknown command {' '.join((*words, next_word))!r}", hint=hint)


def _choices(words: tuple[str, ...]) -> str:
    """Return a hint with the commands of a group; without a group, with ``lakecli --help``."""
    if not words:
        return f"{PROGRAM} --help"
    names = [name.rstrip(_MARKS) for name in _WORDS[words[0]].split()]
    return f"{PROGRAM} {' '.join(words)} {'|'.join(names)}"


_ALIKE: Final = 0.7
"""The minimum similarity between a typo and a command (0 to 1): ``serve`` is not ``merge``."""


def _suggest(words: tuple[str, ...], rest: Sequence[str], topics: Sequence[str]) -> str | None:
    """Return a hint with the commands that a line may mean.

    If this is a single command, the hint also contains the rest of the line.
    """
    asked, *after = rest
    if words:
        candidates = {name.split()[1]: name for name in COMMANDS if name.split()[0] == words[0]}
    else:
        candidates = {name.split()[0]: name.split()[0] for name in COMMANDS}
        candidates = {name: f"help {name}" for name in topics} | candidates
    # `lakecli unset` and `lakecli delete` lack their group.
    whole = [name for name in COMMANDS if name.split()[-1] == asked][:3]
    begun = [each for each in candidates if asked and each.startswith(asked)]
    begun += [each for each in candidates if asked != each and asked.startswith(each)]
    from difflib import get_close_matches

    near = begun[:3] or get_close_matches(asked, candidates, n=3, cutoff=_ALIKE)
    names = (whole if not words else []) or [candidates[each] for each in near]
    if len(names) == 1:
        return f"did you mean {shlex.join((PROGRAM, *names[0].split(), *after))}?"
    return f"did you mean {' or '.join(f'{PROGRAM} {name}' for name in names)}?" if names else None
