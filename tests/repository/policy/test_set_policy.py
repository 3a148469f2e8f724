"""Setting rules, taking that back, and lakeFS's protected branches."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from lakecli.base.layout import REPOSITORY, ref_key
from lakecli.base.model import RefKind
from lakecli.errors import (
    AlreadyExists,
    Forbidden,
    IntegrityError,
    NotFound,
    NothingToDo,
    Refused,
    UsageError,
)
from lakecli.remote.policy import PolicyMoved, iter_policies, read_policy
from lakecli.remote.refs import find_ref
from lakecli.repository import branch, branch_protect
from lakecli.repository.handle.namespace import describe, need_policy
from lakecli.repository.push import PushLease, PushOptions, push
from lakecli.repository.sharing.set_policy import iter_refused, set_by_command, set_policy
from lakecli.repository.undo.log import iter_log
from lakecli.repository.undo.undo import redo, restore, undo
from lakecli.stores.contract import ANY
from tests.support.clones import Clones, make_commit, there

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.repository.contract import Repository

ADA = "Ada <ada@x>"
BOB = "Bob <bob@x>"
ONE = "[[rules]]\nrefs = ['main']\nforbid = ['rewind']\n"
TWO = "[[rules]]\nrefs = ['main']\nforbid = ['delete']\n"


@pytest.fixture
def clones(tmp_path: Path) -> Iterator[tuple[Repository, Repository]]:
    with Clones.make(tmp_path, "ada", "bob") as made:
        ada, bob = made.repositories
        make_commit(ada, b"a")
        push(ada, "main", options=PushOptions(ADA))
        yield ada, bob


def documents(repository: Repository) -> list[str]:
    return [each.document for each in iter_policies(repository.store)]


def test_owners_alone_set_it_and_each_version_is_kept(clones: tuple[Repository, ...]) -> None:
    ada, bob = clones
    owned = "owners = ['ada@x']\n"
    assert set_policy(bob, owned, who=BOB).number == 1
    with pytest.raises(Forbidden, match="policy 1 belongs to ada@x, and Bob <bob@x> is not"):
        set_policy(bob, "", who=BOB)
    with pytest.raises(NothingToDo):
        set_policy(ada, owned, who=ADA)
    with pytest.raises(UsageError):
        set_policy(ada, "x", who=ADA)
    with pytest.raises(PolicyMoved):
        set_policy(ada, ONE, who=ADA, expected=0)
    set_policy(ada, ONE, who=ADA, expected=1)
    assert documents(bob) == [ONE, owned]


def test_an_older_lakecli_does_not_write_past_it(clones: tuple[Repository, ...]) -> None:
    ada, _ = clones
    before = json.loads(ada.store.get(REPOSITORY))
    set_policy(ada, ONE, who=ADA)
    set_policy(ada, TWO, who=ADA)
    assert json.loads(ada.store.get(REPOSITORY)) == before | {"needs_write": ["policy"]}
    found = describe(ada.store)
    assert found is not None
    assert not found.needs_write


def test_what_it_would_have_refused(clones: tuple[Repository, ...]) -> None:
    ada, _ = clones
    make_commit(ada, b"b")
    push(ada, "main", options=PushOptions(ADA))
    branch.reset(ada, "main", to=branch.show(ada, "main").commit_id, is_forced=True)
    stood = there(ada)
    assert stood is not None
    first = next(iter(_parents(ada)))
    branch.reset(ada, "main", to=first, is_forced=True)
    push(ada, "main", options=PushOptions(ADA, lease=PushLease(stood)))
    (found,) = iter_refused(ada, ONE)
    assert (found.name, found.move.before, found.move.after) == ("main", stood, first)
    assert "does not build on" in found.why
    assert not list(iter_refused(ada, TWO))
    assert read_policy(ada.store) is None


def _parents(repository: Repository) -> tuple[str, ...]:
    from lakecli.refs.ref_store import RefStore

    with repository.lake.kv.read() as txn:
        head = branch.show(repository, "main").commit_id
        return RefStore(txn, repository.key).get_commit(head).parents


def test_undo_sets_the_former_rules_again(clones: tuple[Repository, ...]) -> None:
    ada, bob = clones
    set_by_command(ada, ONE, who=ADA)
    set_by_command(ada, TWO, who=ADA)
    with pytest.raises(Refused, match="holds for everybody"):
        undo(ada)
    undo(ada, remote=True, committer=ADA)
    assert documents(ada)[0] == ONE
    undo(ada, remote=True, committer=ADA)
    assert documents(ada)[0] == ""
    redo(ada, committer=ADA)
    redo(ada, committer=ADA)
    assert documents(ada) == [TWO, ONE, "", ONE, TWO, ONE]
    first = [each.operation for each in iter_log(ada) if each.operation.kind == "policy set"][-1]
    restore(ada, first.id.hex(), remote=True, committer=ADA)
    assert documents(ada)[0] == ONE
    set_policy(bob, "# mine", who=BOB)
    with pytest.raises(Refused, match="others have set the policy since"):
        undo(ada, remote=True, committer=ADA)


def test_an_undo_that_was_interrupted_is_completed(clones: tuple[Repository, ...]) -> None:
    ada, _ = clones
    set_by_command(ada, ONE, who=ADA)
    set_by_command(ada, TWO, who=ADA)
    set_policy(ada, ONE, who=ADA)  # as an undo that was killed before its operation was written
    undo(ada, remote=True, committer=ADA)
    assert documents(ada) == [ONE, TWO, ONE]


def test_protected_branches(clones: tuple[Repository, ...]) -> None:
    ada, bob = clones
    assert branch_protect.patterns(ada) == []
    branch_protect.add(ada, "main", who=ADA)
    branch_protect.add(bob, "release-*", who=BOB)
    assert branch_protect.patterns(ada) == ["main", "release-*"]
    with pytest.raises(AlreadyExists):
        branch_protect.add(ada, "main", who=ADA)
    with pytest.raises(UsageError, match="not a pattern of names"):
        branch_protect.add(ada, "[", who=ADA)
    with pytest.raises(NotFound):
        branch_protect.delete(ada, "dev", who=ADA)
    branch_protect.delete(ada, "main", who=ADA)
    assert branch_protect.patterns(ada) == ["release-*"]
    undo(ada, remote=True, committer=ADA)
    assert branch_protect.patterns(ada) == ["main", "release-*"]
    branch_protect.delete(ada, "main", who=ADA)
    branch_protect.delete(ada, "release-*", who=ADA)
    assert documents(ada)[0] == ""


def test_protected_branches_are_replaced_at_once(clones: tuple[Repository, ...]) -> None:
    ada, bob = clones
    by_hand = '[[rules]]\nrefs = ["x"]\nforbid = ["direct", "delete"]\n'
    set_policy(ada, by_hand, who=ADA)
    branch_protect.add(ada, "main", who=ADA)
    present = read_policy(ada.store)
    for wanted, error in (({"dev"}, Refused), ({"A", "[", "main", "x"}, UsageError)):
        with pytest.raises(error):
            branch_protect.set_patterns(ada, wanted, who=ADA, present=present)
        assert read_policy(ada.store) == present
    branch_protect.set_patterns(ada, {"main", "x"}, who=ADA, present=present)
    assert read_policy(ada.store) == present
    branch_protect.set_patterns(ada, {"dev", "v*", "x"}, who=ADA, present=present)
    assert branch_protect.patterns(ada) == ["dev", "v*", "x"]
    assert len(documents(ada)) == 3
    with pytest.raises(PolicyMoved):
        branch_protect.set_patterns(bob, {"x"}, who=BOB, present=present)
    undo(ada, remote=True, committer=ADA)
    assert branch_protect.patterns(ada) == ["main", "x"]


def test_rules_that_were_written_by_hand_stay_as_they_are(clones: tuple[Repository, ...]) -> None:
    ada, _ = clones
    by_hand = "# ours\nrules = [{refs = ['main'], forbid = ['direct', 'delete']}]\n"
    set_policy(ada, by_hand, who=ADA)
    assert branch_protect.patterns(ada) == ["main"]
    with pytest.raises(Refused, match="is not one that `branch-protect add` writes"):
        branch_protect.delete(ada, "main", who=ADA)
    with pytest.raises(UsageError) as caught:
        branch_protect.add(ada, "dev", who=ADA)
    assert caught.value.hint == "edit the document by hand: `policy edit lakefs://demo`"
    set_policy(ada, "# ours\n" + ONE, who=ADA)
    branch_protect.add(ada, "dev", who=ADA)
    branch_protect.delete(ada, "dev", who=ADA)
    assert documents(ada)[0] == "# ours\n" + ONE


def test_a_setting_that_was_killed_is_completed_by_its_repetition(
    clones: tuple[Repository, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, bob = clones

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("lakecli.repository.sharing.set_policy.stamp", killed)
        with pytest.raises(KeyboardInterrupt):
            set_policy(ada, ONE, who=ADA)
    with pytest.raises(NothingToDo):
        set_policy(bob, ONE, who=BOB)
    ref = find_ref(ada.store, RefKind.BRANCH, "main")
    assert ref is not None
    assert ref.policy == 1


def test_a_malformed_ref_does_not_keep_rules_from_being_set(clones: tuple[Repository, ...]) -> None:
    ada, _ = clones
    ada.store.put(ref_key(RefKind.BRANCH, "broken"), b"{}", ANY)
    rules = ONE.replace("'main'", "'*'").replace('"main"', '"*"')
    assert "*" in rules
    set_by_command(ada, rules, who=ADA)
    ref = find_ref(ada.store, RefKind.BRANCH, "main")
    assert ref is not None
    assert ref.policy == 1
    with pytest.raises(NothingToDo):
        set_policy(ada, rules, who=ADA)
    undo(ada, remote=True, committer=ADA)
    assert documents(ada)[0] == ""


@pytest.mark.parametrize("body", [b"{", b'{"needs_write": "ab"}'])
def test_a_malformed_description_is_named(clones: tuple[Repository, ...], body: bytes) -> None:
    ada, _ = clones
    ada.store.put(REPOSITORY, body, ANY)
    with pytest.raises(IntegrityError, match="is not a repository description"):
        need_policy(ada.store)
    assert ada.store.get(REPOSITORY) == body
