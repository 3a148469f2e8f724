"""What marks and sweeps say about what they are about to delete."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from lakecli.base.model import RefKind
from lakecli.gc.policy import Rules, put_rules
from lakecli.gc.report import GarbageSummary, RefGarbage, dump_summary, fields_of, parse_summary
from lakecli.gc.run import Action, status
from lakecli.gc.state import Marks
from lakecli.remote.attestations import Attestation, iter_attestations, write_attestation
from lakecli.remote.gc_protocol import read_state
from lakecli.remote.policy import iter_policies
from lakecli.repository import branch, tag
from lakecli.repository import push as pushing
from lakecli.repository.sharing.set_policy import set_policy
from lakecli.stores.contract import ANY
from tests.gc.shared import LONG, Shared, make_commit, push

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MONTHS = timedelta(days=100)


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    with Shared(tmp_path, "ada", "ben") as made:
        yield made


def garbage(name: str, old: int, former: int = 0, *, deleted: bool = False) -> RefGarbage:
    return RefGarbage(RefKind.BRANCH, name, deleted, old, former)


@pytest.fixture
def condemned(shared: Shared) -> GarbageSummary:
    """A main with two old commits by the rules, and a deleted branch with two commits."""
    ada, ben = shared.clones
    put_rules(ada.store, Rules(7, {}))
    for number in range(4):
        make_commit(ada, {b"a": b"main %d" % number})
    push(ada)
    branch.create(ada, "side", source="main")
    tag.create(ada, "v1", "main")
    push(ada, "v1")
    for number in range(2):
        make_commit(ada, {b"a": b"side %d" % number}, "side")
    push(ada, "side")
    pushing.push_deletion(ada, "side", options=pushing.PushOptions(who="me"))
    shared.time.pass_by(MONTHS)
    report = shared.collect(ben)
    assert report.action is Action.CONDEMNED
    assert report.summary is not None
    return report.summary


def test_trees_count_for_the_branch_that_has_or_had_them(
    shared: Shared, condemned: GarbageSummary
) -> None:
    # The head of main stays, also as the tag. So does nothing of the deleted branch.
    expected = GarbageSummary((garbage("main", 3), garbage("side", 0, 2, deleted=True)), 0, 5)
    assert condemned == expected
    assert str(condemned) == (
        "main: 3 old trees; side (deleted): 2 former trees; 5 objects that no ref reaches"
    )


def test_another_clone_sees_what_is_condemned(shared: Shared, condemned: GarbageSummary) -> None:
    ada, ben = shared.clones
    assert status(ada).summary == status(ben).summary == condemned
    marks = Marks(shared.store, read_state(shared.store).mark)
    shared.store.put(f"{marks.prefix}summary", b"{}", ANY)
    assert status(ada).summary is None
    shared.store.delete([f"{marks.prefix}summary"])
    assert status(ada).summary is None


def test_a_sweep_says_what_it_deletes_before_it_does(
    shared: Shared, condemned: GarbageSummary
) -> None:
    ada, ben = shared.clones
    shared.time.pass_by(LONG)
    questions: list[str] = []
    steps: list[str] = []

    def on_step(name: str) -> None:
        if name == "gc:delete":
            steps.append(shared.store.get("_lakecli/gc/reports/1-sweeping.json").decode())

    ben.lake.runtime = ben.lake.runtime._replace(on_step=on_step)
    report = shared.collect(ben, confirm=questions.append)
    assert str(condemned) in questions[0]
    assert report.summary == condemned
    logged = json.loads(steps[0])
    assert {key: logged[key] for key in fields_of(condemned)} == fields_of(condemned)
    assert status(ada).summary is None


@pytest.mark.parametrize(
    "change",
    [
        {"refs": [{}]},
        {"refs": [1]},
        {"refs": {}},
        {"objects": -1},
        {"other_trees": "1"},
        {"refs": [garbage("a\x1b[2J", 1)._asdict()]},
        {"refs": [{**garbage("a", 1)._asdict(), "deleted": 1}]},
    ],
)
def test_a_forged_summary_is_left_out(change: dict[str, object]) -> None:
    good = GarbageSummary((garbage("main", 0), garbage("side", 1)), 2, 3)
    assert parse_summary(dump_summary(good)) == good
    assert parse_summary(json.dumps({**fields_of(good), **change}).encode()) is None
    assert parse_summary(b"x" * (2 << 20)) is None


def test_long_summaries_name_some() -> None:
    many = GarbageSummary(tuple(garbage(f"b{number}", number) for number in range(8)), 1, 1_000)
    assert str(many) == (
        "b0: 0; b1: 1 old tree; b2: 2 old trees; b3: 3 old trees; b4: 4 old trees; 3 more refs; "
        "1 tree that no ref had; 1,000 objects that no ref reaches"
    )


def test_rules_stay_and_statements_end_with_their_tree(shared: Shared) -> None:
    ada, ben = shared.clones
    kept = make_commit(ada, {b"a": b"kept"})
    branch.create(ada, "side", source="main")
    gone = make_commit(ada, {b"b": b"gone"}, "side")
    push(ada)
    push(ada, "side")
    for number in range(2):
        set_policy(ada, f"# {number}", who="me")
    for number, made in enumerate((kept, gone)):
        tree = made.metarange_id
        passed = Attestation("check", "x", tree, tree, "", "me", shared.time())
        write_attestation(shared.store, passed, id=f"{number:032x}")
    branch.delete(ada, "side")
    pushing.push_deletion(ada, "side", options=pushing.PushOptions(who="me"))
    shared.time.pass_by(MONTHS)
    shared.collect_all(ben)
    assert list(iter_attestations(shared.store, kept.metarange_id))
    assert not list(iter_attestations(shared.store, gone.metarange_id))
    assert [each.number for each in iter_policies(shared.store)] == [2, 1]
