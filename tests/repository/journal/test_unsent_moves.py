"""Whether a noted move may be sent, and what becomes of its note."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.base.ids import WriteId
from lakecli.base.model import CommitId, RefKind
from lakecli.errors import NothingToDo
from lakecli.kv.bucket import IntentStore, Tracked, TrackingStore, UnsentMove
from lakecli.remote.ref_records import RecordedMove
from lakecli.repository import branch, tag
from lakecli.repository.commit import commit
from lakecli.repository.journal import operation_log, unsent_moves
from lakecli.repository.journal.operation_log import ref_change
from lakecli.repository.journal.tracking import put_known_moves
from lakecli.repository.journal.unsent_moves import (
    RENAME,
    find_unsent,
    forget,
    forget_renaming,
    is_held,
    iter_unsent,
    note_taken_back,
)
from lakecli.repository.sharing.automatic import SendDecision, judge
from tests.support.clones import make_commit, synced
from tests.support.lakes import START, stage

if TYPE_CHECKING:
    from lakecli.repository.contract import Repository

BRANCH, TAG = RefKind.BRANCH, RefKind.TAG
SEND, NOTHING, REFUSE = SendDecision.SEND, SendDecision.NOTHING, SendDecision.REFUSE


@pytest.fixture
def commits(repository: Repository) -> dict[str, CommitId | None]:
    """The commits 1, 2 and 3 of main, the last of ``side``, which left main at 1, and no commit."""
    first = make_commit(repository, b"1").id
    branch.create(repository, "side", source="main")
    side = make_commit(repository, b"side", "side").id
    second, third = (make_commit(repository, path).id for path in (b"2", b"3"))
    return {"1": first, "2": second, "3": third, "side": side, "-": None}


def track(repository: Repository, kind: RefKind, commit_id: CommitId | None) -> Tracked:
    tracked = Tracked(kind, "main", commit_id, 1, WriteId("0f" * 16), "v")
    with repository.lake.kv.write() as txn:
        TrackingStore(txn, repository.key).put(tracked)
    return tracked


def move(kind: RefKind, before: CommitId | None, after: CommitId | None) -> UnsentMove:
    return UnsentMove(kind, "main", "test", before, after, ("aa",))


@pytest.mark.parametrize(
    ("kind", "before", "after", "there", "verdict"),
    [
        (BRANCH, "1", "2", "2", NOTHING),  # sent already
        (BRANCH, "1", "-", "-", NOTHING),
        (BRANCH, "1", "2", "1", SEND),
        (BRANCH, "2", "1", "2", SEND),
        (BRANCH, "1", "-", "1", SEND),
        (BRANCH, "-", "1", "-", SEND),
        (BRANCH, "2", "3", "1", SEND),  # a fast-forward from where the bucket is
        (BRANCH, "1", "2", "3", NOTHING),  # others have it already, and more
        (BRANCH, "1", "2", "side", REFUSE),
        (BRANCH, "2", "1", "3", REFUSE),  # others built on what is taken back here
        (BRANCH, "3", "1", "2", NOTHING),  # nothing of it is there
        (BRANCH, "3", "2", "1", SEND),
        (BRANCH, "1", "-", "2", REFUSE),  # others moved what is deleted here
        (BRANCH, "-", "2", "1", REFUSE),  # both made a branch of this name
        (TAG, "1", "2", "1", SEND),
        (TAG, "2", "3", "1", REFUSE),
        (TAG, "1", "2", "3", REFUSE),
    ],
)
def test_a_move_is_sent_if_it_undoes_nothing_of_others(
    repository: Repository,
    commits: dict[str, CommitId | None],
    kind: RefKind,
    *,
    before: str,
    after: str,
    there: str,
    verdict: SendDecision,
) -> None:
    track(repository, kind, commits[there])
    wanted = move(kind, commits[before], commits[after])
    with repository.lake.kv.read() as txn:
        assert judge(txn, repository, wanted, commits[there]) is verdict


def test_a_move_back_brings_nothing_back_that_others_took_back_further(
    repository: Repository, commits: dict[str, CommitId | None]
) -> None:
    """The bucket once stood on 3; somebody has moved it back to 1."""
    track(repository, BRANCH, commits["1"])
    id_, why = WriteId("0f" * 16), "branch reset"
    back = RecordedMove(1, id_, commits["3"], commits["1"], "eve", START, why, "")
    with repository.lake.kv.write() as txn:
        put_known_moves(txn, repository, BRANCH, "main", [back])
    wanted = move(BRANCH, commits["3"], commits["2"])
    with repository.lake.kv.read() as txn:
        assert judge(txn, repository, wanted, commits["1"]) is NOTHING


@pytest.mark.parametrize("kind", [BRANCH, TAG])
def test_a_ref_that_the_bucket_never_had_is_sent_and_one_that_others_deleted_is_not(
    repository: Repository, commits: dict[str, CommitId | None], kind: RefKind
) -> None:
    wanted = move(kind, commits["1"], commits["2"])
    with repository.lake.kv.read() as txn:
        assert judge(txn, repository, wanted, None) is SEND
    track(repository, kind, None)
    with repository.lake.kv.read() as txn:
        assert judge(txn, repository, wanted, None) is REFUSE


def noted(repository: Repository, kind: RefKind = BRANCH, name: str = "main") -> UnsentMove | None:
    with repository.lake.kv.read() as txn:
        return find_unsent(txn, repository, kind, name)


def test_a_note_is_read_as_it_was_written(
    repository: Repository, commits: dict[str, CommitId | None]
) -> None:
    made = move(BRANCH, commits["1"], None)
    with repository.lake.kv.write() as txn:
        unsent_moves.put(txn, repository, made)
        assert list(iter_unsent(txn, repository)) == [made]
    assert noted(repository) == made
    assert noted(repository, TAG) is None


def test_moves_that_were_added_meanwhile_stay_noted(
    repository: Repository, commits: dict[str, CommitId | None]
) -> None:
    first, second, third = commits["1"], commits["2"], commits["3"]
    sent = move(BRANCH, first, second)
    cases = [
        (sent, None),
        (move(BRANCH, first, third), move(BRANCH, second, third)),
        (move(BRANCH, third, second), move(BRANCH, third, second)),
    ]
    for present, left in cases:
        with repository.lake.kv.write() as txn:
            unsent_moves.put(txn, repository, present)
            forget(txn, repository, sent)
        assert noted(repository) == left


def test_the_way_back_of_a_move_that_was_undone_is_noted_once(
    repository: Repository, commits: dict[str, CommitId | None]
) -> None:
    second, third = commits["2"], commits["3"]  # main stands on 3
    sender, other = (synced(repository, "somebody").repository for _ in range(2))
    with repository.lake.kv.write() as txn:
        for wanted in (
            move(BRANCH, second, third),  # it was not undone
            move(BRANCH, third, third),
        ):
            assert note_taken_back(txn, sender, wanted) is None
        back = note_taken_back(txn, sender, move(BRANCH, third, second))
        assert note_taken_back(txn, other, move(BRANCH, third, second)) is None
    assert back == noted(repository)
    assert sender.mover is not None
    by = (sender.mover.command_id.hex(),)
    assert back == move(BRANCH, second, third)._replace(operation="undo", by=by)


def test_moves_extend_the_note_of_their_ref(repository: Repository) -> None:
    first = make_commit(repository, b"1").id
    assert noted(repository) is None  # nothing is shared automatically
    shared, again = (synced(repository, "somebody") for _ in range(2))
    by = tuple(each.mover.command_id.hex() for each in (shared, again))
    branch.create(shared.repository, "new", source="main")
    tag.create(shared.repository, "v1", "main")
    made = noted(repository, name="new")
    assert made is not None
    assert made[:5] == (BRANCH, "new", "branch create", None, first)
    assert made[5:] == (by[:1], "", None)
    # A command of a clone that shares by hand keeps the note right, and notes no other ref.
    second = make_commit(repository, b"2", "new").id
    extended = noted(repository, name="new")
    assert extended == made._replace(operation="commit", after=second)
    make_commit(repository, b"3")
    assert noted(repository) is None
    branch.delete(again.repository, "new")
    tag.delete(again.repository, "v1")
    assert noted(repository, name="new") is noted(repository, TAG, "v1") is None
    branch.create(again.repository, "new", source="main~1")
    found = noted(repository, name="new")
    assert found is not None
    assert (found.before, found.after, found.by) == (None, first, by[1:])


def test_the_other_refs_of_an_operation_are_noted_if_one_does_not_move(
    repository: Repository,
) -> None:
    head = branch.show(repository, "main")
    shared = synced(repository, "somebody").repository
    changes = [ref_change(head, head), ref_change(None, head._replace(name="new"))]
    with repository.lake.kv.write() as txn:
        operation = operation_log.append(txn, shared, kind="test", refs=changes)
        unsent_moves.note(txn, shared, operation)
    assert noted(repository) is None
    made = noted(repository, name="new")
    assert made is not None
    assert (made.before, made.after) == (None, head.commit_id)


def test_only_the_rest_of_the_same_renaming_is_forgotten(
    repository: Repository, commits: dict[str, CommitId | None]
) -> None:
    first, second = commits["1"], commits["2"]
    refused = move(BRANCH, None, first)._replace(operation=RENAME, replaces="old")

    def other(
        name: str, operation: str, before: CommitId | None, after: CommitId | None
    ) -> UnsentMove:
        return UnsentMove(BRANCH, name, operation, before, after, ())

    rest = other("old", RENAME, first, None)
    kept = [
        other("made", RENAME, None, second),
        other("moved", RENAME, first, second),
        other("elsewhere", RENAME, second, None),
        other("deleted", "branch delete", first, None),
        other("deleted elsewhere", "branch delete", second, None),
    ]
    with repository.lake.kv.write() as txn:
        for each in [rest, *kept]:
            unsent_moves.put(txn, repository, each)
        for no_refusal in (
            refused._replace(operation="branch create", replaces=""),
            refused._replace(before=second),
        ):
            forget_renaming(txn, repository, no_refusal)
        assert set(iter_unsent(txn, repository)) == {rest, *kept}
        forget_renaming(txn, repository, refused)
        assert set(iter_unsent(txn, repository)) == set(kept)


def test_a_ref_is_held_until_it_moves_in_the_bucket(
    repository: Repository, commits: dict[str, CommitId | None]
) -> None:
    tracked = track(repository, BRANCH, commits["3"])
    fields = {"held": tracked.write_id, "kind": BRANCH, "name": "main"}
    with repository.lake.kv.write() as txn:
        assert not is_held(txn, repository, tracked)
        IntentStore(txn, repository.key).put(unsent_moves._row("held", BRANCH, "main"), fields)
        assert is_held(txn, repository, tracked)
        assert not is_held(txn, repository, tracked._replace(write_id=WriteId("1f" * 16)))
        assert not is_held(txn, repository, tracked._replace(kind=TAG))


@pytest.mark.parametrize("there", ["-", "1", "3"])
def test_a_ref_is_held_where_the_bucket_has_it_elsewhere(
    repository: Repository, commits: dict[str, CommitId | None], there: str
) -> None:
    """And not where it stands there, or was never seen there."""
    tracked = track(repository, BRANCH, commits[there]) if there != "-" else None
    shown = branch.show(repository, "main")  # on 3
    with repository.lake.kv.write() as txn:
        unsent_moves.hold(txn, repository, ref_change(None, shown))
        assert (tracked is not None and is_held(txn, repository, tracked)) == (there == "1")


def test_a_ref_stays_held_while_only_its_staging_area_changes(
    repository: Repository, commits: dict[str, CommitId | None]
) -> None:
    tracked = track(repository, BRANCH, commits["3"])
    fields = {"held": tracked.write_id, "kind": BRANCH, "name": "main"}
    with repository.lake.kv.write() as txn:
        IntentStore(txn, repository.key).put(unsent_moves._row("held", BRANCH, "main"), fields)
    stage(repository, "main", {b"1": b"1"})  # as the head has it
    with pytest.raises(NothingToDo):
        commit(repository, "main", message="m", committer="me")
    with repository.lake.kv.read() as txn:
        assert is_held(txn, repository, tracked)


@pytest.mark.parametrize("kind", ["undo", "pull"])
@pytest.mark.parametrize("syncs", [False, True])
def test_a_ref_is_held_by_what_moves_it_here_only_under_sync(
    repository: Repository, commits: dict[str, CommitId | None], *, syncs: bool, kind: str
) -> None:
    tracked = track(repository, BRANCH, commits["3"])
    handle = synced(repository, "me").repository if syncs else repository
    before = branch.show(repository, "main")
    assert commits["2"] is not None
    after = before._replace(commit_id=commits["2"])
    change = ref_change(before, after)._replace(is_local=kind == "undo")
    with repository.lake.kv.write() as txn:
        if kind == "undo":
            operation = operation_log.append(txn, handle, kind=kind, refs=[change])
            unsent_moves.note(txn, handle, operation)
        else:
            unsent_moves.drop_notes(txn, handle, [change])
        assert is_held(txn, handle, tracked) == (syncs and kind == "undo")
