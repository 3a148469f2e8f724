"""The table of all commands, and how a command is found and loaded.

The command ``branch list`` is the function ``branch_list`` in the module of its group,
``commands/branch.py``. Commands of `fs` and those without a group have a module of their own, such
as ``commands/fs_ls.py`` and ``commands/commit.py``, unless `_TOGETHER` names another one.

Typer would need all commands imported to find one of them, which takes longer than most commands
run. Here only the command that is named is imported and built. Help of groups, man pages and
completion scripts build all.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib import import_module
from keyword import iskeyword
from typing import Final

from lakecli.base.uri import SCHEME
from lakecli.errors import UsageError

PROGRAM: Final = "lakecli"


GROUPS: Final = {
    "bisect": "Search history for the commit that introduced a problem",
    "branch": "Create, list, move and delete branches",
    "check": "Check trees, and list what was checked and approved",
    "config": "Read and change settings; alone on a terminal, ask for them",
    "fs": "Read and write objects",
    "gc": "Find garbage, and delete it after a grace period",
    "local": "Work in a directory linked with a path of a ref",
    "op": "Show the operation log, undo and redo",
    "plugin": "List plugins: programs that add commands",
    "repo": "Create, list and delete repositories",
    "run": "Run a job on a branch of its own, check and publish its result",
    "show": "Show a commit",
    "tag": "Create, list and delete tags",
}
"""The first words that several commands share, with what these do."""

_WORDS: Final = {
    "": "annotate@ approve blame@ cat-sst= check-ignore= checkout cherry-pick clone commit "
    "completion= diff@ doctor export fetch find-merge-base@ fsck= import log@ merge publish pull "
    "push quickstart redo reflog@ refs-dump refs-restore restore rev-parse@ run status= undo use "
    "version=",
    "bisect": "bad good log= new old reset run skip start view=",
    "branch": "create delete list@ rename reset revert show@",
    "check": "list= run",
    "config": "get= list= set unset",
    "fs": "cat@ cp download@ du@ find@ ls@ mv presign@ rm stage stat@ update-metadata upload",
    "gc": "delete-config get-config= run set-config status= undo",
    "local": "checkout clone commit diff= init list= pull status=",
    "op": "compact= log= redo restore show= undo",
    "plugin": "list=",
    "repo": "create delete list=",
    "run": "abort list= resume show=",
    "show": "commit@",
    "tag": "create delete list@ show@",
}
"""The commands of each group, and those without a group.

``=`` marks those that leave repositories as they are; ``@`` marks those that also read in place:
they take NAMESPACE@REF/PATH, too, and need no clone.
"""

_MARKS: Final = "=@"

_TOGETHER: Final = {
    "approve": "check",
    "blame": "annotate",
    "cat-sst": "lakefs",
    "check-ignore": "checkout",
    "cherry-pick": "merge",
    "completion": "program",
    "fetch": "pull",
    "find-merge-base": "merge",
    "fs du": "fs_ls",
    "fs find": "fs_ls",
    "fs mv": "fs_cp",
    "fs update-metadata": "fs_stage",
    "redo": "op",
    "refs-dump": "lakefs",
    "refs-restore": "lakefs",
    "restore": "checkout",
    "show commit": "rev_parse",
    "undo": "op",
    "use": "config",
    "version": "program",
}
"""The commands that stand in the module of others, since both are about the same thing."""

FIRST_COMMANDS: Final = {
    "Start a repository": ("quickstart", "doctor", "repo create", "import", "clone", "use"),
    "Work on a branch": (
        "branch create",
        "fs upload",
        "fs ls",
        "status",
        "diff",
        "commit",
        "merge",
        "log",
    ),
    "Work in a directory": ("local clone", "checkout", "restore"),
    "Share it": ("push", "pull", "fs presign"),
    "Take it back": ("undo", "branch revert"),
}
"""What most people need first, for the help of the whole program."""

PAGED: Final = frozenset(
    {
        *("annotate", "blame", "branch list", "diff", "fs find", "fs ls", "log", "op log"),
        *("reflog", "show commit", "tag list"),
    }
)
"""Commands whose answer goes through a pager on a terminal."""

IN_PLACE: Final = "@"
"""In completion, the end of the kind of a word of one of these commands."""


class Command:
    """A command by its words, such as ``branch list``."""

    def __init__(self, words: str) -> None:
        self.words = words

    @property
    def name(self) -> str:
        """The name of its function; a keyword gets an underscore."""
        name = self.words.replace(" ", "_").replace("-", "_")
        return f"{name}_" if iskeyword(name) else name

    @property
    def module(self) -> str:
        """The name of its module in `lakecli.cli.commands`."""
        if self.words in _TOGETHER:
            return _TOGETHER[self.words]
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
"""The commands that leave repositories as they are."""

READ_IN_PLACE: Final = frozenset(each[:-1] for each in _MARKED if each.endswith("@"))
"""Those of them that take NAMESPACE@REF/PATH, too, and need no clone."""

COMMANDS: Final = {
    words: Command(words) for words in sorted(each.rstrip(_MARKS) for each in _MARKED)
}
"""Every command by its words, in alphabetical order."""

_LISTED: Final = ("branch", "repo", "tag")
"""Groups that stand for their ``list``."""

_BEGINNINGS: Final = {
    tuple(words.split()[:count]) for words in COMMANDS for count in range(1, 1 + len(words.split()))
}


def is_prefix(words: tuple[str, ...]) -> bool:
    """Tell whether `words` are a command or the beginning of one."""
    return words in _BEGINNINGS


def instead(words: tuple[str, ...], rest: Sequence[str]) -> tuple[str, ...]:
    """Return the words of the command that a line means; as a rule they are its own.

    Where the meaning is clear and harmless, another command is run: ``lakecli branch`` lists
    branches, and ``fs cp`` of a file uploads it.

    Args:
        words: the words of a command or a group.
        rest: the line after them.
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


