"""What rules forbid, at the bucket and early, and how rules that change meanwhile are met."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from lakecli.base.layout import POLICY
from lakecli.base.model import RefKind
from lakecli.errors import Forbidden, IntegrityError
from lakecli.refs.ref_store import RefStore
from lakecli.remote.attestations import Attestation, write_attestation
from lakecli.remote.refs import find_ref
from lakecli.repository import branch, push, tag
from lakecli.repository.cherry_pick import cherry_pick
from lakecli.repository.commit import commit
from lakecli.repository.merge import MergeOptions, merge
from lakecli.repository.mv import mv, mv_tree
from lakecli.repository.push import PushLease, PushOptions, push_deletion
from lakecli.repository.revert import revert
from lakecli.repository.sharing.fetch import fetch
from lakecli.repository.sharing.set_policy import set_policy
from tests.support.clones import Clones, here, make_commit, synced, there
from tests.support.lakes import stage, through

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.base.model import Commit, CommitId
    from lakecli.repository.contract import Repository

ADA = "Ada <ada@x>"
BOB = "Bob <bob@x>"


@pytest.fixture
def clones(tmp_path: Path) -> Iterator[tuple[Repository, Repository]]:
    with Clones.make(tmp_path, "ada", "bob") as made:
        ada, bob = made.repositories
        make_commit(ada, b"raw/a")
        push.push(ada, "main", options=PushOptions(ADA))
        follow(bob)
        yield ada, bob


def follow(repository: Repository) -> None:
    """Let a clone's branches follow the bucket, as `sync = auto` does."""
    synced(repository, BOB).catch_up()


def rules(*lines: str, refs: str = "main", head: str = "") -> str:
    return f"{head}\n[[rules]]\nrefs = ['{refs}']\n" + "\n".join(lines)


def at(repository: Repository, name: str) -> CommitId | None:
    return there(repository, name, RefKind.TAG if name == "v1" else RefKind.BRANCH)


def send(
    repository: Repository, name: str = "main", who: str = BOB, *, force: bool = False
) -> None:
    options = PushOptions(who, lease=PushLease(at(repository, name)) if force else None)
    push.push(repository, name, options=options)


def feature(repository: Repository, *paths: bytes, name: str = "feature") -> Commit:
    """Make a branch with a commit of each path, and merge it into main."""
    branch.create(repository, name, source="main")
    for path in paths:
        make_commit(repository, path, name)
    return merge(repository, name, "main", MergeOptions(committer=BOB))


def refused(repository: Repository, name: str = "main", who: str = BOB) -> str:
    """Push; return why the rules forbid it, after checking that nothing has moved."""
    before = at(repository, name)
    with pytest.raises(Forbidden) as caught:
        send(repository, name, who, force=before is not None)
    assert at(repository, name) == before
    assert caught.value.hint
    return caught.value.message


def test_a_direct_commit_is_refused_and_a_merge_is_not(
    clones: tuple[Repository, Repository],
) -> None:
    ada, bob = clones
    set_policy(ada, rules("forbid = ['direct']"), who=ADA)
    made = make_commit(bob, b"b")
    message = refused(bob)
    assert "policy 1, which Ada <ada@x> set" in message
    assert f"it takes merges only, and {made.id} is none" in message
    assert "its rule is: main: forbid direct" in message
    branch.reset(bob, "main", to=there(bob), is_forced=True)
    feature(bob, b"b")
    send(bob)
    ref = find_ref(bob.store, RefKind.BRANCH, "main")
    assert ref is not None
    assert (ref.policy, ref.moves[0].policy, ref.moves[1].policy) == (1, 1, 0)


def test_a_merge_the_other_way_round_is_a_direct_commit(
    clones: tuple[Repository, Repository],
) -> None:
    ada, bob = clones
    branch.create(bob, "feature", source="main")
    make_commit(bob, b"f", "feature")
    feature(ada, b"m", name="other")
    send(ada)
    set_policy(ada, rules("forbid = ['direct']"), who=ADA)
    fetch(bob)
    merge(bob, f"{there(bob)}", "feature", MergeOptions(committer=BOB))
    branch.reset(bob, "main", to=here(bob, "feature"), is_forced=True)
    assert "is none" in refused(bob)


def test_a_squash_is_a_direct_commit(clones: tuple[Repository, Repository]) -> None:
    ada, bob = clones
    set_policy(ada, rules("forbid = ['direct']"), who=ADA)
    branch.create(bob, "feature", source="main")
    make_commit(bob, b"f", "feature")
    merge(bob, "feature", "main", MergeOptions(committer=BOB, squash=True))
    assert "is none" in refused(bob)


