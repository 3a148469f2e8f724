"""The state machine of the long team: random commands of three people."""

from __future__ import annotations

import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from tests.meetings.arguments import READS, REPOSITORY, command_lines
from tests.meetings.hook import Hook
from tests.meetings.model import PEOPLE
from tests.meetings.side import TeamWithSides
from tests.meetings.team import bucket_copy, checksum_of, days, operations
from tests.meetings.world import NAMESPACE, Machines
from tests.support.waits import skip_waits

if TYPE_CHECKING:
    from collections.abc import Mapping

WHO = st.sampled_from(PEOPLE)
SYNC = st.booleans()
BRANCH = st.sampled_from(["main", "main", "dev"])
PATH = st.sampled_from(["p/0", "p/1", "q/2", "q/3"])
TEXTS = ("x", "y", "z", "first")
TEXT = st.sampled_from(TEXTS)
DECIDES = st.sampled_from(["--strategy=source-wins", "--take=source:*"])
"""Two ways to let the source win all conflicts of a merge."""
RULED: Final = frozenset(
    (
        *("branch create", "branch delete", "branch rename", "branch reset", "branch revert"),
        *("cherry-pick", "clone", "commit", "fetch", "fs cp", "fs mv", "fs rm", "fs stage"),
        *("fs update-metadata", "fs upload", "import", "local checkout", "local commit", "merge"),
        *("op redo", "op restore", "op undo", "pull", "push", "redo", "refs-restore"),
        *("repo create", "repo delete", "tag create", "tag delete", "undo"),
    )
)
"""Commands that have rules, most of them because they stage something, which these predict."""

OTHERS: Final = [
    tuple(line)
    for words, lines in command_lines().items()
    for line in lines
    if words not in READS | RULED and not words.startswith("bisect")
    if "{" not in "".join(line)
]
"""Command lines of all others that change something.

Those with files of the matrix are left out, and bisect: a verdict without a session is misuse.
"""

LIVES_AT_ONCE = 10
"""Hypothesis takes longer for each life the more it has seen."""


