"""The matrix finds defects that were fixed, once their fix is taken out."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from lakecli.base import layout
from lakecli.kv.bucket import LocalMove
from lakecli.remote.refs import find_ref
from lakecli.repository import commit_attempts, repo
from lakecli.repository.handle import namespace
from lakecli.repository.journal import intents, unsent_moves
from lakecli.repository.sharing import automatic
from lakecli.repository.sharing import publish as publishing
from lakecli.repository.undo import take_back, undo
from lakecli.stores.contract import ABSENT, ConditionFailed
from tests.meetings.arguments import REPOSITORY, SPECIAL
from tests.meetings.outcomes import Meeting

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.base.model import RepositoryRecord
    from lakecli.repository.undo.undo import Undone
    from lakecli.stores.contract import ObjectStore
    from tests.meetings.matrix import Matrix

MAIN: Final = f"{REPOSITORY}/main"
DEV: Final = f"{REPOSITORY}/dev"


def _nothing(*_: object, **__: object) -> None:
    """Do nothing: the check that stands here is taken out."""


class Mutant(NamedTuple):
    """A fix taken out, and where it shows.

    Attributes:
        apply: takes it out.
        meeting: the cell of the matrix that shows it, at one of its steps at least.
    """

    apply: Callable[[pytest.MonkeyPatch], None]
    meeting: Meeting


def _moves_any_head(patch: pytest.MonkeyPatch) -> None:
    """A branch is moved without comparing it with what the commit was built from."""
    for module in (commit_attempts, intents):
        patch.setattr(module, "is_built_from", lambda *_: True)


def _counts_all_as_seen(patch: pytest.MonkeyPatch) -> None:
    """What is staged during a merge counts as written on top of it."""
    patch.setattr(LocalMove, "from_staging", True)


def _moves_blindly(patch: pytest.MonkeyPatch) -> None:
    """`fs mv` and `fs rm` stage without looking again at what they have read."""
    patch.setattr("lakecli.repository.staged.stager._state", _nothing)


def _undoes_during_a_commit(patch: pytest.MonkeyPatch) -> None:
    """`undo` does not look for a commit on its way to the bucket."""
    patch.setattr(take_back, "check_none_sent", _nothing)


def _forgets_what_was_undone(patch: pytest.MonkeyPatch) -> None:
    """A move that was undone while it was being sent stays in the bucket."""
    patch.setattr(unsent_moves, "note_taken_back", _nothing)


def _blames_the_lists(patch: pytest.MonkeyPatch) -> None:
    """A collection that another one ended takes the missing lists for damage."""
    patch.setattr("lakecli.gc.state._check_unmoved", _nothing)


def _registers_twice(patch: pytest.MonkeyPatch) -> None:
    """`repo create` does not look whether another process has registered the repository."""
    patch.setattr(repo, "_check_intended", _nothing)


def _claims_blindly(patch: pytest.MonkeyPatch) -> None:
    """A claim that the store refuses, because another one was first, counts as made."""

    def claim(store: ObjectStore, record: RepositoryRecord) -> RepositoryRecord:
        owner = namespace.owner_of(store)
        if owner not in (None, record.uuid):
            raise namespace._taken(store, f"repository {owner}")
        with suppress(ConditionFailed):
            store.put(layout.REPOSITORY, namespace._document(record), ABSENT)
        return record

    patch.setattr(namespace, "claim", claim)


def _sends_what_was_put_back(patch: pytest.MonkeyPatch) -> None:
    """A branch that was moved back and put back here is ahead of what is sent, and that is enough.

    Then `branch reset` says that it moved the branch.
    """
    stands_for = intents._stands_for

    def is_ahead(refs: Any, intent: Any, position: Any) -> bool:
        return stands_for(refs, intent._replace(before=None), position)

    patch.setattr(intents, "_stands_for", is_ahead)


def _moves_back_over_others(patch: pytest.MonkeyPatch) -> None:
    """What was undone is moved back in the bucket wherever the ref stands there."""
    publish = publishing.compare_and_publish

    def move(repository: Any, wanted: Any, **options: Any) -> Any:
        if wanted.landing is None:
            ref = find_ref(repository.store, wanted.kind, wanted.name)
            wanted = wanted._replace(before=None if ref is None else ref.commit_id)
        return publish(repository, wanted, **options)

    patch.setattr(automatic, "compare_and_publish", move)


def _moves_back_first(patch: pytest.MonkeyPatch) -> None:
    """`undo` moves back in the bucket before it is known whether it can undo anything here."""
    take = undo._take

    def move_first(repository: Any, target: Any, planned: Any, **options: Any) -> Undone:
        for each in planned:
            ends = each.after, each.before
            wanted = intents.WantedMove(each.kind, each.name, *ends, "eve", "undo")
            publishing.compare_and_publish(repository, wanted)
        return take(repository, target, planned, **options)

    patch.setattr(undo, "_take", move_first)


def _meeting(
    situation: str, first: str, second: str, machine: str = "ada", *, sync: bool = False
) -> Meeting:
    return Meeting(situation, sync, tuple(first.split()), tuple(second.split()), machine)


CREATE: Final = " ".join(SPECIAL["repo create"][0])
COMMIT: Final = f"commit {MAIN} --message m"
MERGE: Final = f"merge {DEV} {MAIN} --message m"
RESET: Final = " ".join(SPECIAL["branch reset"][1])
RESTORE: Final = f"op restore {REPOSITORY} {{operation}} --yes"
UPLOAD: Final = f"fs upload {{files}}/new {MAIN}/t/1"
MUTANTS: Final = {
    "moves any head": Mutant(
        _moves_any_head, _meeting("clean", MERGE, f"cherry-pick {DEV} {MAIN}")
    ),
    "counts all as seen": Mutant(
        _counts_all_as_seen, _meeting("clean", MERGE, f"fs mv {MAIN}/t/2 {MAIN}/moved")
    ),
    "moves blindly": Mutant(
        _moves_blindly, _meeting("clean", f"fs mv {MAIN}/t/1 {MAIN}/moved", UPLOAD)
    ),
    "undoes during a commit": Mutant(
        _undoes_during_a_commit, _meeting("staged", COMMIT, f"undo {REPOSITORY}", sync=True)
    ),
    "forgets what was undone": Mutant(
        _forgets_what_was_undone,
        _meeting("clean", f"tag delete {REPOSITORY}/v1 -y", f"undo {REPOSITORY}", sync=True),
    ),
    "sends what was put back": Mutant(
        _sends_what_was_put_back, _meeting("staged", RESET, f"undo {REPOSITORY}")
    ),
    "registers twice": Mutant(_registers_twice, _meeting("clean", CREATE, CREATE)),
    "claims blindly": Mutant(_claims_blindly, _meeting("clean", CREATE, CREATE, "bob")),
    "undo moves back over others": Mutant(
        _moves_back_over_others,
        _meeting("pushed", f"undo {REPOSITORY}", f"cherry-pick {DEV} {MAIN}", "bob", sync=True),
    ),
    "op restore moves back over others": Mutant(
        _moves_back_over_others,
        _meeting("pushed", RESTORE, f"cherry-pick {DEV} {MAIN}", "bob", sync=True),
    ),
    "moves the bucket back first": Mutant(
        _moves_back_first,
        _meeting("pushed", f"undo {REPOSITORY}", f"fs mv {MAIN}/t/1 {MAIN}/moved", sync=True),
    ),
    "blames the lists": Mutant(
        _blames_the_lists, _meeting("due", f"gc run {REPOSITORY} --yes", f"gc undo {REPOSITORY}")
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS.keys())
def test_the_matrix_refuses_a_mutant_and_nothing_else(
    matrix: Matrix, monkeypatch: pytest.MonkeyPatch, mutant: Mutant
) -> None:
    assert [*matrix.problems(mutant.meeting)] == []
    mutant.apply(monkeypatch)
    matrix.forget()
    try:
        assert [*matrix.problems(mutant.meeting)] != []
    finally:
        matrix.forget()