def find_command(words: tuple[str, ...], *rest: str, topics: Sequence[str] = ()) -> Command:
    """Return the command of these words.

    Args:
        words: the longest beginning of the command line that begins a command.
        rest: the words after them, for the error.
        topics: the topics of help, one of which may be meant.

    Raises:
        UsageError: the words are not a whole command; the hint names similar commands.
    """
    command = COMMANDS.get(" ".join(words))
    if command is not None:
        return command
    next_word = next(iter(rest), None)
    helps = " ".join((PROGRAM, *words, "--help"))
    if next_word is None or next_word.startswith("-"):
        if next_word is not None and not words:
            raise UsageError(f"unknown option {next_word} before a command", hint=helps)
        raise UsageError(f"{' '.join((PROGRAM, *words))} needs a command", hint=_choices(words))
    hint = _suggest(words, rest, topics) or (_choices(words) if words else helps)
    raise UsageError(f"unknown command {' '.join((*words, next_word))!r}", hint=hint)


def _choices(words: tuple[str, ...]) -> str:
    """Return the commands of a group, or how to see all."""
    if not words:
        return f"{PROGRAM} --help"
    names = [name.rstrip(_MARKS) for name in _WORDS[words[0]].split()]
    return f"{PROGRAM} {' '.join(words)} {'|'.join(names)}"


_ALIKE: Final = 0.7
"""How much a word must be like another one to be a slip of it; ``serve`` is no ``merge``."""


def _suggest(words: tuple[str, ...], rest: Sequence[str], topics: Sequence[str]) -> str | None:
    """Return the commands that a line may mean; a single one with the words that followed."""
    asked, *after = rest
    if words:
        candidates = {name.split()[1]: name for name in COMMANDS if name.split()[0] == words[0]}
    else:
        candidates = {name.split()[0]: name.split()[0] for name in COMMANDS}
        candidates = {name: f"help {name}" for name in topics} | candidates
    # `lakecli unset` and `lakecli delete` lack their group.
    whole = [name for name in COMMANDS if name.split()[-1] == asked][:3]
    begun = [each for each in candidates if asked and each.startswith(asked)]
    begun += [each for each in candidates if asked.startswith(each)]
    near = begun[:3] or get_close_matches(asked, candidates, n=3, cutoff=_ALIKE)
    names = (whole if not words else []) or [candidates[each] for each in near]
    if len(names) == 1:
        return f"did you mean {shlex.join((PROGRAM, *names[0].split(), *after))}?"
    return f"did you mean {' or '.join(f'{PROGRAM} {name}' for name in names)}?" if names else None
