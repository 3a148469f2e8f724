"""Refs that vanish or go back stop a collection: nothing is deleted because of them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.layout import SSTABLES, data_key, ref_key
from lakecli.base.model import RefKind
from lakecli.errors import ErrorKind, IntegrityError
from lakecli.gc.known_refs import (
    LAST,
    SEEN,
    DamagedObservation,
    KnownRefs,
    RefsWentBack,
    UnreadableRef,
    dump,
    read_known_refs,
    read_last,
)
from lakecli.gc.run import Action, undo
from lakecli.gc.state import Marks
from lakecli.remote.gc_protocol import Phase, read_state
from lakecli.remote.refs import find_ref
from lakecli.repository import branch
from lakecli.repository import push as pushing
from lakecli.repository.sharing.fetch import fetch
from lakecli.stores.contract import ANY, ObjectNotFound
from tests.gc.shared import LONG, Shared, make_commit, push, read_all
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakecli.base.model import Commit
    from lakecli.repository.contract import Repository
    from lakecli.stores.contract import ObjectInfo, Version

    Lose = Callable[[MemoryStore, "Scene"], None]

MONTHS = timedelta(days=100)
SIDE = ref_key(RefKind.BRANCH, "side")


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    with Shared(tmp_path, "ada", "ben", "cleo") as made:
        yield made


class Scene:
    """A branch that ada pushed twice, long ago, with an object that only it has; and garbage.

    Attributes:
        backup: the object of the branch before the last push.
        commits: the commits of both pushes.
    """

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.ada, self.ben, self.cleo = shared.clones
        make_commit(self.ada, {b"base": b"base"})
        push(self.ada)
        branch.create(self.ada, "side", source="main")
        self.commits: list[Commit] = [make_commit(self.ada, {b"one": b"1"}, "side")]
        push(self.ada, "side")
        self.backup = shared.store.get(SIDE)
        self.commits.append(make_commit(self.ada, {b"two": b"22"}, "side"))
        push(self.ada, "side")
        shared.store.put(data_key(blake3_of(b"left").hex()), b"left", ANY)
        shared.time.pass_by(MONTHS)

    def everything(self) -> set[str]:
        return self.shared.data | self.shared.tables


@pytest.fixture
def scene(shared: Shared) -> Scene:
    return Scene(shared)


def remove(store: MemoryStore, scene: Scene) -> None:
    store.delete([SIDE])


def go_back(store: MemoryStore, scene: Scene) -> None:
    store.put(SIDE, scene.backup, ANY)


def damage(store: MemoryStore, scene: Scene) -> None:
    store.put(SIDE, b"{}", ANY)


LOSSES = {"missing": remove, "older": go_back, "damaged": damage}


def check_refused(scene: Scene, collector: Repository) -> None:
    """Check that a run stops, says what is known, and deletes nothing."""
    before = scene.everything()
    for _ in range(2):
        with pytest.raises(IntegrityError) as raised:
            scene.shared.collect(collector)
        assert raised.value.kind is ErrorKind.INTEGRITY
        assert "side" in raised.value.message
        assert f"saw it on commit {scene.commits[1].id} at move 2" in raised.value.message
        assert raised.value.hint
    assert scene.everything() == before


@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("who", ["pushed it", "fetched it", "collected before"])
def test_before_a_mark(scene: Scene, lose: Lose, who: str) -> None:
    collector = scene.ada if who == "pushed it" else scene.ben
    if who == "fetched it":
        fetch(scene.ben)
    elif who == "collected before":
        scene.shared.collect(scene.cleo)
        undo(scene.cleo)
    lose(scene.shared.store, scene)
    check_refused(scene, collector)


@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
def test_before_a_sweep_of_another_clone(scene: Scene, lose: Lose) -> None:
    assert scene.shared.collect(scene.ben).action is Action.CONDEMNED
    scene.shared.time.pass_by(LONG)
    lose(scene.shared.store, scene)
    check_refused(scene, scene.cleo)
    assert read_state(scene.shared.store).phase is Phase.CONDEMNED


@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("step", ["gc:mark", "gc:prepare", "gc:sweeping"])
def test_while_it_runs(scene: Scene, lose: Lose, step: str) -> None:
    """The collector never saw the branch before this run."""
    shared, ben = scene.shared, scene.ben
    if step != "gc:mark":
        assert shared.collect(ben).action is Action.CONDEMNED
        shared.time.pass_by(LONG)
    shared.store.delete([LAST, *(info.key for info in shared.store.list(SEEN))])
    before = scene.everything()

    def on_step(name: str) -> None:
        if name == step:
            lose(shared.store, scene)

    ben.lake.runtime = ben.lake.runtime._replace(on_step=on_step)
    with pytest.raises(IntegrityError, match=str(scene.commits[1].id)):
        shared.collect(ben)
    assert scene.everything() == before
    # A sweep that has begun ends, as all writers wait for it.
    expected = {"gc:mark": Phase.IDLE, "gc:prepare": Phase.CONDEMNED, "gc:sweeping": Phase.IDLE}
    assert read_state(shared.store).phase is expected[step]


def test_a_ref_that_is_listed_and_not_found(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    real = MemoryStore.get_versioned

    def get_versioned(
        store: MemoryStore, key: str, *, length: int | None = None
    ) -> tuple[bytes, Version]:
        if key == SIDE:
            raise ObjectNotFound(key)
        return real(store, key, length=length)

    fetch(scene.ben)
    monkeypatch.setattr(MemoryStore, "get_versioned", get_versioned)
    for collector, known in ((scene.ben, "saw it on commit"), (scene.cleo, "cannot be read there")):
        before = scene.everything()
        with pytest.raises(UnreadableRef, match=known):
            scene.shared.collect(collector)
        with pytest.raises(UnreadableRef):
            scene.shared.collect(collector, accept_restored=True)
        assert scene.everything() == before


def test_a_ref_that_is_not_listed_yet_keeps_what_it_needs(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = MemoryStore.list
    fetch(scene.ben)
    monkeypatch.setattr(
        MemoryStore,
        "list",
        lambda *args, **options: (each for each in real(*args, **options) if each.key != SIDE),
    )
    assert scene.shared.collect_all(scene.ben).action is Action.SWEPT
    assert read_all(scene.ada, "side") == {b"base": b"base", b"one": b"1", b"two": b"22"}


def test_a_deleted_branch_leaves_a_tombstone_and_stops_nobody(scene: Scene) -> None:
    scene.shared.collect(scene.ben)
    branch.delete(scene.ada, "side")
    pushing.push_deletion(scene.ada, "side", options=pushing.PushOptions(who="me"))
    scene.shared.time.pass_by(MONTHS)
    assert scene.shared.collect(scene.ben).action is Action.SWEPT
    scene.shared.store.delete([SIDE])
    with pytest.raises(RefsWentBack, match="'side' is missing"):
        scene.shared.collect(scene.ben)


def test_a_fetch_does_not_accept_what_went_back(scene: Scene) -> None:
    fetch(scene.ben)
    go_back(scene.shared.store, scene)
    fetch(scene.ben)
    with pytest.raises(RefsWentBack, match=str(scene.commits[1].id)):
        scene.shared.collect(scene.ben)


def test_what_was_pushed_again_stops_nobody(scene: Scene) -> None:
    """The numbers of the moves are given out again, but nothing is lost."""
    scene.shared.collect(scene.ben)
    go_back(scene.shared.store, scene)
    with pytest.raises(RefsWentBack):
        scene.shared.collect(scene.cleo)
    make_commit(scene.ada, {b"three": b"333"}, "side")
    push(scene.ada, "side")
    for collector in (scene.cleo, scene.ada):
        assert scene.shared.collect(collector).action is Action.WAITS


@pytest.mark.parametrize("lose", [remove, go_back])
def test_a_person_accepts_the_present_refs(scene: Scene, lose: Lose) -> None:
    shared = scene.shared
    assert shared.collect(scene.ben).action is Action.CONDEMNED
    shared.time.pass_by(LONG)
    lose(shared.store, scene)
    questions: list[str] = []
    dry = shared.collect(scene.ada, accept_restored=True, dry_run=True, confirm=questions.append)
    assert dry.accepted
    assert not questions
    with pytest.raises(RefsWentBack):
        shared.collect(scene.ada)
    before = scene.everything()
    report = shared.collect(scene.ada, accept_restored=True, confirm=questions.append)
    assert len(questions) == 1
    assert str(scene.commits[1].id) in questions[0]
    assert [(each.name, each.sequence) for each in report.accepted] == [("side", 2)]
    # The grace period begins again, so that what only clones have can be pushed.
    assert report.action is Action.CONDEMNED
    assert shared.collect(scene.ada).action is Action.WAITS
    assert scene.everything() == before
    shared.time.pass_by(LONG)
    assert shared.collect(scene.cleo, accept_restored=True).action is Action.SWEPT
    # The object of the last push is on no branch of the bucket, but on one of ada.
    assert read_all(scene.ada, "main") == {b"base": b"base"}


def test_what_is_lost_after_the_question_is_not_accepted(scene: Scene) -> None:
    shared = scene.shared
    go_back(shared.store, scene)
    before = scene.everything()
    with pytest.raises(RefsWentBack, match="'side' is missing; this run saw it"):
        shared.collect(
            scene.ada, accept_restored=True, confirm=lambda _: remove(shared.store, scene)
        )
    with pytest.raises(RefsWentBack):
        shared.collect(scene.ada)
    assert scene.everything() == before


def test_what_is_missing_is_asked_about_though_the_last_record_is_damaged(scene: Scene) -> None:
    shared, questions = scene.shared, list[str]()
    fetch(scene.ben)
    remove(shared.store, scene)
    shared.store.put(LAST, b"x\n", ANY)
    with pytest.raises(RefsWentBack, match="'side' is missing"):
        shared.collect(scene.ben)
    report = shared.collect(scene.ben, accept_restored=True, confirm=questions.append)
    assert "'side' is missing" in questions[0]
    assert LAST in questions[0]
    assert [each.name for each in report.accepted] == ["side"]


def test_a_collection_may_be_undone_while_refs_are_accepted(scene: Scene) -> None:
    shared = scene.shared
    assert shared.collect(scene.ben).action is Action.CONDEMNED
    remove(shared.store, scene)

    def undo_meanwhile(_question: str) -> None:
        undo(scene.ben)

    report = shared.collect(scene.ada, accept_restored=True, confirm=undo_meanwhile)
    assert (report.action, len(report.accepted)) == (Action.CONDEMNED, 1)


def test_what_was_condemned_while_refs_were_accepted_waits(scene: Scene) -> None:
    shared = scene.shared
    go_back(shared.store, scene)

    def answer_late(question: str) -> None:
        assert question.startswith("accept the branches")
        assert shared.collect(scene.cleo).action is Action.CONDEMNED
        shared.time.pass_by(LONG)

    before = scene.everything()
    report = shared.collect(scene.ada, accept_restored=True, confirm=answer_late)
    assert (report.action, len(report.accepted)) == (Action.WAITS, 1)
    assert scene.everything() == before


def test_nothing_is_accepted_where_nothing_went_back(scene: Scene) -> None:
    asked: list[str] = []
    report = scene.shared.collect(scene.ada, accept_restored=True, confirm=asked.append)
    assert (report.accepted, asked) == ((), [])


@pytest.mark.parametrize(
    "body",
    [
        b"x\n",
        b"2 {id} {key} {commit}",
        b"2 {id} {key} {commit}\n2 {id} {key} {commit}\n",
        b"2 {id} {key} x\n",
        b"2 {id} {key}\n",
        b"0 {id} {key} {commit}\n",
        b"2 {id} data/ab {commit}\n",
        b"\xff\n",
    ],
    ids=["nonsense", "cut", "twice", "wrong commit", "no commit", "no number", "no ref", "no text"],
)
def test_a_record_of_the_last_collection_is_read_whole(scene: Scene, body: bytes) -> None:
    fields = {b"{id}": b"a" * 32, b"{key}": SIDE.encode(), b"{commit}": b"b" * 64}
    for name, value in fields.items():
        body = body.replace(name, value)
    store = scene.shared.store
    store.put(LAST, body, ANY)
    with pytest.raises(DamagedObservation, match=LAST):
        scene.shared.collect(scene.ben)
    scene.shared.collect(scene.ben, accept_restored=True)
    ref = find_ref(store, RefKind.BRANCH, "side")
    assert ref is not None
    assert (ref.commit_id, ref.sequence) in [
        (each.commit_id, each.sequence) for each in read_last(store, "lakefs://demo")
    ]


def test_a_record_that_is_too_large(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakecli.gc.known_refs.MAX_SEEN_SIZE", 200)
    refs, _ = read_known_refs(scene.shared.store, KnownRefs("lakefs://demo"))
    assert 0 < dump(refs).count(b"\n") < len(refs)
    scene.shared.store.put(LAST, b"x" * 201, ANY)
    with pytest.raises(DamagedObservation, match="more than"):
        read_last(scene.shared.store, "lakefs://demo")


def test_a_record_that_was_lost_stops_a_collection(scene: Scene) -> None:
    scene.shared.collect(scene.ben)
    scene.shared.store.delete([LAST])
    before = scene.everything()
    with pytest.raises(DamagedObservation, match="it is missing"):
        scene.shared.collect(scene.cleo)
    assert scene.everything() == before
    scene.shared.collect(scene.cleo, accept_restored=True)
    scene.shared.collect(scene.cleo)


def test_a_listing_that_lacks_tables_is_repeated(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Young tables protect the objects of commits that are not pushed yet."""
    shared, cleo = scene.shared, scene.cleo
    assert shared.collect(scene.ben).action is Action.CONDEMNED
    undo(scene.ben)
    shared.time.pass_by(LONG)
    shared.store.put(data_key(blake3_of(b"young").hex()), b"young", ANY)
    shared.time.pass_by(LONG)
    made = make_commit(cleo, {b"young": b"young"})  # not pushed; its object is old by then
    real = MemoryStore.list
    listings = []

    def list_(store: MemoryStore, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        found = real(store, prefix, after=after)
        if prefix == SSTABLES:
            listings.append(prefix)
            return iter([*found][len(listings) % 2 * 100 :])
        return found

    monkeypatch.setattr(MemoryStore, "list", list_)
    assert shared.collect(scene.ben).action is Action.CONDEMNED
    assert len(listings) == 2
    assert "were listed twice" in scene.ben.notices[-1].message
    monkeypatch.undo()
    condemned = Marks(shared.store, read_state(shared.store).mark).data("all")
    assert blake3_of(b"young") not in condemned
    assert blake3_of(b"left") in condemned
    assert read_all(cleo, str(made.id))[b"young"] == b"young"


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"tables": -1}', b'{"tables": "9"}', b"x" * (2 << 20)]
)
def test_a_forged_report_is_not_believed(scene: Scene, body: bytes) -> None:
    assert scene.shared.collect(scene.ben).action is Action.CONDEMNED
    scene.shared.store.put("_lakecli/gc/reports/1-condemned.json", body, ANY)
    scene.shared.time.pass_by(LONG)
    assert scene.shared.collect(scene.ben).action is Action.SWEPT