def test_only_some_may_move_it(clones: tuple[Repository, Repository]) -> None:
    ada, bob = clones
    head = "[roles]\nleads = ['ada@x']"
    set_policy(ada, rules("who = ['leads']", head=head), who=ADA)
    feature(bob, b"b")
    message = refused(bob)
    assert "only leads may move it, and bob@x is not among them" in message
    send(bob, who=ADA)


def test_it_never_goes_back(clones: tuple[Repository, Repository]) -> None:
    ada, bob = clones
    set_policy(ada, rules("forbid = ['rewind']", refs="*"), who=ADA)
    first = here(bob)
    make_commit(bob, b"b")
    send(bob)
    branch.reset(bob, "main", to=first, is_forced=True)
    assert "does not build on" in refused(bob)
    tag.create(bob, "v1", "main~1")
    send(bob, "v1")
    tag.create(bob, "v1", "main", force=True)
    send(bob, "v1", force=True)
    tag.create(bob, "v1", "main~1", force=True)
    assert "does not build on" in refused(bob, "v1")


def test_it_is_not_deleted_and_does_not_come_back(clones: tuple[Repository, Repository]) -> None:
    ada, bob = clones
    branch.create(bob, "dev", source="main")
    make_commit(bob, b"d", "dev")
    send(bob, "dev")
    set_policy(ada, rules("forbid = ['delete']", refs="d*"), who=ADA)
    with pytest.raises(Forbidden, match="never deleted"):
        push_deletion(bob, "dev", options=PushOptions(BOB))
    set_policy(ada, rules("forbid = ['recreate']", refs="d*"), who=ADA)
    push_deletion(bob, "dev", options=PushOptions(BOB))
    assert "does not come back" in refused(bob, "dev")
    set_policy(ada, rules("forbid = ['rewind', 'direct']", refs="d*"), who=ADA)
    branch.reset(bob, "dev", to=here(bob), is_forced=True)
    assert "does not build on" in refused(bob, "dev")


@pytest.mark.parametrize(
    ("rule", "changes", "reason"),
    [
        ("append-only = ['raw/**']", {b"raw/a": b"other"}, "'raw/a' would change, which is append"),
        ("append-only = ['raw/**']", {b"raw/a": None}, "'raw/a' would change, which is append"),
        ("append-only = ['raw/**']", {b"raw/b": b"b", b"z": b"z"}, ""),
        ("append-only = ['other/**']", {b"raw/a": b"other"}, ""),
        ("max-delete = 0", {b"raw/a": None}, "more than 0 paths would go"),
        ("max-delete = '99%'", {b"raw/a": None}, "more than 0 paths would go"),
        ("max-delete = 1", {b"raw/a": None}, ""),
        ("only-below = ['in/**', 'raw/**']", {b"in/a": b"a", b"raw/a": None}, ""),
        ("only-below = ['in/**']", {b"in": b"a"}, "'in' would change, outside"),
    ],
)
def test_rules_about_data(
    clones: tuple[Repository, Repository],
    rule: str,
    changes: dict[bytes, bytes | None],
    reason: str,
) -> None:
    ada, bob = clones
    set_policy(ada, rules(f"data = {{ {rule} }}"), who=ADA)
    stage(bob, "main", changes)
    commit(bob, "main", message="change", committer=BOB)
    if reason:
        assert reason in refused(bob)
    else:
        send(bob)


def attest(repository: Repository, kind: str, name: str, who: str, *, number: int) -> None:
    with repository.lake.kv.read() as txn:
        tree = RefStore(txn, repository.key).get_commit(here(repository)).metarange_id
    at = repository.lake.runtime.now()
    made = Attestation(kind, name, tree, tree, "", who, at)
    write_attestation(repository.store, made, id=f"{number:032x}")


def test_what_is_required_of_the_very_tree(clones: tuple[Repository, Repository]) -> None:
    ada, bob = clones
    head = "[roles]\nteam = ['ada@x', 'bob@x']"
    lines = "require = ['check:schema', 'approve:1:team']"
    set_policy(ada, rules(lines, head=head), who=ADA)
    stage(bob, "main", {b"b": b"b"})
    commit(bob, "main", message="b", committer=BOB)
    assert "check schema has not passed on its tree" in refused(bob)
    attest(bob, "check", "other", BOB, number=1)
    assert "check schema has not passed on its tree" in refused(bob)
    attest(bob, "check", "schema", BOB, number=2)
    attest(bob, "approve", "main", BOB, number=3)
    attest(bob, "approve", "dev", ADA, number=4)
    attest(bob, "approve", "main", "Eve <eve@x>", number=5)
    assert "0 of team have approved its tree, other than its authors; 1 must" in refused(bob)
    attest(bob, "approve", "main", ADA, number=6)
    send(bob)


