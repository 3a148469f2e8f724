"""A command line for every command of the table, made from the parameters that it declares.

The kind of a parameter (a branch, a path, a file …) determines its value, so a new command takes
part without a line here. `SPECIAL` has the commands that would do nothing with those values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakecli.cli import tree
from lakecli.cli.line import Kind
from lakecli.cli.manual.describe import describe_all
from tests.meetings.world import LAKEFS, NAMESPACE
from tests.support.command_lines import make_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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

SPARK_WRITE: Final = ("spark-write", f"{REPOSITORY}/main/t/", "overwrite", "{files}/new")
"""A write of Spark, which `tests.meetings.spark_write` makes a command."""

BLOCK_WRITE: Final = ("block-write", f"{REPOSITORY}/main/t/", "{files}/new")
"""A block of `fs.committing`, which `tests.meetings.block_write` makes a command."""

JOB_BRANCH: Final = "job"
"""The branch of a run, whose job `tests.meetings.job` runs in this process."""

SERVE_PUT: Final = ("serve-put", f"{REPOSITORY}/main/t/1", "{files}/new")
"""A PUT of S3 through ``lakecli serve``, which `tests.meetings.serve_put` makes a command."""

SPECIAL: Final[dict[str, list[list[str]]]] = {
    "approve": [["approve", f"{REPOSITORY}/dev", "--for", f"{REPOSITORY}/main"]],
    "check run": [
        ["check", "run", "passes", f"{REPOSITORY}/dev", "--config", "{files}/config.toml"]
    ],
    "bisect run": [["bisect", "run", REPOSITORY, "true"]],
    "bisect start": [["bisect", "start", f"{REPOSITORY}/main", f"{REPOSITORY}/main~1"]],
    "branch create": [["branch", "create", f"{REPOSITORY}/fresh", "-s", f"{REPOSITORY}/main"]],
    "branch delete": [["branch", "delete", f"{REPOSITORY}/dev", "-y"]],
    "branch-protect add": [["branch-protect", "add", REPOSITORY, "fixed-*"]],
    "branch-protect delete": [["branch-protect", "delete", REPOSITORY, "guarded-*"]],
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
    "config set": [["config", "set", "user.name", "Eve"]],
    "gc set-config": [["gc", "set-config", REPOSITORY, "--filename", "{files}/rules"]],
    "doctor": [["doctor", REPOSITORY, "--again"]],
    "fs rm": [["fs", "rm", f"{REPOSITORY}/main/t/1"], ["fs", "rm", "-r", f"{REPOSITORY}/main/t/"]],
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
        ],
        ["fs", "stage", f"{REPOSITORY}/main/in/", "--arrived"],
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
    "status": [["status", REPOSITORY]],
    **{words: [[words, f"{REPOSITORY}/main"]] for words in ("diff", "log")},
    "checkout": [],  # as `local checkout`, in the current directory
    "use": [["use", f"{REPOSITORY}/dev"]],
    "check-ignore": [],
    "restore": [],  # likewise
    "policy edit": [],  # as `policy set`
    "policy set": [["policy", "set", REPOSITORY, "{files}/policy", "-y"]],
    "publish": [["publish", f"{REPOSITORY}/dev", f"{REPOSITORY}/main", "--check", "true"]],
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
    SERVE_PUT[0]: [[*SERVE_PUT]],
    SPARK_WRITE[0]: [[*SPARK_WRITE]],
    "run": [
        [
            *("run", f"{REPOSITORY}/main", "--branch", JOB_BRANCH, "--keep", "never", "--"),
            *("lakecli", "fs", "upload", "{files}/new", "t/1"),
        ]
    ],
    **{f"run {word}": [["run", word, f"{REPOSITORY}/left"]] for word in ("abort", "resume")},
    "serve": [],  # it does what its clients ask for, as `SERVE_PUT`
    "tag create": [["tag", "create", f"{REPOSITORY}/v2", f"{REPOSITORY}/main"]],
    "tag delete": [["tag", "delete", f"{REPOSITORY}/v1", "-y"]],
}
"""Command lines that do something in the world of the matrix.

Of those about working directories, the ones without a line write only links and files here.
"""

READS: Final = tree.READS - {"fs download"}
"""Commands whose lines change nothing in any situation without automatic sharing.

A download writes a file. Links of `fs presign` are made only of stores that can sign; `fsck
--repair` finds no damage.
"""


def command_lines() -> dict[str, list[list[str]]]:
    """Return the command lines of every command, by its words."""
    return {
        each.words: SPECIAL.get(each.words) or [[*make_line(each, _VALUES, _SECOND)]]
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
