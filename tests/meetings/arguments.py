"""A command line for every command of the table, made from the parameters that it declares.

The kind of a parameter (a branch, a path, a file …) determines its value, so a new command takes
part without a line here. `SPECIAL` has the commands that would do nothing with those values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakecli.cli.line import Kind
from lakecli.cli.manual.describe import describe_all
from tests.meetings.world import LAKEFS, NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lakecli.cli.manual.describe import CommandHelp, ParameterHelp

REPOSITORY: Final = "lakefs://demo"
SIDE: Final = "lakefs://side"
"""Another repository on Ada's machine, with the bytes of garbage in its bucket."""

DUMPED: Final = "lakefs://dumped"
"""An empty repository on Ada's machine; its bucket has a dump of refs."""

OUTSIDE: Final = "memory://elsewhere/object"
"""An object outside the storage namespaces; its contents are its own name, where it exists."""

_VALUES: Final = {
    Kind.REPOSITORY: REPOSITORY,
    Kind.BRANCH: f"{REPOSITORY}/main",
    Kind.TAG: f"{REPOSITORY}/v1",
    Kind.REF: f"{REPOSITORY}/dev",
    Kind.REF_OR_FILE: f"{REPOSITORY}/main/t/1",
    Kind.REF_OR_OWN_FILE: f"{REPOSITORY}/dev",
    Kind.PATH: f"{REPOSITORY}/main/t/1",
    Kind.PATH_OR_FILE: f"{REPOSITORY}/main/t/1",
    Kind.FILE: "{files}/new",
    Kind.DIRECTORY: "{files}/directory",
    Kind.OPERATION: "{operation}",
    Kind.SETTING: "user.name",
}

_SECOND: Final = {Kind.PATH: f"{REPOSITORY}/main/t/2", Kind.REF: f"{REPOSITORY}/main"}
"""Values of a second argument of the same kind."""

_OPTIONS: Final = {
    "--message": "m",
    "--source": f"{REPOSITORY}/main",
    "--filename": "{files}/rules",
}

SPARK_WRITE: Final = ("spark-write", f"{REPOSITORY}/main/t/", "overwrite", "{files}/new")
"""A write of Spark, which `tests.meetings.spark_write` makes a command."""

BLOCK_WRITE: Final = ("block-write", f"{REPOSITORY}/main/t/", "{files}/new")
"""A block of `fs.committing`, which `tests.meetings.block_write` makes a command."""

SPECIAL: Final[dict[str, list[list[str]]]] = {
    "bisect run": [["bisect", "run", REPOSITORY, "true"]],
    "bisect start": [["bisect", "start", f"{REPOSITORY}/main", f"{REPOSITORY}/main~1"]],
    "branch create": [["branch", "create", f"{REPOSITORY}/fresh", "-s", f"{REPOSITORY}/main"]],
    "branch delete": [["branch", "delete", f"{REPOSITORY}/dev", "-y"]],
    "branch rename": [["branch", "rename", f"{REPOSITORY}/dev", "renamed"]],
    "branch reset": [
        ["branch", "reset", f"{REPOSITORY}/main", "-y"],
        [
            *("branch", "reset", f"{REPOSITORY}/main", "--to", f"{REPOSITORY}/v1~1"),
            *("--force-with-lease", "-y"),
        ],
    ],
    "branch revert": [["branch", "revert", f"{REPOSITORY}/main", f"{REPOSITORY}/main", "-y"]],
    "cherry-pick": [["cherry-pick", f"{REPOSITORY}/dev", f"{REPOSITORY}/main"]],
    "clone": [
        ["clone", NAMESPACE, "lakefs://again"],
        ["clone", "--from-lakefs", LAKEFS, "lakefs://taken", "--take-over"],
        ["clone", "--from-lakefs", LAKEFS, "lakefs://borrowed"],
    ],
    "commit": [
        ["commit", f"{REPOSITORY}/main", "--message", "m"],
        ["commit", f"{REPOSITORY}/main", "--path", "t/1", "--message", "part"],
    ],
    "completion": [["completion", "bash"]],
    "config set": [["config", "set", "user.name", "Eve"]],
    "doctor": [["doctor", REPOSITORY, "--again"]],
    "fs rm": [
        ["fs", "rm", f"{REPOSITORY}/main/t/1"],
        ["fs", "rm", "-r", f"{REPOSITORY}/main/t/"],
    ],
    "fs mv": [
        ["fs", "mv", f"{REPOSITORY}/main/t/1", f"{REPOSITORY}/main/moved"],
        ["fs", "mv", "-r", f"{REPOSITORY}/main/t/", f"{REPOSITORY}/main/u/"],
        ["fs", "mv", "-r", f"{SIDE}/main/u/", f"{REPOSITORY}/main/u/"],
    ],
    "fs cp": [
        ["fs", "cp", f"{REPOSITORY}/v1/t/1", f"{REPOSITORY}/main/t/1"],
        ["fs", "cp", "-r", f"{REPOSITORY}/dev/t/", f"{REPOSITORY}/main/t/"],
    ],
    "export": [["export", f"{REPOSITORY}/main/t/", "{files}/exported"]],
    "fs download": [["fs", "download", f"{REPOSITORY}/main/t/1", "{files}/downloaded"]],
    "fs stage": [
        [
            *("fs", "stage", f"{REPOSITORY}/main/t/1"),
            *("--location", OUTSIDE, "--size", "1", "--checksum", "{checksum}"),
        ]
    ],
    "fs upload": [
        ["fs", "upload", "{files}/new", f"{REPOSITORY}/main/t/1"],
        ["fs", "upload", "-r", "{files}/t", f"{REPOSITORY}/main/t/"],
        ["fs", "upload", "-r", "{files}/t", f"{REPOSITORY}/main/t/", "--delete"],
    ],
    "fs update-metadata": [["fs", "update-metadata", f"{REPOSITORY}/main/t/1", "--meta", "k=v"]],
    "import": [
        [
            *("import", "--copy"),
            *("--from", "{files}/t", "--to", f"{REPOSITORY}/main/t/", "-m", "m"),
        ]
    ],
    "merge": [["merge", f"{REPOSITORY}/dev", f"{REPOSITORY}/main"]],
    "local checkout": [["local", "checkout", "{files}/wd", "-y"]],
    "local commit": [["local", "commit", "{files}/wd", "-m", "m"]],
    **{f"local {word}": [] for word in ("clone", "diff", "init", "list", "pull", "status")},
    **{words: [[words, REPOSITORY]] for words in ("fetch", "redo", "undo", "status")},
    **{words: [[words, f"{REPOSITORY}/main"]] for words in ("diff", "log")},
    **{words: [[*words.split(), REPOSITORY]] for words in ("branch list", "op log", "tag list")},
    "checkout": [],  # as `local checkout`, in the current directory
    "use": [["use", f"{REPOSITORY}/dev"]],
    "check-ignore": [],
    "restore": [],  # likewise
    "pull": [["pull", f"{REPOSITORY}/main"]],
    "push": [["push", f"{REPOSITORY}/main"], ["push", REPOSITORY, "--all"]],
    "quickstart": [],  # it makes a home of its own, in which nothing else runs
    "refs-restore": [
        ["refs-restore", DUMPED, "--manifest", "{files}/manifest"],
        ["refs-restore", DUMPED, "--update", "--manifest", "{files}/manifest"],
    ],
    "repo create": [["repo", "create", "lakefs://other", "memory://meetings/other"]],
    "repo delete": [["repo", "delete", REPOSITORY, "-y"]],
    BLOCK_WRITE[0]: [[*BLOCK_WRITE]],
    SPARK_WRITE[0]: [[*SPARK_WRITE]],
    "tag create": [["tag", "create", f"{REPOSITORY}/v2", f"{REPOSITORY}/main"]],
    "tag delete": [["tag", "delete", f"{REPOSITORY}/v1", "-y"]],
}
"""Command lines that do something in the world of the matrix.

Of those about working directories, the ones without a line write only links and files here.
"""