def test_asked_early_before_work_is_done(clones: tuple[Repository, Repository]) -> None:
    ada, bob = clones
    stage(bob, "main", {b"b": b"b"})
    other = make_commit(bob, b"c", branch.create(bob, "feature", source="main").name)
    set_policy(ada, rules("forbid = ['direct']"), who=ADA)
    fetch(bob)
    for act in (
        lambda: stage(bob, "main", {b"c": b"c"}),
        lambda: commit(bob, "main", message="b", committer=BOB),
        lambda: revert(bob, "main", "main", committer=BOB),
        lambda: mv(bob, source_branch="main", source=b"b", branch="feature", path=b"x"),
        lambda: mv_tree(bob, source_branch="main", source=b"", branch="feature", path=b"x/"),
        lambda: cherry_pick(bob, other.id, "main", committer=BOB),
    ):
        with pytest.raises(Forbidden, match="forbids changes of branch main"):
            act()
    branch.reset(bob, "main", to=here(bob), is_forced=True)
    merge(bob, "feature", "main", MergeOptions(committer=BOB))
    set_policy(ada, rules("who = ['ada@x']"), who=ADA)
    fetch(bob)
    stage(bob, "main", {b"b": b"b"})
    with pytest.raises(Forbidden, match="bob@x is not among them"):
        commit(bob, "main", message="b", committer=BOB)


def test_what_was_forbidden_when_it_was_seen_last_is_asked_again(
    clones: tuple[Repository, Repository],
) -> None:
    ada, bob = clones
    set_policy(ada, rules("forbid = ['direct']"), who=ADA)
    fetch(bob)
    set_policy(ada, rules("forbid = ['delete']"), who=ADA)
    assert make_commit(bob, b"b").id == here(bob)


class Meets:
    """A store that lets another clone act right before a request of a kind."""

    def __init__(self, store: object, key: str, method: str, act: object) -> None:
        self._store, self._key, self._method, self._act = store, key, method, act

    def __getattr__(self, name: str) -> object:
        found = getattr(self._store, name)
        if name != self._method:
            return found

        def call(key: str, *arguments: object, **more: object) -> object:
            if key == self._key and self._act is not None:
                act, self._act = self._act, None
                act()  # type: ignore[operator]
            return found(key, *arguments, **more)

        return call


def test_a_rule_between_the_judgement_and_the_request(
    clones: tuple[Repository, Repository],
) -> None:
    ada, bob = clones
    make_commit(bob, b"b")

    def act() -> None:
        set_policy(ada, rules("forbid = ['direct']"), who=ADA)

    store = Meets(bob.store, "_lakecli/refs/branches/main", "put", act)
    assert "is none" in refused(through(bob, store))  # type: ignore[arg-type]


def test_a_ref_that_was_created_meanwhile_is_withdrawn(
    clones: tuple[Repository, Repository],
) -> None:
    ada, bob = clones
    make_commit(bob, b"d", branch.create(bob, "dev", source="main").name)

    def act() -> None:
        set_policy(ada, rules("forbid = ['direct', 'recreate']", refs="dev"), who=ADA)

    store = Meets(bob.store, "_lakecli/refs/branches/dev", "put", act)
    assert "is none" in refused(through(bob, store), "dev")  # type: ignore[arg-type]
    ref = find_ref(bob.store, RefKind.BRANCH, "dev")
    assert ref is not None
    assert ref.commit_id is None
    branch.reset(bob, "dev", to=here(bob), is_forced=True)
    send(bob, "dev")  # it never was there, so it does not come back


def test_a_policy_that_is_gone_or_old_lets_nobody_through(
    clones: tuple[Repository, Repository],
) -> None:
    ada, bob = clones
    set_policy(ada, rules("forbid = ['direct']"), who=ADA)
    feature(bob, b"b")
    send(bob)
    bob.store.delete([POLICY])
    make_commit(bob, b"c")
    with pytest.raises(IntegrityError, match="written under policy 1, and the bucket has none"):
        send(bob)
    assert set_policy(ada, rules("forbid = ['rewind']"), who=ADA).number == 2
    send(bob)


def test_an_interrupted_push_is_judged_when_it_is_repeated(
    clones: tuple[Repository, Repository],
) -> None:
    ada, bob = clones
    make_commit(bob, b"b")

    def stop() -> None:
        raise KeyboardInterrupt

    store = Meets(bob.store, "_lakecli/refs/branches/main", "put", stop)
    with suppress(KeyboardInterrupt):
        send(through(bob, store))  # type: ignore[arg-type]
    set_policy(ada, rules("forbid = ['direct']"), who=ADA)
    assert "is none" in refused(bob)
