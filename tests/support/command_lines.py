"""A command line for every command, made from the command table.

A new command gets a line by the kinds of its arguments. Where that is not enough (a file that must
exist, a line for each of several forms), `_special` says what to type instead.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from lakecli.cli.line import Kind
from lakecli.cli.manual.describe import describe_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from lakecli.cli.manual.describe import CommandHelp, ParameterHelp


class Sample(NamedTuple):
    """The repository, files and names that the command lines use.

    Attributes:
        directory: for files that commands write, and namespaces that they make.
        namespace: of the repository.
        repository: its name.
        branch: one of its branches.
        tag: one of its tags.
        path: of an object on the branch.
        operation: the beginning of the ID of an operation.
    """

    directory: Path
    namespace: str
    repository: str = "demo"
    branch: str = "main"
    tag: str = "v1"
    path: str = "a"
    operation: str = "0"

    @property
    def uri(self) -> str:
        return f"lakefs://{self.repository}"

    @property
    def ref(self) -> str:
        return f"{self.uri}/{self.branch}"

    @property
    def object(self) -> str:
        return f"{self.ref}/{self.path}"


def command_lines(sample: Sample) -> Iterator[tuple[str, ...]]:
    """Yield at least one line for each command: readers first, commands that remove last."""
    commands = _commands()
    order = sorted(commands, key=lambda words: (_RANK.get(words, 3), words))
    special = _special(sample)
    for words in order:
        yield from special.get(words) or [_by_arguments(commands[words], sample)]


@cache
def _commands() -> dict[str, CommandHelp]:
    """Return all commands by their words; describing them takes longer than most of them run."""
    return {command.words: command for command in describe_all()}


_RANK = {
    words: rank
    for rank, names in enumerate(
        (
            (
                "version", "completion", "config get", "config list", "repo list", "branch list",
                "branch show", "tag list", "tag show", "log", "show commit", "rev-parse", "reflog",
                "find-merge-base", "diff", "fs ls", "fs stat", "fs cat", "fs download",
                "fs presign", "status", "op log", "op show", "gc status", "gc get-config", "fsck",
                "doctor", "clone", "fetch", "export", "local clone", "local init",
            ),
            ("fs cp", "fs mv", "fs rm", "fs upload", "fs stage"),
            ("commit",),
            (),
            ("push", "pull", "gc run", "gc undo"),
            ("branch reset", "branch delete", "tag delete", "undo", "redo", "op undo", "op redo"),
            ("op restore", "quickstart", "repo delete", "repo create"),
        )
    )
    for words in names
}  # fmt: skip


def make_line(
    command: CommandHelp, values: Mapping[Kind, str], seconds: Mapping[Kind, str]
) -> tuple[str, ...]:
    """Return a command line with what a command requires, the repository, and a message.

    Args:
        command: the command.
        values: what to type by kind; where it has no kind, the first choice or ``m`` is typed.
        seconds: what to type for a second argument of a kind.
    """
    line = command.words.split()
    seen: set[Kind | None] = set()
    for argument in command.arguments:
        if argument.required or argument.kind is Kind.REPOSITORY:
            kind = argument.kind
            line.append(_value(argument, {**values, **seconds} if kind in seen else values))
            seen.add(kind)
    for option in command.options:
        if option.flags[-1] == "--yes":
            line.append("--yes")
        elif option.required or option.flags[-1] == "--message":
            line += [option.flags[-1], _value(option, values)]
    return tuple(line)


def _value(parameter: ParameterHelp, values: Mapping[Kind, str]) -> str:
    if parameter.choices:
        return parameter.choices[0]
    return "m" if parameter.kind is None else values.get(parameter.kind, "m")


def _by_arguments(command: CommandHelp, sample: Sample) -> tuple[str, ...]:
    tag = f"{sample.uri}/{sample.tag}"
    values = {
        Kind.REPOSITORY: sample.uri,
        Kind.BRANCH: sample.ref,
        Kind.REF: sample.ref,
        Kind.TAG: tag,
        Kind.PATH: sample.object,
        Kind.PATH_OR_FILE: sample.object,
        Kind.FILE: str(sample.directory / "file"),
        Kind.DIRECTORY: str(sample.directory / "out"),
        Kind.OPERATION: sample.operation,
        Kind.SETTING: "user.name",
    }
    return make_line(command, values, {Kind.REF: tag})


def _special(sample: Sample) -> dict[str, list[tuple[str, ...]]]:
    uri, ref, name = sample.uri, sample.ref, sample.object
    tag = f"{uri}/{sample.tag}"
    out = sample.directory / "out"
    source = sample.directory / "source"
    rules = sample.directory / "rules.json"
    source.mkdir(parents=True, exist_ok=True)
    (source / "new").write_bytes(b"new")
    (sample.directory / "file").write_bytes(b"file")
    (sample.directory / "policy.toml").write_text("# none\n")
    rules.write_text('{"default_retention_days": 30, "branches": []}')
    config = sample.directory / "config.toml"
    config.write_text('[checks]\npasses = "true"\n')
    manifest = sample.directory / "refs.json"
    kinds = ("commits", "tags", "branches")
    manifest.write_text(json.dumps({f"{kind}_meta_range_id": "0" * 64 for kind in kinds}))
    return {
        **{
            f"local {word}": [("local", word, str(sample.directory / "wd"), *options)]
            for word, *options in (
                ("status",),
                ("diff",),
                ("pull", "--force"),
                ("commit", "-m", "m"),
                ("checkout", "-y"),
            )
        },
        "status": [("status", uri)],
        "checkout": [("checkout", sample.tag)],
        "use": [("use", ref), ("use", "--unset")],
        "local clone": [("local", "clone", f"{ref}/", str(sample.directory / "wd"))],
        "local init": [("local", "init", f"{ref}/", str(sample.directory / "linked"))],
        "local list": [("local", "list", str(sample.directory))],
        "restore": [("restore", str(sample.directory / "wd"))],
        "check-ignore": [("check-ignore", str(sample.directory / "wd"))],
        "bisect start": [("bisect", "start", ref, f"{ref}~1")],
        "bisect run": [("bisect", "run", uri, "true")],
        "branch create": [("branch", "create", f"{uri}/made", "-s", ref)],
        "branch delete": [("branch", "delete", f"{uri}/made", "-y")],
        "branch list": [("branch", "list", uri), ("branch", "list", uri, "--amount", "1")],
        "branch rename": [("branch", "rename", f"{uri}/made", "renamed")],
        "branch reset": [
            ("branch", "reset", ref, "-y"),
            ("branch", "reset", ref, "--to", tag, "-y"),
        ],
        "branch revert": [("branch", "revert", ref, f"{ref}~1", "-y")],
        "branch-protect add": [("branch-protect", "add", uri, "fixed-*")],
        "branch-protect delete": [("branch-protect", "delete", uri, "fixed-*")],
        "policy edit": [("policy", "log", uri)],  # not an editor, which is the user's own program
        "policy set": [("policy", "set", uri, str(sample.directory / "policy.toml"), "-y")],
        "cat-sst": [("cat-sst", "-f", f"{sample.namespace}/_lakecli/repository.json")],
        "check run": [("check", "run", "passes", ref, "--config", str(config))],
        "publish": [("publish", tag, ref, "--check", "true", "--allow-empty")],
        "run": [("run", ref, "--keep", "always", "true")],
        "rev-parse": [("rev-parse", ref, f"{ref}@")],
        "refs-restore": [("refs-restore", uri, "--manifest", str(manifest))],
        "clone": [("clone", sample.namespace, "lakefs://cloned")],
        "commit": [("commit", ref, "-m", "message")],
        "diff": [("diff", ref), ("diff", ref, tag), ("diff", f"{ref}~1", ref, "--two-way")],
        "export": [
            ("export", f"{ref}/", str(out / "export")),
            ("export", f"{ref}/", str(out / "export"), "--dry-run"),
        ],
        "fs cp": [("fs", "cp", name, f"{ref}/copied")],
        "fs download": [
            ("fs", "download", name, str(out / "one")),
            ("fs", "download", "-r", f"{ref}/", str(out / "all")),
            ("fs", "download", "-r", f"{ref}/", str(out / "all"), "--dry-run"),
        ],
        "fs ls": [
            ("fs", "ls", f"{ref}/"),
            ("fs", "ls", f"{ref}/", "--recursive"),
            ("fs", "ls", f"{ref}/", "--amount", "1"),
        ],
        "fs mv": [("fs", "mv", f"{ref}/copied", f"{ref}/moved")],
        "fs presign": [
            ("fs", "presign", name),
            ("fs", "presign", "-r", f"{ref}/"),
            ("fs", "presign", "-r", f"{ref}/", "--script", str(out / "fetch.sh")),
            ("fs", "presign", "--put", f"{ref}/incoming"),
        ],
        "fs rm": [("fs", "rm", f"{ref}/moved"), ("fs", "rm", "-r", f"{ref}/none/")],
        "fs stage": [("fs", "stage", f"{ref}/staged", "--incoming", "0" * 32)],
        "fs stat": [("fs", "stat", name)],
        "fs update-metadata": [("fs", "update-metadata", f"{ref}/uploaded", "--meta", "k=v")],
        "fs upload": [
            ("fs", "upload", str(sample.directory / "file"), f"{ref}/uploaded"),
            ("fs", "upload", "-r", str(source), f"{ref}/uploads/"),
        ],
        "fsck": [("fsck", uri), ("fsck", uri, "--data")],
        "gc run": [("gc", "run", uri, "--dry-run"), ("gc", "run", uri, "-y")],
        "gc set-config": [("gc", "set-config", uri, "--filename", str(rules))],
        "import": [
            ("import", "--from", str(source), "--to", f"{ref}/imported/", "--copy", "-m", "m")
        ],
        "log": [
            ("log", ref),
            ("log", ref, "--graph"),
            ("log", ref, "--dot"),
            ("log", ref, "--show-meta-range-id", "--amount", "1"),
        ],
        "cherry-pick": [("cherry-pick", tag, ref)],
        "merge": [("merge", tag, ref), ("merge", f"{uri}/made", ref, "--dry-run")],
        "op restore": [("op", "restore", uri, sample.operation, "-y")],
        "pull": [("pull", ref)],
        "push": [("push", ref, "--dry-run"), ("push", ref)],
        "quickstart": [("quickstart", str(source))],
        "repo create": [
            ("repo", "create", "lakefs://another", str(sample.directory / "another")),
            ("repo", "create", "lakefs://again", sample.namespace),
        ],
        "repo delete": [("repo", "delete", uri, "-y")],
        "tag create": [("tag", "create", f"{uri}/tagged", ref)],
        "tag delete": [("tag", "delete", f"{uri}/tagged", "-y")],
    }
