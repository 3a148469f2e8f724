"""The program, stopped before each request to the bucket while other clones act.

`protocol.py` explores a model of what collectors and writers do. Here the program does it: one
command is stopped before its n-th request, for every n, another machine does something from
beginning to end, and the first goes on. The promises are looked after by what the test itself knows
to be in use, with no help of the program.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest
from blake3 import blake3

from lakecli.errors import LakeError
from lakecli.repository import branch
from lakecli.repository.commit import commit
from tests.gc.shared import LONG, Shared, make_commit, push, read_all, upload
from tests.support.lakes import through
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HOUR = timedelta(hours=1)
REQUESTS = ("get", "get_versioned", "open", "put", "put_new", "head", "list", "delete", "copy")
X: Final = b"left"


def key_of(contents: bytes) -> str:
    digest = blake3(contents).hexdigest()
    return f"data/{digest[:2]}/{digest[2:]}"


class Stopping(MemoryStore):
    """A store that calls a function before the n-th request of one of its users.

    Attributes:
        count: of requests so far.
        at: before which one to call; 0: never.
        act: what to call.
    """

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared.bucket, "ns/")
        self.count = 0
        self.at = 0
        self.act: Callable[[], None] = lambda: None
        self.deletes_at: set[int] = set()

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in (*REQUESTS, "delete_matching") or found is None:
            return found

        def request(*args: Any, **options: Any) -> Any:
            self.count += 1
            if name == "delete":
                self.deletes_at.add(self.count)
            if self.count == self.at:
                self.act()
            return found(*args, **options)

        return request


class Unconditional(Stopping):
    """A store that deletes without conditions, as S3 does."""

    delete_matching = None  # type: ignore[assignment]


class Scene:
    """Ada has pushed and cleo collects; X is garbage, and ben has a commit that he never pushed.

    Attributes:
        acknowledged: contents that somebody was told to be in use, since they last were.
    """

    def __init__(self, directory: Path) -> None:
        self.shared = Shared(directory, "ada", "ben", "cleo")
        self.ada, self.ben, self.cleo = self.shared.clones
        make_commit(self.ada, {b"used": b"used"})
        push(self.ada)
        upload(self.ben, b"x", X)
        branch.create(self.ben, "work", source="main")
        make_commit(self.ben, {b"work": b"work"}, "work")
        upload(self.ben, b"staged", b"staged", "work")
        self.shared.time.pass_by(LONG)
        self.acknowledged: set[bytes] = set()

    def condemn(self) -> None:
        self.shared.collect(self.cleo)

    def begin(self) -> None:
        """Condemn, and wait until it can be swept."""
        self.shared.collect(self.cleo)
        self.shared.time.pass_by(LONG)

    # What others do.

    def upload_again(self) -> None:
        with suppress(LakeError):
            upload(self.ben, b"again", X)
            self.acknowledged.add(X)

    def commit_what_was_staged(self) -> None:
        # Staged longer ago than the grace period: where that was lost, a push says so.
        with suppress(LakeError):
            commit(self.ben, "work", message="m", committer="me")
            if key_of(b"staged") in self.shared.data:
                self.acknowledged.add(b"staged")

    def push_old_work(self) -> None:
        with suppress(LakeError):
            push(self.ben, "work")
            self.acknowledged.add(b"work")

    def fall_asleep(self) -> None:
        """Pause until another machine has swept and X is uploaded again."""
        for _ in range(2):
            self.shared.time.pass_by(LONG)
            with suppress(LakeError):
                self.shared.collect(self.ada)
        self.upload_again()

    def another_collector(self) -> None:
        with suppress(LakeError):
            self.shared.collect(self.ada)

    def check(self) -> None:
        """Check that refs are complete, and that objects recently taken into use exist."""
        assert read_all(self.ada, "main") == {b"used": b"used"}
        missing = {each for each in self.acknowledged if key_of(each) not in self.shared.data}
        assert not missing


ACTS = ["upload_again", "commit_what_was_staged", "push_old_work", "fall_asleep"]


def run(directory: Path, command: str, act: str, at: int, *, conditional: bool) -> Stopping:
    scene = Scene(directory)
    with scene.shared:
        if command == "sweep":
            scene.begin()
        store = (Stopping if conditional else Unconditional)(scene.shared)
        scene.cleo = through(scene.cleo, store)
        store.act, store.at = getattr(scene, act), at
        with suppress(LakeError):
            scene.shared.collect(scene.cleo)
        scene.check()
        # Whatever state it left: within another round everything is well.
        scene.cleo = through(scene.cleo, scene.shared.store)
        scene.shared.time.pass_by(HOUR)
        with suppress(LakeError):
            scene.shared.collect(scene.cleo)
        scene.check()
        return store


def act_before_each(
    directory: Path, command: str, act: str, *, conditional: bool, step: int
) -> None:
    whole = run(directory / "0", command, act, 0, conditional=conditional)
    assert whole.count > 15
    for at in range(1, whole.count + 1, step):
        if act == "fall_asleep" and not conditional and at in whole.deletes_at:
            # A request that was signed and waits for so long is refused by the store.
            continue
        run(directory / str(at), command, act, at, conditional=conditional)


@pytest.mark.parametrize("act", ACTS)
def test_others_may_act_before_requests_of_a_sweep(tmp_path: Path, act: str) -> None:
    act_before_each(tmp_path, "sweep", act, conditional=act == "fall_asleep", step=3)


@pytest.mark.nightly
@pytest.mark.parametrize("conditional", [False, True], ids=["S3", "versions"])
@pytest.mark.parametrize("act", [*ACTS, "another_collector"])
@pytest.mark.parametrize("command", ["condemn", "sweep"])
def test_others_may_act_before_each_request(
    tmp_path: Path, command: str, act: str, *, conditional: bool
) -> None:
    act_before_each(tmp_path, command, act, conditional=conditional, step=1)
