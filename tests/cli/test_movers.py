"""Every way to move a ref, and a rule that another clone set a moment ago: there is no way through.

A new command has to be named here: as one that moves refs, with a line that does, or as one that
does not. Of the library, one function sends moves (`lakecli.repository.journal.intents.make_move`);
that nothing else writes ref objects is checked, too.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from lakecli.base.layout import REFS
from lakecli.cli.tree import COMMANDS, READS
from lakecli.repository.policy import judge
from lakecli.stores.local.store import DirectoryStore
from tests.meetings import block_write, spark_write
from tests.meetings.arguments import BLOCK_WRITE, SPARK_WRITE
from tests.meetings.situations import put_dump

if TYPE_CHECKING:
    from collections.abc import Collection

    from tests.support.golden import Cli, Result

URI: Final = "lakefs://demo"
MAIN: Final = f"{URI}/main"
DEV: Final = f"{URI}/dev"
DUMPED: Final = "lakefs://dumped"

Line = tuple[str, ...]

MAY_FAIL: Final = "!"
"""Stands before a line that may end with any exit code."""

_STAGED: Final[Line] = ("fs", "upload", "{new}", f"{MAIN}/staged")
_COMMIT: Final[tuple[Line, ...]] = (_STAGED, ("commit", MAIN, "-m", "mine"))
_PUSHED: Final = (*_COMMIT, ("push", MAIN))
_TO_FIRST: Final[Line] = ("branch", "reset", MAIN, "--to", "main~1", "-y")
_PUSH: Final[Line] = ("push", MAIN)
_JOB: Final[Line] = ("--", sys.executable, "-m", "lakecli", "fs", "upload", "{new}", "new")
_ONCE: Final = "sh -c 'if mkdir {directory}; then exit 1; fi'"
_FORCE: Final[Line] = ("push", MAIN, "--force-with-lease")


class Mover(NamedTuple):
    """A line that moves a ref.

    Attributes:
        line: the command line.
        push: without automatic sync, the line that moves it in the bucket; ``()``: `line` does.
        before: what is run before the rule is set, without automatic sync.
        theirs: what the other clone runs before that.
        code: its exit code.
        is_manual: whether it moves nothing with automatic sync.
    """

    line: Line
    push: Line = ()
    before: tuple[Line, ...] = ()
    theirs: tuple[Line, ...] = ()
    code: int = 7
    is_manual: bool = False


MOVERS: Final[dict[str, list[Mover]]] = {
    "branch create": [
        Mover(("branch", "create", f"{URI}/new", "-s", MAIN), ("push", f"{URI}/new"))
    ],
    "branch delete": [Mover(("branch", "delete", DEV, "-y"), ("push", "--delete", DEV))],
    "branch rename": [Mover(("branch", "rename", DEV, "other"), ("push", f"{URI}/other"))],
    "branch reset": [Mover((*_TO_FIRST, "--force-with-lease"))],
    "branch revert": [Mover(("branch", "revert", MAIN, MAIN, "-y"), _PUSH)],
    "cherry-pick": [Mover(("cherry-pick", DEV, MAIN), _PUSH)],
    "commit": [Mover(_COMMIT[1], _PUSH, (_STAGED,))],
    "import": [
        Mover(("import", "--copy", "--from", "{files}", "--to", f"{MAIN}/i/", "-m", "m"), _PUSH)
    ],
    "local commit": [
        Mover(
            ("local", "commit", "{directory}", "-m", "m"),
            _PUSH,
            (
                ("local", "clone", f"{MAIN}/", "{directory}"),
                ("fs", "download", f"{DEV}/d", "{directory}/copied"),
            ),
        )
    ],
    "merge": [Mover(("merge", DEV, MAIN), _PUSH), Mover(("merge", DEV, MAIN, "--squash"), _PUSH)],
    "op redo": [Mover(("op", "redo", URI), _PUSH, (*_PUSHED, ("undo", URI, "--remote")))],
    "op restore": [Mover(("op", "restore", URI, "{operation}", "--remote", "-y"), (), _PUSHED)],
    "op undo": [Mover(("op", "undo", URI, "--remote"), (), _PUSHED)],
    "publish": [Mover(("publish", DEV, MAIN))],
    "pull": [
        Mover(
            ("pull", MAIN),  # it fetches, so its merge is refused early
            (),
            _COMMIT,
            (("fs", "upload", "{new}", f"{MAIN}/theirs"), ("commit", MAIN, "-m", "theirs"), _PUSH),
            is_manual=True,
        )
    ],
    "push": [
        Mover(_PUSH, (), _COMMIT),
        Mover(_FORCE, (), (_TO_FIRST,)),
        Mover(("push", "--delete", DEV)),
        Mover(("push", "--delete", f"{URI}/v1")),
        Mover(("push", URI, "--all"), (), _COMMIT, code=3),
    ],
    "redo": [Mover(("redo", URI), _PUSH, (*_PUSHED, ("undo", URI, "--remote")))],
    "refs-restore": [
        Mover(
            ("refs-restore", DUMPED, "--update", "--manifest", "{manifest}"),
            ("push", f"{DUMPED}/v1"),
        )
    ],
    "run": [Mover(("run", MAIN, *_JOB))],
    "run resume": [
        Mover(
            ("run", "resume", f"{URI}/nightly"),
            (),
            ((MAY_FAIL, "run", MAIN, "--branch", "nightly", "--check", _ONCE, *_JOB),),
        )
    ],
    "tag create": [
        Mover(("tag", "create", f"{URI}/v2", MAIN), ("push", f"{URI}/v2")),
        Mover(
            ("tag", "create", "-f", f"{URI}/v1", DEV), ("push", f"{URI}/v1", "--force-with-lease")
        ),
    ],
    "tag delete": [Mover(("tag", "delete", f"{URI}/v1", "-y"), ("push", "--delete", f"{URI}/v1"))],
    "undo": [Mover(("undo", URI, "--remote"), (), _PUSHED)],
    BLOCK_WRITE[0]: [Mover((*BLOCK_WRITE[:-1], "{new}"), _PUSH)],
    SPARK_WRITE[0]: [Mover((*SPARK_WRITE[:-1], "{new}"), _PUSH)],
}
"""The command lines that move refs, with `fs.committing` and `write_table` as commands."""

STAY: Final = frozenset(
    (
        *("approve", "check run", "run abort"),
        *("bisect bad", "bisect good", "bisect new", "bisect old", "bisect reset", "bisect run"),
        *("bisect skip", "bisect start", "checkout", "config set", "config unset", "doctor"),
        *("export", "fetch", "fs cp", "fs mv", "fs rm", "fs stage", "fs update-metadata"),
        *("fs upload", "gc delete-config", "gc run", "gc set-config", "gc undo"),
        *("local checkout", "local clone", "local init", "local pull", "refs-dump", "repo delete"),
        *("restore", "use"),
        "serve",  # what its clients ask for is done by the verbs of these commands
        # In a namespace where nobody else is yet:
        *("clone", "quickstart", "repo create"),
        # The rules themselves: refs keep their commits, and owners are asked.
        *("branch-protect add", "branch-protect delete", "policy edit", "policy set"),
    )
)
"""Commands that move no ref in a bucket; those that stage are asked early.

