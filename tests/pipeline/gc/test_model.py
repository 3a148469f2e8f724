"""Random work of several clones while a collector runs, checked against the promise.

What was uploaded, committed or pushed is remembered with its time, and looked for after every
step: what refs reach, and what was touched within the grace period, has to be there. Others act
in the middle of a collection too, before any of its steps.
"""

from __future__ import annotations

import tempfile
from contextlib import nullcontext, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import Phase as HypothesisPhase
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from lakecli.committed.values import decode_entry
from lakecli.errors import IntegrityError, LakeError, NotFound, NothingToDo, Refused
from lakecli.identity import h
from lakecli.layout import data_key, sstable_key
from lakecli.objectstore.memory.store import MemoryStore
from lakecli.pipeline.gc import sweep
from lakecli.pipeline.gc.roots import Roots
from lakecli.pipeline.gc.run import undo
from lakecli.remote import collection
from lakecli.remote.collection import Phase, StateMoved, read_state
from lakecli.remote.refs import iter_refs, read_refs
from lakecli.repository import branch
from lakecli.repository.commit import commit
from lakecli.repository.core.gc_guard import GcGuard, Swept
from lakecli.repository.push import PushOptions, push_deletion
from lakecli.repository.sharing.references import NotInBucket
from lakecli.repository.sharing.shareable import ensure_shareable
from tests.pipeline.gc.shared import GRACE, Shared, push, upload
from tests.pipeline.gc.test_crashes import STEPS
from tests.support.lakes import through

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from lakecli.model import Commit
    from lakecli.repository.core.lake import Repository

CONTENTS = [b"0", b"1"]
"""Few, so that uploaded contents usually exist already."""

HOURS = st.sampled_from([1, 23, 28, 47])
"""Near half of the grace period, and near the whole of it, on both sides."""

REFLOG = timedelta(days=30)
"""How long, by its help, where a ref stood counts."""

WORKERS = st.integers(0, 1)
KINDS = st.sampled_from(["upload", "upload", "upload", "commit", "commit", "push", "delete"])
ACTIONS = st.tuples(KINDS, WORKERS, st.sampled_from(CONTENTS))


class Unconditional(MemoryStore):
    """A store that deletes without conditions, as S3 does: only the protocol helps there."""

    delete_matching = None  # type: ignore[assignment]


