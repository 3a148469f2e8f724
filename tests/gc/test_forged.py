"""A forged state or list of garbage makes a collection delete nothing in use."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakecli.base.identity import blake3_of
from lakecli.base.layout import data_key, pack_key, sstable_key
from lakecli.errors import IntegrityError, LakeError, Refused
from lakecli.fsck.check import fsck
from lakecli.gc.report import KINDS
from lakecli.gc.run import Action, status, undo
from lakecli.gc.state import LostMarks
from lakecli.remote.gc_protocol import LEASE, DamagedState, NewerState, Phase, read_state
from lakecli.remote.packs import list_packs, read_pack, write_pack
from lakecli.repository import branch
from lakecli.repository.pull import PullOptions, pull
from lakecli.stores.contract import ANY
from tests.gc.shared import GRACE, LONG, Shared, make_commit, push, read_all, upload
from tests.gc.test_lease import Unconditional
from tests.support.lakes import through

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

STATE = "_lakecli/gc/state"
MARK = "1-" + "5f" * 16
MONTHS = timedelta(days=70)
DAY = 86_400
FIELDS = {
    "format": 1,
    "phase": "condemned",
    "epoch": 1,
    "mark": MARK,
    "grace": int(GRACE.total_seconds()),
    "write_id": "0f" * 16,
}


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    with Shared(tmp_path, "ada", "ben") as made:
        prepare(made)
        yield made


def prepare(shared: Shared) -> None:
    """Push some commits and the deletion of nothing, and let all of it grow old."""
    ada = shared.clones[0]
    branch.create(ada, "side", source="main")
    for number in range(3):
        make_commit(ada, {b"%d" % number: b"%d" % number})
        make_commit(ada, {b"s": b"s%d" % number}, "side")
        push(ada)
        push(ada, "side")
    shared.time.pass_by(MONTHS)


def forge(shared: Shared, **changes: Any) -> None:
    """Write a state."""
    shared.store.put(STATE, json.dumps({**FIELDS, **changes}).encode(), ANY)


def forge_lists(
    shared: Shared,
    *,
    data: Iterable[str],
    others: Iterable[tuple[str, str]],
    mark: str = MARK,
    claim_read: bool = True,
) -> None:
    """Write lists of condemned objects, as lakecli writes them."""
    digests = sorted(bytes.fromhex(key.removeprefix("data/").replace("/", "")) for key in data)
    records = b"".join(digest + (1).to_bytes(8) for digest in digests)
    prefix = f"_lakecli/gc/marks/{mark}/"
    shared.store.put(prefix + "data-all", records, ANY)
    lines = [json.dumps({"key": key, "size": 1, "kind": kind}) for key, kind in others]
    shared.store.put(prefix + "others", "\n".join(lines).encode(), ANY)
    if claim_read:
        # A clone that believed these lists would take all of it for followed already.
        tables = b"".join(bytes.fromhex(key.rpartition("/")[2]) for key in sorted(shared.tables))
        for name in ("trees", "ranges"):
            shared.store.put(prefix + name, tables, ANY)


def everything(shared: Shared) -> list[tuple[str, str]]:
    """Return all keys of the namespace with each kind that their prefix allows."""
    return [
        (info.key, kind)
        for info in shared.store.list()
        for kind, (prefix, _) in KINDS.items()
        if info.key.startswith(prefix)
    ]


def live_keys(shared: Shared) -> set[str]:
    return {info.key for info in shared.store.list() if not info.key.startswith("_lakecli/gc/")}


def check_whole(shared: Shared) -> None:
    """Check that all refs of the bucket, and their history, can be read in a fresh clone."""
    ben = shared.clones[1]
    pull(ben, "main", options=PullOptions(committer="me"))
    assert not list(fsck(ben))
    assert read_all(ben, "main~2") == {b"0": b"0"}
    assert read_all(ben, "main")[b"2"] == b"2"


BROKEN: list[dict[str, Any]] = [
    {"grace": -DAY},
    {"grace": 0},
    {"grace": 60},
    {"grace": DAY - 1},
    {"grace": 10**13},
    {"grace": 3_651 * DAY},
    {"grace": True},
    {"grace": 2.5 * DAY},
    {"grace": float("nan")},
    {"grace": 1e400},
    {"grace": str(DAY)},
    {"grace": None},
    {"epoch": -1},
    {"epoch": 10**16},
    {"epoch": "1"},
    {"epoch": 2},
    {"epoch": True},
    {"mark": ""},
    {"mark": "../../../x"},
    {"mark": "1-" + "5F" * 16},
    {"mark": "1-" + "5f" * 15},
    {"mark": "1-" + "5f" * 16 + "/x"},
    {"mark": 7},
    {"mark": None},
    {"phase": "sweeping", "mark": ""},
    {"phase": "idle"},
    {"phase": "resting"},
    {"phase": []},
    {"write_id": ""},
    {"write_id": "0F" * 16},
    {"write_id": 0},
    {"format": 0},
    {"format": "1"},
    {"format": None},
    {"other": "x" * (1 << 16)},
]


@pytest.mark.parametrize("changes", BROKEN, ids=str)
def test_an_invalid_state_is_refused(shared: Shared, changes: dict[str, Any]) -> None:
    ben = shared.clones[1]
    forge_lists(shared, data=shared.data, others=everything(shared))
    shared.time.pass_by(MONTHS)
    forge(shared, **changes)
    shared.time.pass_by(MONTHS)
    before = live_keys(shared)
    for _ in range(2):
        with pytest.raises(DamagedState) as raised:
            shared.collect(ben)
        assert re.search("gc undo .*--force", str(raised.value.hint))
    with pytest.raises(DamagedState):
        status(ben)
    with pytest.raises(DamagedState):
        undo(ben)
    assert live_keys(shared) == before
    assert undo(ben, force=True).phase is Phase.IDLE
    # No writer takes the new state for one that was read before.
    assert read_state(shared.store).epoch > 1
    assert shared.collect(ben).action is Action.FOUND_NOTHING


@pytest.mark.parametrize("field", list(FIELDS))
def test_a_state_that_lacks_a_field(shared: Shared, field: str) -> None:
    fields = {key: value for key, value in FIELDS.items() if key != field}
    shared.store.put(STATE, json.dumps(fields).encode(), ANY)
    with pytest.raises(DamagedState, match=field):
        shared.collect(shared.clones[1])


@pytest.mark.parametrize("body", [b"", b"[]", b"1", b"null", b"[" * 60_000, b"\xff", b'"' * 9])
def test_a_state_that_is_not_an_object(shared: Shared, body: bytes) -> None:
    shared.store.put(STATE, body, ANY)
    with pytest.raises(DamagedState):
        shared.collect(shared.clones[1])


def test_a_state_of_a_newer_lakecli_is_not_replaced(shared: Shared) -> None:
    forge(shared, format=2)
    shared.time.pass_by(MONTHS)
    with pytest.raises(NewerState, match="format 2"):
        undo(shared.clones[1], force=True)


@pytest.mark.parametrize("conditional", [False, True])
@pytest.mark.parametrize("phase", ["condemned", "sweeping"])
def test_forged_lists_of_everything_delete_nothing_in_use(
    shared: Shared, phase: str, *, conditional: bool
) -> None:
    ada, ben = shared.clones
    if not conditional:
        ben = through(ben, Unconditional(shared.bucket))
    upload(ada, b"left", b"left")
    shared.time.pass_by(MONTHS)
    forge_lists(shared, data=shared.data, others=everything(shared))
    # Metaranges that are gone on purpose, if one believes this.
    tables = b"".join(bytes.fromhex(key.rpartition("/")[2]) for key in sorted(shared.tables))
    shared.store.put("_lakecli/gc/expired/1", tables, ANY)
    shared.time.pass_by(MONTHS)
    forge(shared, phase=phase)
    shared.time.pass_by(MONTHS)
    before = live_keys(shared)
    report = shared.collect(ben)
    assert report.action is Action.SWEPT
    # What is garbage indeed may go, whoever listed it.
    left = data_key(blake3_of(b"left").hex())
    gone = before - live_keys(shared)
    assert left in gone
    assert {key for key in gone if not key.startswith("_lakecli/reflog/")} == {left}
    check_whole(shared)


@pytest.mark.parametrize(("kind", "spared"), [("range", 1), ("metarange", 0)])
def test_a_table_of_another_kind_than_its_list_says_is_spared(
    shared: Shared, kind: str, spared: int
) -> None:
    ada, ben = shared.clones
    table = sstable_key(make_commit(ada, {b"never pushed": b"1"}).metarange_id)
    shared.time.pass_by(MONTHS)
    forge_lists(shared, data=(), others=[(table, kind)])
    forge(shared)
    shared.time.pass_by(MONTHS)
    report = shared.collect(ben)
    assert (report.action, report.spared) == (Action.SWEPT, spared)
    assert (table in shared.tables) == (spared == 1)


def test_no_state_shortens_the_grace_period_of_this_machine(shared: Shared) -> None:
    ada, ben = shared.clones
    upload(ada, b"work", b"work")  # known to this clone only
    shared.time.pass_by(timedelta(days=5))
    work = data_key(blake3_of(b"work").hex())
    forge_lists(shared, data=[work], others=())
    forge(shared, grace=DAY)
    own = timedelta(days=14)
    shared.time.pass_by(timedelta(days=2))
    report = shared.collect(ben, grace=own)
    assert report.action is Action.WAITS
    assert report.status.sweep_at is not None
    assert report.status.sweep_at - shared.time.now > timedelta(days=12)
    shared.time.pass_by(timedelta(days=6))
    assert shared.collect(ben, grace=own).action is Action.WAITS
    shared.time.pass_by(timedelta(days=7))
    assert work in shared.data
    assert shared.collect(ben, grace=own).action is Action.SWEPT


@pytest.mark.parametrize("phase", ["condemned", "sweeping"])
def test_an_object_younger_than_the_own_grace_period_is_spared(shared: Shared, phase: str) -> None:
    ada, ben = shared.clones
    work = data_key(blake3_of(b"work").hex())
    forge_lists(shared, data=[work], others=())
    forge(shared, grace=DAY)
    shared.time.pass_by(timedelta(days=8))
    upload(ada, b"work", b"work")
    forge(shared, grace=DAY, phase=phase)
    shared.time.pass_by(timedelta(days=13, hours=1, minutes=30))
    assert shared.collect(ben, grace=timedelta(days=13)).action is Action.SWEPT
    assert work in shared.data


def test_a_state_that_says_sweeping_skips_no_grace_period(shared: Shared) -> None:
    ada, ben = shared.clones
    upload(ada, b"work", b"work")
    shared.time.pass_by(LONG)
    work = data_key(blake3_of(b"work").hex())
    forge_lists(shared, data=[work], others=())
    forge(shared, phase="sweeping")
    assert shared.collect(ben).action is Action.WAITS
    shared.time.pass_by(LEASE)
    with pytest.raises(LostMarks, match="grace period"):
        shared.collect(ben)
    assert work in shared.data
    assert read_state(shared.store).phase is Phase.IDLE


def test_a_keep_counts_whatever_epoch_the_state_says(shared: Shared) -> None:
    ada, ben = shared.clones
    upload(ada, b"work", b"work")
    shared.time.pass_by(LONG)
    assert shared.collect(ben).action is Action.CONDEMNED
    upload(ada, b"work again", b"work")  # keeps it
    assert [*shared.store.list("_lakecli/gc/keep/1/")]
    # A state of the next epoch, with the lists of this one.
    (mark,) = {info.key.split("/")[3] for info in shared.store.list("_lakecli/gc/marks/")}
    name = "2-" + mark.partition("-")[2]
    for info in list(shared.store.list("_lakecli/gc/marks/")):
        shared.store.put(info.key.replace(mark, name), shared.store.get(info.key), ANY)
    forge(shared, epoch=2, mark=name)
    shared.time.pass_by(LONG + LONG)
    shared.collect(ben)
    assert data_key(blake3_of(b"work").hex()) in shared.data


@pytest.mark.parametrize("claims", ["nothing of it", "all but one"])
def test_a_pack_that_claims_to_replace_the_only_one(shared: Shared, claims: str) -> None:
    ada, ben = shared.clones
    store = shared.store
    packs = [info.id for info in list_packs(store)]
    commits = [commit for each in packs for commit in read_pack(store, each).commits]
    shown = sorted(commits, key=lambda each: each.generation)[-1:]
    if claims == "all but one":
        shown = sorted(commits, key=lambda each: each.generation)[1:]
    forged = write_pack(store, shown, replaces=packs)
    shared.time.pass_by(MONTHS)
    forge_lists(shared, data=(), others=[(pack_key(each), "pack") for each in packs])
    forge(shared)
    shared.time.pass_by(MONTHS)
    assert shared.collect(ben).action is Action.SWEPT
    held: set[str] = set()
    for info in list_packs(store):
        held.update(commit.id for commit in read_pack(store, info.id).commits)
    assert held >= {commit.id for commit in commits}
    assert forged in {info.id for info in list_packs(store)}
    assert shared.collect_all(ada).action in (Action.FOUND_NOTHING, Action.SWEPT)


@pytest.mark.parametrize("damaged", [False, True])
def test_a_replacing_pack_that_is_gone_or_damaged(shared: Shared, *, damaged: bool) -> None:
    ada, ben = shared.clones
    store = shared.store
    for number in range(8):
        make_commit(ada, {b"n": b"%d" % number})
        push(ada)
    shared.time.pass_by(MONTHS)
    assert shared.collect(ben).action is Action.CONDEMNED
    (others,) = [info.key for info in store.list("_lakecli/gc/marks/") if "others" in info.key]
    replaced = {json.loads(line)["key"] for line in store.get(others).splitlines()}
    replaced = {key for key in replaced if key.startswith("_lakecli/commits/")}
    assert replaced
    kept = [info for info in list_packs(store) if pack_key(info.id) not in replaced]
    largest = max(kept, key=lambda info: info.size)
    held = {
        commit.id for key in replaced for commit in read_pack(store, key.rpartition("/")[2]).commits
    }
    rest = [each for each in read_pack(store, largest.id).commits if each.id not in held]
    shared.time.pass_by(LONG)
    if damaged:
        store.put(pack_key(largest.id), b"damaged", ANY)
    else:
        store.delete([pack_key(largest.id)])
    with pytest.raises(IntegrityError):
        shared.collect(ben)
    write_pack(store, rest)
    assert shared.collect(ben).action is Action.SWEPT
    assert replaced <= live_keys(shared)


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense",
        b"[]",
        b"{}",
        b'{"key": 1, "size": 1, "kind": "range"}',
        b'{"key": "_lakefs/x", "size": -1, "kind": "range"}',
        b'{"key": "_lakefs/x", "size": true, "kind": "range"}',
        b'{"key": "_lakefs/x", "size": 1, "kind": "ref"}',
        b'{"key": "_lakefs/x", "size": 1, "kind": ["range"]}',
        b'{"key": "_lakecli/refs/branches/main", "size": 1, "kind": "range"}',
        b'{"key": "_lakecli/repository.json", "size": 1, "kind": "incoming"}',
        b"[" * 10_000,
    ],
)
def test_an_invalid_list_is_refused(shared: Shared, line: bytes) -> None:
    ben = shared.clones[1]
    forge_lists(shared, data=shared.data, others=())
    shared.store.put(f"_lakecli/gc/marks/{MARK}/others", line, ANY)
    forge(shared)
    shared.time.pass_by(MONTHS)
    before = live_keys(shared)
    with pytest.raises(LostMarks):
        shared.collect(ben)
    # Nobody has to wait for it, and it can be taken back.
    assert read_state(shared.store).phase is Phase.CONDEMNED
    assert undo(ben).phase is Phase.IDLE
    assert live_keys(shared) == before


@pytest.mark.parametrize("records", [b"x", b"\xff" * 40 + b"\0" * 40, b"\1" * 80])
@pytest.mark.parametrize("part", ["all", "01"])
def test_invalid_records_are_refused(shared: Shared, records: bytes, part: str) -> None:
    ben = shared.clones[1]
    forge_lists(shared, data=(), others=())
    shared.store.put(f"_lakecli/gc/marks/{MARK}/data-{part}", records, ANY)
    forge(shared)
    shared.time.pass_by(MONTHS)
    with pytest.raises(LostMarks):
        shared.collect(ben)
    assert read_state(shared.store).phase is Phase.IDLE


def test_missing_lists_leave_no_writer_waiting(shared: Shared) -> None:
    ben = shared.clones[1]
    forge(shared, phase="sweeping")
    with pytest.raises(Refused, match="may be running"):
        undo(ben, force=True)
    with pytest.raises(Refused, match="has begun"):
        undo(ben)
    shared.time.pass_by(LEASE)
    with pytest.raises(LostMarks):
        shared.collect(ben)
    assert read_state(shared.store).phase is Phase.IDLE
    forge(shared, phase="sweeping", epoch=2, mark="2-" + "5f" * 16)
    shared.time.pass_by(LEASE)
    assert undo(ben, force=True).phase is Phase.IDLE


def test_lists_that_are_younger_than_the_state(shared: Shared) -> None:
    """The dates of both count: the state of a real condemnation, and lists made up just now."""
    ben = shared.clones[1]
    forge(shared)
    shared.time.pass_by(MONTHS)
    forge_lists(shared, data=shared.data, others=everything(shared))
    report = shared.collect(ben)
    assert report.action is Action.WAITS
    assert report.status.sweep_at is not None
    assert report.status.sweep_at > shared.time.now + GRACE


class Unexpected(Exception):
    """A forged field."""


@pytest.mark.parametrize("error", [Unexpected, KeyboardInterrupt, ValueError, MemoryError])
def test_a_sweep_that_fails_in_any_way_ends(
    shared: Shared, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    from lakecli.gc import run

    ada, ben = shared.clones
    upload(ada, b"left", b"left")
    shared.time.pass_by(LONG)
    assert shared.collect(ben).action is Action.CONDEMNED
    shared.time.pass_by(LONG)

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(run, "list_tables", fail)
    with pytest.raises(error):
        shared.collect(ben)
    assert read_state(shared.store).phase is Phase.IDLE


def collect_or_refuse(shared: Shared) -> None:
    """Let the victim collect; each refusal has a hint."""
    try:
        shared.collect(shared.clones[1])
    except LakeError as error:
        assert error.hint, error  # noqa: PT017 - not every forgery is refused


@settings(max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_forgeries(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Whatever the state and the lists say, refs stay complete and young objects stay."""
    with Shared(tmp_path_factory.mktemp("forged"), "ada", "ben") as shared:
        ada = shared.clones[0]
        prepare(shared)
        before = live_keys(shared)
        upload(ada, b"young", b"young")
        young = data_key(blake3_of(b"young").hex())
        pairs = everything(shared)
        named = data.draw(st.lists(st.sampled_from(pairs), max_size=60, unique=True))
        if data.draw(st.booleans()):
            named = pairs
        objects = data.draw(st.sets(st.sampled_from(sorted(shared.data))))
        forge_lists(shared, data=objects, others=named)
        changes = data.draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "phase": st.sampled_from(["idle", "condemned", "sweeping", "x"]),
                    "grace": st.sampled_from([-1, 0, DAY, 14 * DAY, 10**9, 10**13, 1.5]),
                    "epoch": st.sampled_from([0, 1, 2, 10**20]),
                    "mark": st.sampled_from(["", MARK, "2-" + "5f" * 16, "../x"]),
                },
            )
        )
        forge(shared, **changes)
        for hours in data.draw(st.lists(st.sampled_from([0, 1, 24]), min_size=1, max_size=2)):
            shared.time.pass_by(timedelta(hours=hours))
            collect_or_refuse(shared)
        assert young in shared.data
        gone = {key for key in before - live_keys(shared) if "/reflog/" not in key}
        assert not gone
        shared.time.pass_by(MONTHS)
        collect_or_refuse(shared)
        gone = {key for key in before - live_keys(shared) if "/reflog/" not in key}
        assert not gone


@pytest.mark.parametrize("key", ["_lakecli/refs/branches/side", "_lakecli/refs/tags/t"])
@pytest.mark.parametrize("body", [b"", b"{}", b"x" * (1 << 21)], ids=["empty", "no ref", "large"])
def test_a_ref_that_cannot_be_read_stops_a_collection(
    shared: Shared, key: str, body: bytes
) -> None:
    """Other commands leave it out; here its needs are unknown, so nothing is deleted."""
    ada, ben = shared.clones
    upload(ada, b"left", b"left")
    shared.time.pass_by(MONTHS)
    assert shared.collect(ben).action is Action.CONDEMNED
    shared.time.pass_by(LONG)
    shared.store.put(key, body, ANY)
    before = live_keys(shared)
    for _ in range(2):
        with pytest.raises(IntegrityError, match=key.rpartition("/")[2]):
            shared.collect(ben)
    assert live_keys(shared) == before
    assert read_state(shared.store).phase is Phase.CONDEMNED