`fsck --repair` moves none either: it writes a ref that cannot be read as it was last seen.
"""


def test_every_command_is_said_to_move_refs_or_not() -> None:
    movers = MOVERS.keys() - {BLOCK_WRITE[0], SPARK_WRITE[0]}
    assert not movers & STAY
    assert not (movers | STAY) & READS
    assert movers | STAY | READS == COMMANDS.keys()


def test_nothing_else_of_the_library_writes_refs() -> None:
    package = Path(judge.__file__).parents[2]
    found = {
        f"{path.relative_to(package)}: {name}"
        for path in package.rglob("*.py")
        for name in re.findall(r"\b(RefMove\(|dump_ref\(|stamp\(store)", path.read_text("utf-8"))
    }
    assert found == {
        "remote/ref_records.py: dump_ref(",
        "remote/refs.py: dump_ref(",
        "remote/refs.py: stamp(store",
        "repository/journal/intents.py: RefMove(",  # judged; and the way back of a creation
        "repository/sharing/set_policy.py: stamp(store",  # commits stay
        "fsck/repair.py: dump_ref(",
    }


class Team:
    """Ada, who owns the rules, and Bob, whom they do not let move anything."""

    def __init__(self, cli: Cli, directory: Path) -> None:
        self.cli = cli
        self.directory = directory
        self.namespaces = {URI: directory / "namespace", DUMPED: directory / "dumped"}

    def environ(self, who: str, sync: str) -> dict[str, str]:
        return {
            "LAKECLI_HOME": str(self.directory / who),
            "LAKECLI_USER_NAME": who.title(),
            "LAKECLI_USER_EMAIL": os.environ.get("CLAIMED_EMAIL", f"{who}@x"),
            "LAKECLI_SYNC": sync,
        }

    def run(self, who: str, line: Line, *, sync: str = "manual") -> Result:
        named = {
            "files": self.directory / "files",
            "new": self.directory / "files" / "new",
            "directory": self.directory / "linked",
            "manifest": self.directory / "manifest",
        }
        filled = [
            re.sub(r"\{(\w+)\}", lambda name: str(named.get(name[1], name[0])), each)
            for each in line
        ]
        if "{operation}" in line:
            logged = self.ok(who, ("op", "log", URI, "--json")).json_lines
            filled[filled.index("{operation}")] = logged[3]["id"]
        return self.cli(*filled, env=self.environ(who, sync))

    def ok(self, who: str, line: Line) -> Result:
        if line[0] == MAY_FAIL:
            return self.run(who, line[1:])
        result = self.run(who, line)
        assert result.exit_code == 0, result
        return result

    def begin(self) -> None:
        files = self.directory / "files"
        files.mkdir()
        (files / "new").write_text("new")
        self.ok("ada", ("repo", "create", URI, str(self.namespaces[URI]), "--range-entries", "16"))
        for path in ("a", "b"):
            self.ok("ada", ("fs", "upload", "{new}", f"{MAIN}/{path}"))
            self.ok("ada", ("commit", MAIN, "-m", path))
        self.ok("ada", ("branch", "create", DEV, "-s", MAIN))
        self.ok("ada", ("fs", "upload", "{new}", f"{DEV}/d"))
        self.ok("ada", ("commit", DEV, "-m", "d"))
        self.ok("ada", ("tag", "create", f"{URI}/v1", MAIN))
        self.ok("ada", ("push", URI, "--all"))
        self.ok("bob", ("clone", str(self.namespaces[URI]), URI))

    def begin_dumped(self) -> None:
        namespace = self.namespaces[DUMPED]
        self.ok("ada", ("repo", "create", DUMPED, str(namespace), "--range-entries", "16"))
        self.ok("ada", ("push", f"{DUMPED}/main"))
        manifest = put_dump(DirectoryStore(str(namespace)))
        (self.directory / "manifest").write_bytes(manifest)
        self.ok("bob", ("clone", str(namespace), DUMPED))

    def refs(self) -> dict[str, str]:
        """Return the commit of each ref in the buckets, as its object has it."""
        return {
            str(path): match[1]
            for namespace in self.namespaces.values()
            for path in sorted((namespace / REFS).rglob("*"))
            if path.is_file()
            and (match := re.search(r'"commit_id":("\w+"|null)', path.read_text())) is not None
        }

    def seen_by_bob(self) -> list[str]:
        """Return what Bob has on main, staged and committed."""
        return self.ok("bob", ("fs", "ls", "-r", f"{MAIN}/")).lines


@pytest.fixture
def team(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Team:
    block_write.install(monkeypatch)
    spark_write.install(monkeypatch)
    team = Team(cli, tmp_path)
    team.begin()
    return team


def each_mover(sample: Collection[str] = MOVERS) -> pytest.MarkDecorator:
    """Give a test each line; those of commands outside of `sample` are for the nightly run."""
    return pytest.mark.parametrize(
        "mover",
        [
            pytest.param(
                mover, id=f"{words} {number}", marks=() if words in sample else pytest.mark.nightly
            )
            for words, movers in MOVERS.items()
            for number, mover in enumerate(movers)
        ],
    )


@each_mover()
@pytest.mark.parametrize(
    "mode", ["manual", "auto", pytest.param("auto, not asked early", marks=pytest.mark.nightly)]
)
def test_a_rule_of_a_moment_ago_is_met(
    team: Team, monkeypatch: pytest.MonkeyPatch, mover: Mover, mode: str
) -> None:
    if mode.endswith("early"):
        monkeypatch.setattr(judge, "_early", lambda *_, **__: None)
    reason = "only ada@x may move it, and bob@x is not among them"
    check_meeting(
        team, mover, mode.partition(",")[0], "[[rules]]\nrefs = ['*']\nwho = ['ada@x']\n", reason
    )


def check_meeting(team: Team, mover: Mover, mode: str, document: str, reason: str) -> None:
    """Let Ada set rules, and Bob move a ref: he is refused for a reason, and loses nothing.

    Args:
        team: at its beginning.
        mover: Bob's line.
        mode: manual or auto.
        document: Ada's rules.
        reason: a part of the error.
    """
    if mover.is_manual and mode != "manual":
        pytest.skip("automatic sync does not come to it")
    uri = DUMPED if DUMPED in mover.line else URI
    if uri == DUMPED:
        team.begin_dumped()
    for line in mover.before:
        team.ok("bob", line)
    for line in mover.theirs:
        team.ok("ada", line)
    rules = team.directory / "rules.toml"
    rules.write_text(document)
    team.ok("ada", ("policy", "set", uri, str(rules), "-y"))
    refs = team.refs()
    line = mover.line
    if mode == "manual" and mover.push:
        team.ok("bob", mover.line)
        line = mover.push
    seen = team.seen_by_bob()
    result = team.run("bob", line, sync=mode)
    assert team.refs() == refs
    assert result.exit_code == mover.code, result
    assert "policy 1, which Ada <ada@x> set, forbids" in result.stderr
    assert reason in result.stderr
    assert team.seen_by_bob() == seen
    again = team.run("bob", line, sync=mode)
    assert team.refs() == refs
    assert again.exit_code in {0, mover.code, 11}, again  # what was undone here may be done already


@each_mover()
def test_without_a_rule_each_of_them_moves_a_ref(team: Team, mover: Mover) -> None:
    if DUMPED in mover.line:
        team.begin_dumped()
    for line in mover.before:
        team.ok("bob", line)
    for line in mover.theirs:
        team.ok("ada", line)
    refs = team.refs()
    line = mover.line
    if mover.is_manual:
        team.ok("bob", line)
        line = _PUSH
    result = team.run("bob", line, sync="auto")
    assert result.exit_code == 0, result
    assert team.refs() != refs