class Collecting(RuleBasedStateMachine):
    """Two clones work, and a third one collects."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.shared = Shared(Path(self.directory.name), "ada", "ben", "cleo")
        self.workers = self.shared.clones[:2]
        self.names = ["ada", "ben"]
        self.cleo = self.shared.clones[2]
        for name, repository in zip(self.names, self.workers, strict=True):
            ensure_shareable(repository)
            branch.create(repository, name, source="main")
        ensure_shareable(self.cleo)
        self.cleo = through(self.cleo, Unconditional(self.shared.bucket, "ns/"))
        self.touched: dict[str, datetime] = {}
        """Keys that were taken into use, and when."""
        self.needs: dict[str, set[str]] = {}
        """What commits need, by ID: of those that were whole when they were made."""
        self.parents: dict[str, tuple[str, ...]] = {}
        self.stood: dict[str, datetime] = {}
        """Commits that a ref in the bucket stood on, and when it last did."""

    def teardown(self) -> None:
        self.shared.__exit__()
        self.directory.cleanup()

    def act(self, action: tuple[str, int, bytes]) -> None:
        what, number, contents = action
        repository, name = self.workers[number], self.names[number]
        with suppress(NothingToDo, NotFound, Swept):
            if what == "upload":
                upload(repository, contents, contents, name)
                self.touch({data_key(h(contents).hex())})
            elif what == "commit":
                made = commit(repository, name, message="m", committer="me")
                self.parents[made.id] = made.parents
                needs = self.keys_of(repository, made)
                if needs is not None:
                    self.needs[made.id] = needs
                    self.touch(needs)
            elif what == "push":
                try:
                    push(repository, name)
                except NotInBucket as error:
                    # Found out: then something must be missing, and the ref has to be as it was.
                    assert "was moved" not in error.message  # noqa: PT017
            else:
                push_deletion(repository, name, options=PushOptions(who="me"))
        for ref in read_refs(self.shared.store, iter_refs(self.shared.store)):
            if ref.commit_id is not None:
                self.stood[ref.commit_id] = self.shared.time.now

    def touch(self, keys: set[str]) -> None:
        self.touched.update(dict.fromkeys(keys & self.present(), self.shared.time.now))

    def present(self) -> set[str]:
        return {info.key for info in self.shared.store.list()}

    def keys_of(self, repository: Repository, made: Commit) -> set[str] | None:
        """Return the objects that a commit refers to; ``None`` if some are missing."""
        keys = set()
        if made.metarange_id:
            keys.add(sstable_key(made.metarange_id))
            repository.forget_trees()
            try:
                for record in repository.trees.metarange(made.metarange_id).records():
                    keys.add(sstable_key(record.id))
                    for _, value in repository.trees.table(record).records():
                        keys.add(decode_entry(value).physical_address)
            except IntegrityError:
                return None
        return keys

    @rule(action=ACTIONS)
    def work(self, action: tuple[str, int, bytes]) -> None:
        self.act(action)

    @rule(hours=st.one_of(HOURS, st.just(24 * 31)))
    def pass_by(self, hours: int) -> None:
        self.shared.time.pass_by(timedelta(hours=hours))

    @rule(step=st.sampled_from(["", *STEPS]), action=ACTIONS, wait=st.booleans())
    def collect(self, step: str, action: tuple[str, int, bytes], *, wait: bool) -> None:
        pending = [action] if step else []

        def meanwhile(name: str) -> None:
            if name == step and pending:
                with suppress(LakeError):
                    self.act(pending.pop())

        if wait:
            self.shared.time.pass_by(GRACE + timedelta(hours=2))
        lake = self.cleo.lake
        lake.runtime = lake.runtime._replace(on_step=meanwhile)
        try:
            with suppress(StateMoved):
                self.shared.collect(self.cleo)
        finally:
            lake.runtime = lake.runtime._replace(on_step=lambda _name: None)

    @rule(
        number=WORKERS,
        contents=st.sampled_from([CONTENTS[0], b"", b""]),
        actions=st.lists(st.tuples(KINDS, WORKERS, HOURS), min_size=2, max_size=2),
        step=st.sampled_from(["", "gc:condemned", "gc:sweeping", "gc:delete", "gc:delete"]),
        last=KINDS,
        alike=st.booleans(),
    )
    def go_round(
        self,
        number: int,
        contents: bytes,
        actions: list[tuple[str, int, int]],
        step: str,
        last: str,
        *,
        alike: bool = False,
    ) -> None:
        """Leave something, condemn it, work with it for some hours, and sweep when that is due.

        Contents that are ``b""`` are some that nothing refers to yet.
        """
        contents = contents or self.shared.time.now.isoformat().encode()
        if read_state(self.shared.store).phase is Phase.CONDEMNED:
            self.collect("", (last, number, contents), wait=True)
        self.act(("upload", number, contents))
        self.collect(step, (last, number, contents), wait=True)
        begun = self.shared.time.now
        for what, who, hours in actions:
            self.work((actions[0][0] if alike else what, who, contents))
            self.pass_by(hours)
        due = begun + GRACE + timedelta(hours=1, minutes=1)
        self.shared.time.now = max(self.shared.time.now, due)
        self.collect(step, (last, 1 - number, contents), wait=False)

    @rule()
    def take_back(self) -> None:
        with suppress(NothingToDo, Refused):
            undo(self.cleo)

    @invariant()
    def refs_reach_what_is_there(self) -> None:
        """The commits of refs, present and recent, are complete with their history."""
        present, now = self.present(), self.shared.time.now
        lately = now - REFLOG
        waiting = [commit_id for commit_id, at in self.stood.items() if at > lately]
        refs = read_refs(self.shared.store, iter_refs(self.shared.store))
        waiting += [ref.commit_id for ref in refs if ref.commit_id is not None]
        seen: set[str] = set()
        while waiting:
            commit_id = waiting.pop()
            if commit_id not in seen:
                seen.add(commit_id)
                assert self.needs.get(commit_id, set()) <= present, "history is broken"
                waiting += self.parents.get(commit_id, ())

    @invariant()
    def what_was_touched_lately_is_there(self) -> None:
        since = self.shared.time.now - GRACE + timedelta(minutes=5)
        lately = {key for key, at in self.touched.items() if at > since}
        assert lately <= self.present()


SETTINGS = settings(
    max_examples=15,
    stateful_step_count=10,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
TestCollecting = Collecting.TestCase
TestCollecting.settings = SETTINGS


def no_guard(patch: pytest.MonkeyPatch) -> None:
    """Let writers refer to existing objects without protecting them."""
    patch.setattr(GcGuard, "settle", lambda _self, **_keys: None)


def no_marking_again(patch: pytest.MonkeyPatch) -> None:
    """Let a sweep delete all condemned objects except kept ones."""
    nothing = Roots(0, frozenset(), frozenset(), frozenset(), {})
    patch.setattr(sweep, "reach_all", lambda _work, _live, reach: (nothing, reach))
    patch.setattr(sweep, "list_tables", lambda *_args: {})


def no_keeps(patch: pytest.MonkeyPatch) -> None:
    """Let a sweep ignore the keeps."""
    patch.setattr(sweep, "iter_keeps", lambda *_args: iter(()))


def no_waiting(patch: pytest.MonkeyPatch) -> None:
    """Let writers continue while a sweep deletes, and check nothing afterwards."""
    patch.setattr(GcGuard, "_await_sweep", GcGuard._read)
    patch.setattr(collection, "may_have_swept", lambda *_states: False)


HOLES: list[Callable[[pytest.MonkeyPatch], None]] = [
    no_guard,
    no_marking_again,
    no_keeps,
    no_waiting,
]


@pytest.mark.parametrize(
    "hole",
    [
        no_guard,
        no_marking_again,
        # These take some hundred rounds.
        pytest.param(no_keeps, marks=pytest.mark.nightly),
        pytest.param(no_waiting, marks=pytest.mark.nightly),
    ],
)
def test_random_work_falls_into_each_hole(
    monkeypatch: pytest.MonkeyPatch, hole: Callable[[pytest.MonkeyPatch], None]
) -> None:
    hole(monkeypatch)
    bounded = settings(
        SETTINGS, max_examples=150, derandomize=True, phases=[HypothesisPhase.generate]
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Collecting, settings=bounded)


WAYS: dict[Callable[[pytest.MonkeyPatch], None], tuple[list[tuple[str, int, int]], str]] = {
    no_guard: ([("delete", 0, 23), ("upload", 0, 0)], ""),
    no_marking_again: ([("delete", 0, 23), ("commit", 1, 0)], ""),
    # Given a new time first, found to be new enough next, and old for the sweep.
    no_keeps: ([("upload", 0, 23), ("upload", 0, 38)], ""),
    no_waiting: ([("delete", 0, 0)], "gc:delete"),
}


@pytest.mark.parametrize("is_open", [False, True], ids=["closed", "open"])
@pytest.mark.parametrize("hole", HOLES)
def test_the_way_into_each_hole(
    monkeypatch: pytest.MonkeyPatch,
    hole: Callable[[pytest.MonkeyPatch], None],
    *,
    is_open: bool,
) -> None:
    if is_open:
        hole(monkeypatch)
    model = Collecting()
    try:
        actions, step = WAYS[hole]
        model.go_round(1, CONTENTS[0], actions, step, "upload")
        with pytest.raises(AssertionError) if is_open else nullcontext():
            model.what_was_touched_lately_is_there()
            model.refs_reach_what_is_there()
    finally:
        model.teardown()
