"""Random work of several clones while a collector runs, checked against the promise.

What was uploaded, committed or pushed is remembered with its time, and looked for after every
step: what refs reach, and what was touched within the grace period, has to be there. Others act
in the middle of a collection too, before any of its steps.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lakecli.committed.values import decode_entry
from lakecli.errors import IntegrityError, LakeError, NotFound, NothingToDo, Refused
from lakecli.identity import h
from lakecli.layout import data_key, sstable_key
from lakecli.pipeline.gc.run import undo
from lakecli.remote.collection import StateMoved
from lakecli.remote.refs import iter_refs, read_refs
from lakecli.repository import branch
from lakecli.repository.commit import commit
from lakecli.repository.push import PushOptions, push_deletion
from lakecli.repository.references import NotInBucket
from lakecli.repository.reuse import Guard, Swept
from lakecli.repository.sharing import ensure_shareable
from tests.pipeline.gc.shared import GRACE, Shared, push, upload
from tests.pipeline.gc.test_crashes import STEPS

if TYPE_CHECKING:
    from datetime import datetime

    from lakecli.model import Commit
    from lakecli.repository.lake import Repository

CONTENTS = [b"%d" % number for number in range(3)]
WORKERS = st.integers(0, 1)
ACTIONS = st.tuples(
    st.sampled_from(["upload", "commit", "push", "delete"]), WORKERS, st.sampled_from(CONTENTS)
)


class Collecting(RuleBasedStateMachine):
    """Two clones work, a third collects."""

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
        self.touched: dict[str, datetime] = {}
        """Keys that were taken into use, and when."""
        self.needs: dict[str, set[str]] = {}
        """What commits need, by ID: of those that were whole when they were made."""
        self.staged: list[set[str]] = [set(), set()]

    def teardown(self) -> None:
        self.shared.__exit__()
        self.directory.cleanup()

    def act(self, action: tuple[str, int, bytes]) -> None:
        what, number, contents = action
        repository, name = self.workers[number], self.names[number]
        with suppress(NothingToDo, NotFound, Swept):
            if what == "upload":
                upload(repository, contents, contents, name)
                key = data_key(h(contents).hex())
                self.staged[number].add(key)
                self.touch({key})
            elif what == "commit":
                made = commit(repository, name, message="m", committer="me")
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

    def touch(self, keys: set[str]) -> None:
        self.touched.update(dict.fromkeys(keys & self.present(), self.shared.time.now))

    def present(self) -> set[str]:
        return {info.key for info in self.shared.store.list()}

    def keys_of(self, repository: Repository, made: Commit) -> set[str] | None:
        """Return what a commit refers to; ``None`` if some of it is gone."""
        keys = set()
        if made.metarange_id:
            keys.add(sstable_key(made.metarange_id))
            repository.__dict__.pop("trees", None)
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

    @rule(hours=st.sampled_from([1, 13, 24, 51, 24 * 31]))
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
        lake.surroundings = lake.surroundings._replace(on_step=meanwhile)
        try:
            with suppress(StateMoved):
                self.shared.collect(self.cleo)
        finally:
            lake.surroundings = lake.surroundings._replace(on_step=lambda _name: None)

    @rule(
        actions=st.lists(ACTIONS, max_size=3),
        hours=st.integers(0, 47),
        step=st.sampled_from(["", "gc:sweeping", "gc:delete"]),
        last=ACTIONS,
    )
    def go_round(
        self,
        actions: list[tuple[str, int, bytes]],
        hours: int,
        step: str,
        last: tuple[str, int, bytes],
    ) -> None:
        """Condemn, and sweep as soon as possible; others act some hours before that."""
        self.collect("", last, wait=True)
        self.shared.time.pass_by(GRACE + timedelta(hours=1 - hours))
        for action in actions:
            self.work(action)
        self.shared.time.pass_by(timedelta(hours=hours, minutes=1))
        self.collect(step, last, wait=False)

    @rule()
    def take_back(self) -> None:
        with suppress(NothingToDo, Refused):
            undo(self.cleo)

    @invariant()
    def refs_reach_what_is_there(self) -> None:
        present = self.present()
        for ref in read_refs(self.shared.store, iter_refs(self.shared.store)):
            if ref.commit_id in self.needs:
                assert self.needs[ref.commit_id] <= present, f"{ref.name} is broken"

    @invariant()
    def what_was_touched_lately_is_there(self) -> None:
        since = self.shared.time.now - GRACE + timedelta(minutes=5)
        lately = {key for key, at in self.touched.items() if at > since}
        assert lately <= self.present()


TestCollecting = Collecting.TestCase
TestCollecting.settings = settings(
    max_examples=15,
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("guarded", [True, False])
def test_the_model_notices_what_it_should(
    monkeypatch: pytest.MonkeyPatch, *, guarded: bool
) -> None:
    if not guarded:
        monkeypatch.setattr(Guard, "settle", lambda _self, **_keys: None)
    model = Collecting()
    try:
        upload = ("upload", 1, CONTENTS[0])
        model.act(upload)
        model.go_round([upload], 24, "", upload)
        if guarded:
            model.what_was_touched_lately_is_there()
        else:
            with pytest.raises(AssertionError):
                model.what_was_touched_lately_is_there()
    finally:
        model.teardown()
