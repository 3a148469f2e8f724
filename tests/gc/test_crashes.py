"""A collection that is killed at any step ends like one that was not killed."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, BinaryIO

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.layout import data_key
from lakecli.gc.run import Action
from lakecli.remote.gc_protocol import LEASE, Phase, StateMoved, read_state
from lakecli.repository.handle.shareable import ensure_shareable
from lakecli.stores.contract import PLAIN, Attributes
from tests.gc.shared import LONG, Shared, make_commit, push, read_all, upload
from tests.support.lakes import through
from tests.support.memory_store import MemoryBucket, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from lakecli.stores.contract import Condition, Version

STEPS = [
    "gc:mark",
    "gc:write-marks",
    "gc:condemned",
    "gc:prepare",
    "gc:sweeping",
    "gc:delete",
    "gc:idle",
    "gc:clean-up",
]


class Killed(BaseException):
    """The process was killed."""


def prepare(shared: Shared) -> None:
    ada, ben = shared.clones[:2]
    for number in range(2):
        make_commit(ada, {b"used": b"%d" % number})
        push(ada)
    for number in range(3):
        upload(ben, b"left %d" % number, b"left %d" % number)
    shared.time.pass_by(LONG)


def contents(shared: Shared) -> set[str]:
    """Return all keys except those that depend on the number of collections."""
    passing = ("_lakecli/gc/clock", "_lakecli/gc/seen/")
    return {info.key for info in shared.store.list() if not info.key.startswith(passing)}


@pytest.mark.parametrize("other", [False, True], ids=["same machine", "another machine"])
@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_any_step_loses_nothing(tmp_path: Path, step: str, *, other: bool) -> None:
    with Shared(tmp_path / "whole", "ada", "ben", "cleo") as whole:
        prepare(whole)
        whole.collect()
        whole.time.pass_by(LONG)
        whole.collect()
        expected = contents(whole)
    with Shared(tmp_path / "killed", "ada", "ben", "cleo") as shared:
        prepare(shared)
        ada, _, cleo = shared.clones
        killed: list[str] = []

        def kill(name: str) -> None:
            if name == step and not killed:
                killed.append(name)
                raise Killed

        runtime = ada.lake.runtime
        ada.lake.runtime = runtime._replace(on_step=kill)
        last = None
        for _ in range(6):
            try:
                report = shared.collect(cleo if killed and other else ada)
            except Killed:
                continue
            if report.action is Action.SWEPT:
                last = report
                break
            shared.time.pass_by(LONG)
        assert killed
        if step == "gc:clean-up":  # it was through already
            shared.collect(cleo if other else ada)
        else:
            assert last is not None
        assert read_state(shared.store).phase is Phase.IDLE
        # Lists that nobody waits for are dropped a day later.
        shared.time.pass_by(timedelta(days=2))
        shared.collect(cleo if other else ada)
        assert contents(shared) == expected
        assert read_all(ada, "main") == {b"used": b"1"}


class KillingStore(MemoryStore):
    """A store whose user dies before or after its n-th change.

    Attributes:
        left: changes until then; none if negative.
        after: whether the last one still has its effect.
    """

    def __init__(self, bucket: MemoryBucket) -> None:
        super().__init__(bucket, "ns/")
        self.left = -1
        self.after = False

    def _count(self) -> bool:
        self.left -= 1
        if self.left == 0:
            if not self.after:
                raise Killed
            return True
        return False

    def put(
        self, key: str, body: bytes | BinaryIO, condition: Condition, attributes: Attributes = PLAIN
    ) -> Version:
        dies = self._count()
        version = super().put(key, body, condition, attributes)
        if dies:
            raise Killed
        return version

    def delete(self, keys: Iterable[str]) -> None:
        dies = self._count()
        super().delete(keys)
        if dies:
            raise Killed


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_kill_at_any_change_of_the_bucket_loses_nothing(tmp_path: Path, *, after: bool) -> None:
    for count in range(1, 40):
        directory = tmp_path / str(count)
        with Shared(directory, "ada", "ben", "cleo") as shared:
            store = KillingStore(shared.bucket)
            prepare(shared)
            ada, _, cleo = shared.clones
            # The namespace is tried out before the counting begins.
            ensure_shareable(cleo)
            cleo = through(cleo, store)
            store.left, store.after = count, after
            died = False
            for _ in range(8):
                try:
                    report = shared.collect(cleo)
                except Killed:
                    died = True
                    continue
                if report.action is Action.SWEPT:
                    break
                shared.time.pass_by(LONG)
            assert read_state(shared.store).phase is Phase.IDLE
            assert read_all(ada, "main") == {b"used": b"1"}
            if not died:
                assert count > 8
                return
    pytest.fail("it never ended")


def test_a_sweep_deletes_nothing_after_it_was_taken_over(tmp_path: Path) -> None:
    with Shared(tmp_path, "ada", "ben", "cleo") as shared:
        prepare(shared)
        ada, ben, cleo = shared.clones
        shared.collect(ada)
        shared.time.pass_by(LONG)
        taken: list[str] = []

        def take_over(name: str) -> None:
            if name == "gc:delete" and not taken:
                taken.append(name)
                assert shared.collect(cleo).action is Action.WAITS
                shared.time.pass_by(LEASE)
                assert shared.collect(cleo).action is Action.SWEPT
                upload(ben, b"again", b"left 1")

        ada.lake.runtime = ada.lake.runtime._replace(on_step=take_over)
        with pytest.raises(StateMoved):
            shared.collect(ada)
        assert data_key(blake3_of(b"left 1").hex()) in shared.data
        assert data_key(blake3_of(b"left 2").hex()) not in shared.data