READS: Final = frozenset(
    (
        *(
            "annotate",
            "bisect log",
            "bisect view",
            "blame",
            "branch list",
            "branch show",
            "cat-sst",
        ),
        *("completion", "config get", "config list", "diff", "find-merge-base", "fs cat", "fs du"),
        *("fs find", "fs ls", "fs presign", "fs stat", "fsck", "gc get-config", "gc status", "log"),
        *(
            "op compact",
            "op log",
            "op show",
            "plugin list",
            "reflog",
            "repo list",
            "rev-parse",
            "show commit",
        ),
        *("status", "tag list", "tag show", "version"),
    )
)
"""Commands whose lines change nothing in any situation without automatic sharing.

Links of `fs presign` are made only of stores that can sign; `fsck --repair` finds no damage.
"""


MOVES: Final = frozenset(
    (
        *("branch create", "branch delete", "branch rename", "branch reset", "branch revert"),
        *("cherry-pick", "clone", "commit", "fetch", "fs cp", "fs mv", "fs rm", "fs stage"),
        *("fs update-metadata", "fs upload", "import", "local checkout", "local commit", "merge"),
        *("op redo", "op restore", "op undo", "pull", "push", "redo", "refs-restore"),
        *("repo create", "repo delete", "tag create", "tag delete", "undo"),
    )
)
"""Commands that move refs, what is staged, or the log; the long team does all of them."""


def command_lines() -> dict[str, list[list[str]]]:
    """Return the command lines of every command, by its words."""
    return {
        each.words: SPECIAL.get(each.words) or [_make(each)]
        for each in describe_all()
        if SPECIAL.get(each.words) != []
    }


def words_of(lines: Iterable[Sequence[str]]) -> set[str]:
    """Return the words of the commands of some command lines."""
    words = [each.words for each in describe_all()]
    return {each for each in words for line in lines if f"{' '.join(line)} ".startswith(f"{each} ")}


def fill(line: list[str], values: dict[str, str]) -> list[str]:
    """Return a command line with the paths of this run filled in."""
    for name, value in values.items():
        line = [word.replace("{" + name + "}", value) for word in line]
    return line


def _make(command: CommandHelp) -> list[str]:
    line = command.words.split()
    seen: set[Kind] = set()
    for argument in command.arguments:
        if argument.required:
            line.append(_value(command, argument, seen))
    for option in command.options:
        line += _option(command, option)
    return line


def _value(command: CommandHelp, argument: ParameterHelp, seen: set[Kind]) -> str:
    kind = argument.kind
    if argument.choices:
        return argument.choices[0]
    if kind is None or kind not in _VALUES:
        raise AssertionError(
            f"say in tests/meetings/arguments.py what {argument.metavar} of "
            f"`{command.words}` may be"
        )
    value = _SECOND.get(kind, _VALUES[kind]) if kind in seen else _VALUES[kind]
    seen.add(kind)
    return value


def _option(command: CommandHelp, option: ParameterHelp) -> list[str]:
    flag = option.flags[-1]
    if flag == "--yes":
        return [flag]
    if flag in _OPTIONS and (option.required or flag == "--message"):
        return [flag, _OPTIONS[flag]]
    if not option.required:
        return []
    if option.kind in _VALUES:
        return [flag, _VALUES[option.kind]]
    raise AssertionError(
        f"say in tests/meetings/arguments.py what {flag} of `{command.words}` may be"
    )