class LongTeam(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        place = Path(tempfile.mkdtemp())
        self.stack.callback(shutil.rmtree, place)
        hook = Hook()
        monkeypatch = self.stack.enter_context(pytest.MonkeyPatch.context())
        skip_waits(monkeypatch)
        hook.build_once(monkeypatch)
        self.world = self.stack.enter_context(Machines(place))
        self.team = TeamWithSides(self.world)
        self.backup: Mapping[str, Any] | None = None
        self.glitched = False
        self.stray = ""

    def teardown(self) -> None:
        try:
            self.team.check_from_scratch()
        finally:
            self.stack.close()

    def uri(self, *parts: str) -> str:
        return "/".join((REPOSITORY, *parts))

    def on(self, person: str, branch: str) -> bool:
        return branch in self.team.places[person]

    # -- objects -----------------------------------------------------------------------------

    @rule(person=WHO, branch=BRANCH, path=PATH, text=TEXT, sync=SYNC)
    def upload(self, *, person: str, branch: str, path: str, text: str, sync: bool) -> None:
        if self.on(person, branch):
            self.team.upload(person, branch, path, text, sync=sync)

    @rule(person=WHO, branch=BRANCH, path=PATH, sync=SYNC)
    def upload_again(self, *, person: str, branch: str, path: str, sync: bool) -> None:
        """Remove a path and stage it as it was."""
        if self.on(person, branch):
            checksum = self.team.contents_of(person, branch).get(path)
            for text in filter(lambda text: checksum_of(text) == checksum, TEXTS):
                self.team.remove(person, branch, path, sync=sync)
                if self.on(person, branch):
                    self.team.upload(person, branch, path, text, sync=sync)

    @rule(person=WHO, branch=BRANCH, path=PATH, sync=SYNC)
    def remove(self, *, person: str, branch: str, path: str, sync: bool) -> None:
        self.team.remove(person, branch, path, sync=sync)

    @rule(person=WHO, branch=BRANCH, sync=SYNC)
    def remove_all(self, *, person: str, branch: str, sync: bool) -> None:
        self.team.remove_all(person, branch, "p/", sync=sync)

    @rule(person=WHO, ref=st.sampled_from(["main", "dev", "main~1", "v1"]), path=PATH, sync=SYNC)
    def copy(self, *, person: str, ref: str, path: str, sync: bool) -> None:
        if (ref, path) != ("main", "q/2"):
            self.team.copy(person, ref, path, "q/2", sync=sync)

    @rule(person=WHO, path=PATH, to=PATH, sync=SYNC)
    def move(self, *, person: str, path: str, to: str, sync: bool) -> None:
        if path != to:
            self.team.move(person, path, to, sync=sync)

    @rule(person=WHO, branch=BRANCH, path=PATH, text=st.sampled_from(TEXTS[:2]), sync=SYNC)
    def update_metadata(
        self, *, person: str, branch: str, path: str, text: str, sync: bool
    ) -> None:
        if self.on(person, branch):
            self.team.update_metadata(person, branch, path, text, sync=sync)

    @rule(person=WHO, branch=BRANCH, path=PATH, sync=SYNC)
    def stage(self, *, person: str, branch: str, path: str, sync: bool) -> None:
        if self.on(person, branch):
            self.team.stage(person, branch, path, sync=sync)

    @rule(person=WHO, line=st.sampled_from(OTHERS), sync=SYNC)
    def run_other(self, *, person: str, line: tuple[str, ...], sync: bool) -> None:
        self.team.run(person, *line, sync=sync)

    # -- another repository ------------------------------------------------------------------

    @rule(person=WHO, branch=BRANCH, path=PATH, to=PATH, moves=st.booleans(), sync=SYNC)
    def carry_out(
        self, *, person: str, branch: str, path: str, to: str, moves: bool, sync: bool
    ) -> None:
        if self.on(person, branch) and path in self.team.contents_of(person, branch):
            self.team.carry_out(person, branch, path, to, moves=moves, sync=sync)

    @rule(person=WHO, branch=BRANCH, to=PATH, moves=st.booleans(), sync=SYNC)
    def carry_in(self, *, person: str, branch: str, to: str, moves: bool, sync: bool) -> None:
        if self.on(person, branch):
            for path in sorted(self.team.sides.get(person, {}))[:1]:
                self.team.carry_in(person, path, branch, to, moves=moves, sync=sync)

    @precondition(lambda self: any(map(any, self.team.undoable.values())) and not self.glitched)
    @rule(person=WHO, verb=st.sampled_from(["undo", "redo"]), sync=SYNC)
    def take_back_side(self, person: str, verb: str, *, sync: bool) -> None:
        if self.team.undoable[person][verb == "redo"]:
            self.team.take_back_side(person, verb, sync=sync)

    # -- commits -----------------------------------------------------------------------------

    @rule(person=WHO, branch=BRANCH, sync=SYNC)
    def commit(self, *, person: str, branch: str, sync: bool) -> None:
        if self.on(person, branch):
            self.team.commit(person, branch, sync=sync)

    @rule(person=WHO, branch=BRANCH, prefix=st.sampled_from(["p/", "q/"]), sync=SYNC)
    def commit_part(self, *, person: str, branch: str, prefix: str, sync: bool) -> None:
        if self.on(person, branch):
            self.team.commit(person, branch, sync=sync, below=prefix)

    @rule(person=WHO, path=PATH, text=TEXT, sync=SYNC)
    def commit_directory(self, *, person: str, path: str, text: str, sync: bool) -> None:
        self.team.commit_directory(person, path, text, sync=sync)

    @rule(person=WHO, path=PATH, text=TEXT, sync=SYNC)
    def check_out_directory(self, *, person: str, path: str, text: str, sync: bool) -> None:
        self.team.check_out_directory(person, path, text, sync=sync)

    @rule(person=WHO, ref=st.sampled_from(["main~1", "dev"]), sync=SYNC)
    def reset_to(self, *, person: str, ref: str, sync: bool) -> None:
        self.team.reset_to(person, "main", ref, sync=sync)

    @rule(person=WHO, branch=BRANCH, path=PATH, text=TEXT, sync=SYNC)
    def change(self, *, person: str, branch: str, path: str, text: str, sync: bool) -> None:
        if self.on(person, branch):
            self.team.upload(person, branch, path, text, sync=sync)
        if self.on(person, branch):
            self.team.commit(person, branch, sync=sync)

    @rule(person=WHO, branch=BRANCH, path=PATH, text=TEXT)
    def change_and_push(self, *, person: str, branch: str, path: str, text: str) -> None:
        self.change(person=person, branch=branch, path=path, text=text, sync=False)
        self.push(person=person, branch=branch, sync=False)

    @rule(person=WHO, sync=SYNC, back=st.booleans(), decides=DECIDES)
    def merge(
        self, *, person: str, sync: bool, back: bool, decides: str = "--strategy=source-wins"
    ) -> None:
        source, destination = ("main", "dev") if back else ("dev", "main")
        line = ("merge", self.uri(source), self.uri(destination), decides)
        self.team.run(person, *line, sync=sync, cleans="dev" if back else "main")

    @rule(person=WHO, path=PATH, text=TEXT, sync=SYNC)
    def fix_and_merge(self, *, person: str, path: str, text: str, sync: bool) -> None:
        self.change(person=person, branch="dev", path=path, text=text, sync=sync)
        self.merge(person=person, sync=sync, back=False)

    @rule(person=WHO, sync=SYNC)
    def revert(self, *, person: str, sync: bool) -> None:
        line = ("branch", "revert", self.uri("main"), self.uri("main"), "-y")
        self.team.run(person, *line, sync=sync, cleans="main")

    @rule(person=WHO, sync=SYNC)
    def cherry_pick(self, *, person: str, sync: bool) -> None:
        line = ("cherry-pick", self.uri("dev"), self.uri("main"))
        self.team.run(person, *line, sync=sync, cleans="main")

    @rule(person=WHO, sync=SYNC, text=TEXT)
    def import_directory(self, *, person: str, sync: bool, text: str) -> None:
        directory = self.world.files(person) / "imported"
        directory.mkdir(exist_ok=True)
        (directory / "3").write_text(text)
        line = (
            "import",
            "--copy",
            "--from",
            str(directory),
            "--to",
            self.uri("main", "q/"),
            "-m",
            "m",
        )
        self.team.run(person, *line, sync=sync)

    # -- refs --------------------------------------------------------------------------------

    @rule(person=WHO, sync=SYNC, ref=st.sampled_from(["main", "main~1", "v1"]))
    def create_branch(self, *, person: str, sync: bool, ref: str) -> None:
        self.team.run(person, "branch", "create", self.uri("dev"), "-s", self.uri(ref), sync=sync)

    @rule(person=WHO, sync=SYNC)
    def delete_branch(self, *, person: str, sync: bool) -> None:
        self.team.delete_branch(person, "dev", sync=sync)

    @rule(person=WHO, sync=SYNC)
    def rename_branch(self, *, person: str, sync: bool) -> None:
        """Rename a branch, or give it its name back."""
        name, new = ("dev", "side") if self.on(person, "dev") else ("side", "dev")
        self.team.run(person, "branch", "rename", self.uri(name), new, sync=sync)

    @rule(person=WHO, branch=BRANCH, sync=SYNC)
    def reset(self, *, person: str, branch: str, sync: bool) -> None:
        self.team.reset(person, branch, sync=sync)

    @rule(person=WHO, sync=SYNC)
    def create_tag(self, *, person: str, sync: bool) -> None:
        self.team.run(person, "tag", "create", self.uri("v1"), self.uri("main"), sync=sync)

    @rule(person=WHO, sync=SYNC)
    def delete_tag(self, *, person: str, sync: bool) -> None:
        self.team.run(person, "tag", "delete", self.uri("v1"), "-y", sync=sync)

    # -- sharing -----------------------------------------------------------------------------

    @rule(person=WHO, sync=SYNC)
    def push_all(self, *, person: str, sync: bool) -> None:
        self.team.run(person, "push", REPOSITORY, "--all", sync=sync)

    @rule(person=WHO, branch=BRANCH, sync=SYNC)
    def push(self, *, person: str, branch: str, sync: bool) -> None:
        if self.on(person, branch):
            self.team.run(person, "push", self.uri(branch), sync=sync)

    @rule(person=WHO, branch=BRANCH, sync=SYNC, decides=DECIDES)
    def pull(
        self, *, person: str, branch: str, sync: bool, decides: str = "--strategy=source-wins"
    ) -> None:
        line = ("pull", self.uri(branch), decides)
        self.team.run(person, *line, sync=sync)

    @rule(person=WHO, sync=SYNC)
    def clone(self, *, person: str, sync: bool) -> None:
        self.team.run(person, "clone", NAMESPACE, REPOSITORY, sync=sync)

    @rule(person=WHO, sync=SYNC)
    def delete_repository(self, *, person: str, sync: bool) -> None:
        self.team.run(person, "repo", "delete", REPOSITORY, "-y", sync=sync)

    @rule(person=WHO, sync=SYNC)
    def restore_dump(self, *, person: str, sync: bool) -> None:
        self.team.restore_dump(person, sync=sync)

    @rule(person=WHO, sync=SYNC)
    def fetch(self, *, person: str, sync: bool) -> None:
        self.team.run(person, "fetch", REPOSITORY, sync=sync)

    @rule(person=WHO, sync=SYNC)
    def status(self, *, person: str, sync: bool) -> None:
        self.team.run(person, "status", REPOSITORY, sync=sync)

    # -- the log -----------------------------------------------------------------------------

    @rule(person=WHO, sync=SYNC, times=st.integers(1, 3))
    def undo(self, *, person: str, sync: bool, times: int) -> None:
        for words in [["undo"], ["op", "undo"], ["undo"]][:times]:
            self.team.run(person, *words, REPOSITORY, sync=sync)

    @rule(person=WHO, sync=SYNC)
    def undo_twice(self, *, person: str, sync: bool) -> None:
        self.team.undo_twice(person, sync=sync)

    @rule(person=WHO, sync=SYNC, times=st.integers(1, 3))
    def redo(self, *, person: str, sync: bool, times: int) -> None:
        for words in [["redo"], ["op", "redo"], ["redo"]][:times]:
            self.team.run(person, *words, REPOSITORY, sync=sync)

    @rule(person=WHO, branch=BRANCH, path=PATH, text=TEXT, sync=SYNC)
    def change_and_back(
        self, *, person: str, branch: str, path: str, text: str, sync: bool
    ) -> None:
        self.change(person=person, branch=branch, path=path, text=text, sync=sync)
        self.undo(person=person, sync=sync, times=1)
        self.redo(person=person, sync=sync, times=1)

    @rule(person=WHO, back=st.integers(0, 5), sync=SYNC)
    def restore(self, *, person: str, back: int, sync: bool) -> None:
        known = list(operations(self.team, person))
        if len(known) > back:
            line = ("op", "restore", REPOSITORY, known[back], "-y")
            self.team.run(person, *line, sync=sync)

    # -- collection, clocks, and a backup -----------------------------------------------------

    @rule(person=WHO, passed=st.sampled_from([0, 1, 16]))
    def collect(self, person: str, passed: int) -> None:
        self.world.pass_time(days(passed))
        self.team.run(person, "gc", "run", REPOSITORY, "-y", sync=False)

    @precondition(lambda self: self.team.went_back)
    @rule(person=WHO)
    def accept_backup(self, person: str) -> None:
        self.team.run(person, "gc", "run", REPOSITORY, "-y", "--accept-restored", sync=False)

    @rule(person=WHO, ref=st.integers(0, 5), body=st.sampled_from([None, b"{}"]))
    def collect_without_a_ref(self, person: str, ref: int, body: bytes | None) -> None:
        known = self.team.refs_seen(person)
        if known:
            self.team.collect_without(person, known[ref % len(known)], body)

    @rule(person=WHO)
    def keep_garbage(self, person: str) -> None:
        self.team.run(person, "gc", "undo", REPOSITORY, sync=False)

    @precondition(lambda self: not self.glitched)
    @rule(person=WHO, by=st.sampled_from([-20_000, -60, 60, 20_000]))
    def set_clock_wrong(self, person: str, by: int) -> None:
        self.glitched, self.stray = True, person
        self.world.ahead[person] = days(by)
        self.team.told.append(f"the clock of {person} is wrong by {by} days")

    @precondition(lambda self: self.stray)
    @rule()
    def set_clock_right(self) -> None:
        if self.world.ahead.pop(self.stray) > days(0):
            # Two readings of that clock, a day apart, may have ended what was in the log.
            self.team.logged[self.stray].clear()
        self.team.told.append(f"the clock of {self.stray} is right again")
        self.stray = ""

    @precondition(lambda self: self.backup is None and not self.team.went_back)
    @rule()
    def back_up(self) -> None:
        self.backup = bucket_copy(self.world)
        self.team.told.append("the bucket is backed up")

    @precondition(lambda self: self.backup is not None and not self.team.went_back)
    @rule()
    def restore_backup(self) -> None:
        assert self.backup is not None
        self.team.restore_backup(self.backup)


def check_lives(*, examples: int, steps: int, number: int | None = None) -> None:
    """Run the state machine; the story of a failure is whole, to shrink it would take minutes.

    Args:
        examples: how many lives of a team.
        steps: commands in each of them, at most.
        number: chooses the lives; ``None``: always the same.
    """
    if number is not None:
        seed(number)(LongTeam)
    run_state_machine_as_test(
        LongTeam,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=number is None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )


def check_some_lives(number: int) -> None:
    """Run lives that a number chooses."""
    check_lives(examples=LIVES_AT_ONCE, steps=60, number=number)


def find_failing_lives(seconds: float, *, first: int) -> int | None:
    """Return the number of lives that fail; ``None`` if none does in this time.

    Args:
        seconds: of the processor's time: how much is found must not depend on what else runs.
        first: the number to begin with.
    """
    end = time.process_time() + seconds
    while time.process_time() < end:
        try:
            check_some_lives(first)
        except AssertionError:
            return first
        first += 1
    return None
