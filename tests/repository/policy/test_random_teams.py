"""Random teams whose rules change while they move a branch: only what was allowed ever gets there.

Each write of the branch is compared with a model, which knows the commits and the rules, and uses
nothing of `lakecli.repository.policy`. The rules that allowed a move are those of the number that
it records. They are no older than the last ones whose setting had ended when the write was made.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lakecli.base.layout import POLICY, ref_key
from lakecli.base.model import CommitId, RefKind
from lakecli.errors import LakeError
from lakecli.refs.graph import is_ancestor
from lakecli.refs.ref_store import RefStore
from lakecli.repository import branch, push
from lakecli.repository.merge import MergeOptions, merge
from lakecli.repository.push import PushLease, PushOptions
from lakecli.repository.sharing.fetch import fetch
from lakecli.repository.sharing.set_policy import set_policy
from lakecli.repository.undo.undo import undo
from tests.support.clones import Clones, make_commit, synced, there
from tests.support.lakes import through

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.repository.contract import Repository

KEY = ref_key(RefKind.BRANCH, "main")


class Rules(NamedTuple):
    """What a document says."""

    direct: bool
    rewind: bool
    who: str

    def document(self, number: int) -> str:
        forbidden = [name for name in ("direct", "rewind") if getattr(self, name)]
        lines = [f"# {number}", "[[rules]]", 'refs = ["main"]', f"forbid = {forbidden}"]
        if self.who:
            lines.append(f'who = ["{self.who}@x"]')
        return "\n".join(lines).replace("forbid = []", "")


class Step(NamedTuple):
    """What somebody does, and what meets one of its requests.

    Attributes:
        meets: at which of the requests for the branch or the rules it is met; 0: at none.
        rules: the rules that Ada sets then; ``None``: the process is killed.
    """

    actor: int
    act: str
    meets: int
    rules: Rules | None


RULES = st.builds(Rules, st.booleans(), st.booleans(), st.sampled_from(["", "bob", "eve"]))
ACTS = ("commit", "merge", "reset", "follow", "undo", "auto commit", "auto merge", "rules")
STEPS = st.lists(
    st.builds(Step, st.integers(0, 1), st.sampled_from(ACTS), st.integers(0, 5), st.none() | RULES),
    min_size=1,
    max_size=8,
)


class Watched:
    """The store of one clone: writes of the branch are recorded, and some requests are met."""

    def __init__(self, team: Team, store: Any) -> None:
        self._team = team
        self._store = store

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in {"put", "get_versioned"}:
            return found

        def call(key: str, *arguments: Any, **more: Any) -> Any:
            if key not in {KEY, POLICY}:
                return found(key, *arguments, **more)
            self._team.meet()
            before = self._team.ref()
            ended = self._team.ended
            done = found(key, *arguments, **more)
            if name == "put" and key == KEY:
                self._team.check(before, self._team.ref(), ended)
            return done

        return call


class Team:
    """Ada, who sets rules, and two who move the branch."""

    def __init__(self, clones: tuple[Repository, ...]) -> None:
        self.ada, *others = clones
        self.others = [through(each, Watched(self, each.store)) for each in others]
        self.names = ("bob", "eve")
        self.rules: dict[int, Rules] = {0: Rules(direct=False, rewind=False, who="")}
        self.ended = 0
        self.left = 0
        self.then: Callable[[], None] = lambda: None
        self.moves = 0
        self.made = 0

    def ref(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ada.store.get(KEY))
        return found

    def meet(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.then()

    def set(self, rules: Rules) -> None:
        number = len(self.rules)
        self.rules[number] = rules
        set_policy(self.ada, rules.document(number), who="Ada <ada@x>")
        self.ended = number

    def check(self, before: dict[str, Any], after: dict[str, Any], ended: int) -> None:
        """Compare a write of the branch with the rules that it names."""
        move = after["moves"][0]
        if before["commit_id"] == after["commit_id"]:
            return
        self.moves += 1
        number = move.get("policy", 0)
        assert ended <= number <= after.get("policy", 0)
        rules = self.rules[number]
        assert not rules.who or f"<{rules.who}@x>" in move["who"]
        clone = self.others[self.names.index(move["who"].partition("<")[2].partition("@")[0])]
        with clone.lake.kv.read() as txn:
            refs = RefStore(txn, clone.key)
            old, new = CommitId(before["commit_id"]), CommitId(after["commit_id"])
            assert not rules.rewind or is_ancestor(refs, old, new)
            at = new
            while rules.direct and not is_ancestor(refs, at, old):
                parents = refs.get_commit(at).parents
                assert len(parents) == 2, "a direct commit"
                at = parents[0]

    def take(self, step: Step) -> None:
        name, repository = self.names[step.actor], self.others[step.actor]
        rules = step.rules
        self.left = step.meets
        self.then = self.kill if rules is None else lambda: self.set(rules)
        with suppress(LakeError, KeyboardInterrupt):
            self.act(step, repository, f"{name.title()} <{name}@x>")
        self.left = 0

    def kill(self) -> None:
        raise KeyboardInterrupt

    def act(self, step: Step, repository: Repository, who: str) -> None:
        options = PushOptions(who)
        if step.act == "rules":
            if step.rules is not None:
                self.set(step.rules)
            return
        if step.act == "undo":
            undo(repository, remote=True, committer=who)
            return
        sharing = synced(repository, who)
        if step.act in {"follow", "auto commit", "auto merge"}:
            sharing.catch_up()
        acting = sharing.repository if "auto" in step.act else repository
        self.made += 1
        path = b"%d" % self.made
        if step.act.endswith("commit"):
            make_commit(acting, path)
        elif step.act.endswith("merge"):
            fetch(repository)
            branch.create(repository, f"feature{self.made}", source="main")
            make_commit(repository, path, f"feature{self.made}")
            merge(acting, f"feature{self.made}", "main", MergeOptions(committer=who))
        elif step.act == "reset":
            stands = there(self.ada)
            branch.reset(repository, "main", to=self.first, is_forced=True)
            options = PushOptions(who, lease=PushLease(stands))
        if "auto" not in step.act and step.act != "follow":
            push.push(repository, "main", options=options)
        sharing.finish()

    first: CommitId


@pytest.mark.parametrize(
    "examples", [40, pytest.param(1_000, marks=[pytest.mark.nightly, pytest.mark.timeout(3_600)])]
)
def test_only_what_was_allowed_ever_gets_there(examples: int) -> None:
    moved = 0

    @settings(
        max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    @given(STEPS)
    def check(steps: list[Step]) -> None:
        nonlocal moved
        with (
            tempfile.TemporaryDirectory() as place,
            Clones.make(Path(place), "a", "b", "c") as made,
        ):
            team = Team(made.repositories)
            team.first = branch.show(team.ada, "main").commit_id
            for path in (b"x", b"y"):
                make_commit(team.ada, path)
            push.push(team.ada, "main", options=PushOptions("Ada <ada@x>"))
            for each in team.others:
                synced(each, "nobody").catch_up()
            for step in steps:
                team.take(step)
            moved += team.moves

    nothing, direct = (
        Rules(direct=False, rewind=False, who=""),
        Rules(direct=True, rewind=False, who="eve"),
    )
    for request, act in product(range(1, 9), ("commit", "auto commit", "reset")):
        steps = [Step(0, "rules", 0, nothing), Step(0, "follow", 0, None)]
        check = example([*steps, Step(0, act, request, direct)])(check)
    check()
    assert moved > examples / 4
