"""Commit packs: they are read as written, damage is detected, and there are few of them."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.base import layout
from lakecli.base.identity import blake3_of, commit_id
from lakecli.base.ids import PackId
from lakecli.base.layout import COMMITS, LARGEST_PACK, MAX_COMMIT_SIZE, MAX_MESSAGE_SIZE, pack_key
from lakecli.base.model import Commit, CommitId, MetarangeId
from lakecli.errors import Unreachable
from lakecli.proto.messages import COMMIT_DATA
from lakecli.remote import packs
from lakecli.remote.packs import (
    DamagedPack,
    NotText,
    Pack,
    PackInfo,
    TooLong,
    decode_commit,
    decode_commit_data,
    encode_commit,
)
from lakecli.sstable.format import MalformedValue, decode_value
from lakecli.sstable.reader import BytesSource, SSTable
from lakecli.sstable.writer import TableWriter
from lakecli.stores.contract import ANY, ObjectNotFound
from tests.support.counting import CountingStore
from tests.support.faulty import FaultyStore, unreachable
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from lakecli.stores.contract import ObjectInfo

AT = datetime(2026, 11, 20, 15, tzinfo=UTC)


def make(
    message: str,
    parents: tuple[CommitId, ...] = (),
    *,
    committer: str = "Ada <ada@example.com>",
    created_at: datetime = AT,
    metadata: Mapping[str, str] | None = None,
    metarange_id: str = "",
    generation: int = 1,
) -> Commit:
    found = commit_id(
        committer=committer,
        message=message,
        metarange_id=metarange_id,
        created_at=int(created_at.timestamp()),
        metadata=metadata or {},
        parents=parents,
    )
    return Commit(
        id=CommitId(found),
        parents=parents,
        metarange_id=MetarangeId(metarange_id),
        message=message,
        committer=committer,
        created_at=created_at,
        metadata=metadata or {},
        generation=generation,
    )


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
commits = st.builds(
    make,
    texts,
    st.lists(st.binary(min_size=32, max_size=32).map(bytes.hex).map(CommitId), max_size=3).map(
        tuple
    ),
    committer=texts,
    created_at=st.integers(-(10**9), 10**10).map(
        lambda second: datetime.fromtimestamp(second, UTC)
    ),
    metadata=st.dictionaries(texts, texts, max_size=3),
    metarange_id=st.sampled_from(["", "ab" * 32]),
    generation=st.integers(1, 2**31 - 1),
)


FORGED_IDS = [
    "/etc/passwd",
    "/" + "a" * 63,
    "../" + "a" * 61,
    "a" * 63,
    "a" * 65,
    "A" * 64,
    "a" * 63 + "\n",
    "a" * 63 + "\0",
    "x",
]


def forged(*, metarange_id: str = "", parents: tuple[str, ...] = ()) -> tuple[bytes, bytes]:
    """A record as `encode_commit` writes it, of a commit that no constructor creates."""
    fields: dict[str, Any] = {"metarange_id": metarange_id, "parents": parents}
    found = commit_id(
        committer="", message="", created_at=0, metadata={}, metarange_id=metarange_id,
        parents=parents,
    )  # fmt: skip
    at = datetime.fromtimestamp(0, UTC)
    fields |= {"id": CommitId(found), "created_at": at, "committer": ""}
    return found.encode(), encode_commit(make("")._replace(**fields))


@pytest.mark.parametrize("text", FORGED_IDS)
@pytest.mark.parametrize("field", ["metarange_id", "parents", "second parent"])
def test_a_commit_that_names_no_id_is_refused(field: str, text: str) -> None:
    """Its own ID is correct: it is the SHA-256 of what the forger wrote."""
    if field == "metarange_id":
        key, value = forged(metarange_id=text)
    else:
        key, value = forged(parents=("b" * 64, text) if "second" in field else (text,))
    with pytest.raises(MalformedValue) as caught:
        decode_commit(key, value)
    assert caught.value.hint


def test_the_forger_writes_what_would_be_believed() -> None:
    key, value = forged(metarange_id="c" * 64, parents=("b" * 64,))
    assert decode_commit(key, value).parents == ("b" * 64,)


def test_a_parent_is_never_empty() -> None:
    with pytest.raises(MalformedValue):
        decode_commit(*forged(parents=("",)))


@given(st.lists(commits, max_size=20, unique_by=lambda commit: commit.id))
def test_commits_are_read_as_they_were_written(written: list[Commit]) -> None:
    store = MemoryStore()
    replaces = [PackId.of_bytes(blake3_of(b"1")), PackId.of_bytes(blake3_of(b"0"))]
    pack_id = packs.write_pack(store, written, replaces=replaces)
    assert packs.write_pack(store, written[::-1], replaces=replaces * 2) == pack_id
    pack = packs.read_pack(store, pack_id)
    assert pack.commits == sorted(written, key=lambda commit: commit.id)
    assert pack.replaces == tuple(sorted(replaces))
    assert [(info.id, info.size) for info in packs.list_packs(store)] == [
        (pack_id, store.head(pack_key(pack_id)).size)
    ]


def test_a_pack_is_a_table_of_lakefs_commits() -> None:
    store = MemoryStore()
    pack_id = packs.write_pack(store, [make("first")])
    table = SSTable(BytesSource("pack", store.get(pack_key(pack_id))))
    assert {name: table.properties[name] for name in ("type", "entity", "writer")} == {
        "type": b"commits",
        "entity": b"commit",
        "writer": b"lakecli",
    }
    assert "replaces" not in table.properties
    [(key, value)] = table.records()
    assert key.decode() == make("first").id
    assert value.startswith(b"\x80\x01" + key)


def test_a_commit_that_is_not_utf_8_is_refused() -> None:
    store = MemoryStore()
    for commit in (
        make("a\udc80"),
        make("", metadata={"\udcff": "x"}),
        make("", committer="\udcff"),
    ):
        with pytest.raises(NotText, match=f"commit {commit.id} cannot be shared"):
            packs.write_pack(store, [commit])
    assert list(store.list()) == []


def intact(read: Iterable[Pack | DamagedPack]) -> list[Pack]:
    """Return the packs that were read, none of which is damaged."""
    found = []
    for each in read:
        assert isinstance(each, Pack), each
        found.append(each)
    return found


def ids_of(read: Iterable[Pack | DamagedPack]) -> list[PackId]:
    return [pack.id for pack in intact(read)]


def test_damage_is_seen() -> None:
    store = MemoryStore()
    pack_id = packs.write_pack(store, [make(f"m{number}") for number in range(50)])
    good = store.get(pack_key(pack_id))
    for bad in (b"", good[:-1], good[:100], good[:500] + b"\0" + good[501:], b"x" * len(good)):
        store.put(pack_key(pack_id), bad, ANY)
        with pytest.raises(DamagedPack, match=f"damaged commit pack _lakecli/commits/{pack_id}"):
            packs.read_pack(store, pack_id)
        (damaged,) = packs.read_new_packs(store, ())
        (record,) = damaged.bad
        assert (record.kind, record.name, record.key) == ("pack", pack_id, pack_key(pack_id))
        assert record.what.startswith("damaged commit pack")
    with pytest.raises(ObjectNotFound):
        packs.read_pack(store, PackId("ab" * 32))


@pytest.mark.parametrize(
    ("entity", "key", "value", "what"),
    [
        (b"branch", make("a").id, encode_commit(make("a")), "not commits"),
        (b"commit", make("b").id, encode_commit(make("a")), f"is {make('a').id}"),
        (
            b"commit",
            make("a").id,
            encode_commit(make("b")._replace(id=make("a").id)),
            f"is {make('b').id}",
        ),
        (b"commit", make("a").id, b"\x02a\x02\xff", "no commit at"),
        (b"commit", make("a").id, b"\x7f", "damaged record"),
        (b"commit", make("a").id, encode_commit(make("a", generation=0)), "no commit at"),
    ],
)
def test_what_others_make_of_a_pack(entity: bytes, key: str, value: bytes, what: str) -> None:
    store = MemoryStore()
    table = TableWriter(properties={"entity": entity})
    table.add_many([key.encode()], [value])
    data = table.finish()
    pack_id = PackId.of_bytes(blake3_of(data))
    store.put(pack_key(pack_id), data, ANY)
    if entity != b"commit":
        with pytest.raises(DamagedPack, match=what):
            packs.read_pack(store, pack_id)
    else:  # the others of its commits may be sound
        pack = packs.read_pack(store, pack_id)
        (bad,) = pack.bad
        assert (pack.commits, bad.name) == ([], key)
        assert what in bad.what
    store.put(COMMITS + "no pack", b"ignored", ANY)
    store.put(COMMITS + "ab" * 32 + "/x", b"ignored", ANY)
    assert [info.id for info in packs.list_packs(store)] == [pack_id]


@pytest.mark.parametrize("nanos", [-1, 0, 999_999_999, 1_000_000_000])
def test_a_second_has_its_nanoseconds(nanos: int) -> None:
    commit = make("commit", (), created_at=AT, metarange_id="ab" * 32, generation=1)
    _, data = decode_value(encode_commit(commit))
    fields = COMMIT_DATA.decode(data)
    fields["creation_date"]["nanos"] = nanos
    key = commit.id.encode("ascii")
    is_sound = 0 <= nanos < 1_000_000_000
    with nullcontext() if is_sound else pytest.raises(MalformedValue, match="no commit"):
        assert decode_commit_data(key, COMMIT_DATA.encode(fields)).nanoseconds == nanos


def test_a_pack_of_nothing_but_bad_records_is_damaged() -> None:
    store = MemoryStore()
    table = TableWriter(properties={"entity": b"commit"})
    for number in range(200):
        table.add_many([f"{number:064}".encode()], [b"\x7f"])
    data = table.finish()
    pack_id = PackId.of_bytes(blake3_of(data))
    store.put(pack_key(pack_id), data, ANY)
    with pytest.raises(DamagedPack, match="many of its records"):
        packs.read_pack(store, pack_id)


def test_an_object_larger_than_any_pack_is_not_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "MAX_PACK_SIZE", 1000)
    reads: list[int | None] = []

    class Measured(MemoryStore):
        def get(
            self, key: str, *, start: int = 0, length: int | None = None, matching: str = ""
        ) -> bytes:
            reads.append(length)
            return super().get(key, start=start, length=length, matching=matching)

    store = Measured()
    data = bytes(100_000)
    pack_id = PackId.of_bytes(blake3_of(data))
    store.put(pack_key(pack_id), data, ANY)
    with pytest.raises(DamagedPack, match="more than 1,000 bytes"):
        packs.read_pack(store, pack_id)
    assert reads == [1001]


def test_records_that_are_many_times_as_large_as_their_pack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They would fill the memory and the disk of every reader."""
    monkeypatch.setattr(layout, "PACK_ALLOWANCE", 10_000)
    store = MemoryStore()
    pack_id = packs.write_pack(store, [make(f"{number}" + "x" * 60_000) for number in range(20)])
    with pytest.raises(DamagedPack, match="many times larger"):
        packs.read_pack(store, pack_id)


def test_records_may_be_a_few_times_as_large_as_their_pack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "PACK_ALLOWANCE", 0)
    store = MemoryStore()
    made = [make(f"{number}" + "x" * 100) for number in range(20)]
    pack_id = packs.write_pack(store, made)
    assert len(packs.read_pack(store, pack_id).commits) == len(made)


def test_a_commit_at_its_limits_is_read_as_it_was_written() -> None:
    made = make("x" * MAX_MESSAGE_SIZE)._replace(nanoseconds=999_999_999)
    assert decode_commit(made.id.encode(), encode_commit(made)) == made
    with pytest.raises(TooLong, match=f"{MAX_MESSAGE_SIZE + 1:,} bytes"):
        encode_commit(make("x" * (MAX_MESSAGE_SIZE + 1)))
    for nanoseconds in (-1, 1_000_000_000):
        data = encode_commit(made._replace(nanoseconds=nanoseconds))
        with pytest.raises(MalformedValue, match="no commit at"):
            decode_commit(made.id.encode(), data)


def test_a_commit_of_the_largest_size_is_read_and_no_larger_one() -> None:
    made = make("")
    _, data = decode_value(encode_commit(made))
    room = MAX_COMMIT_SIZE - len(data)
    made = next(
        each
        for each in (
            make("", metadata={"k": "x" * (room - spent)}) for spent in reversed(range(60))
        )
        if len(decode_value(encode_commit(each))[1]) == MAX_COMMIT_SIZE
    )
    key = made.id.encode()
    _, data = decode_value(encode_commit(made))
    assert decode_commit_data(key, data) == made
    with pytest.raises(MalformedValue, match=f"has {MAX_COMMIT_SIZE + 1:,} bytes"):
        decode_commit_data(key, data + b" ")


@pytest.mark.parametrize("generation", [-1, 0, 1])
def test_a_commit_of_an_old_lakefs_server_has_no_generation(generation: int) -> None:
    made = make("a", generation=generation)
    key = made.id.encode()
    _, data = decode_value(encode_commit(made))
    if generation < 0:
        with pytest.raises(MalformedValue, match="no commit at"):
            decode_commit_data(key, data)
    else:
        assert decode_commit_data(key, data) == made


def test_what_lakefs_records_of_a_cherry_pick_is_not_part_of_the_id() -> None:
    picked = {"cherry-pick-origin": "1" * 64, "cherry-pick-committer": "ada"}
    made = make("a", metadata={"k": "v"})
    for metadata in ({"k": "v", **picked}, {"k": "v"}):
        recorded = made._replace(metadata=metadata)
        assert decode_commit(made.id.encode(), encode_commit(recorded)) == recorded
    for metadata in ({"k": "other", **picked}, {"k": "v", "more": "1"}):
        with pytest.raises(MalformedValue, match="the commit at"):
            decode_commit(made.id.encode(), encode_commit(made._replace(metadata=metadata)))


def test_only_new_packs_are_read() -> None:
    store = CountingStore()
    one, two, three = (make(f"m{number}") for number in range(3))
    first = packs.write_pack(store, [one])
    second = packs.write_pack(store, [two])
    merged = packs.write_pack(store, [one, two], replaces=[first, second])
    third = packs.write_pack(store, [three])
    assert ids_of(packs.read_new_packs(store, ())) == [merged, third]
    assert (store.counts["get"], store.counts["list"]) == (2, 1)
    store.reset()
    assert ids_of(packs.read_new_packs(store, {merged, first, second})) == [third]
    assert (store.counts["get"], store.counts["list"]) == (1, 1)


class LateStore(CountingStore):
    """A store whose listing lacks what was written after some moment."""

    hidden: Collection[str] = ()

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        return (info for info in super().list(prefix, after=after) if info.key not in self.hidden)


def test_a_pack_that_is_listed_late_is_read_because_a_ref_names_it() -> None:
    store = LateStore()
    first = packs.write_pack(store, [make("a")])
    late = packs.write_pack(store, [make("b")])
    store.hidden = {pack_key(late)}
    assert ids_of(packs.read_new_packs(store, ())) == [first]
    gone = PackId("ab" * 32)
    found = packs.read_new_packs(store, {first}, also={late, gone})
    assert ids_of(found) == [late]
    assert list(packs.read_new_packs(store, {first, late}, also={late})) == []


def test_a_pack_that_is_not_listed_is_read_though_another_is_gone() -> None:
    class Late(MemoryStore):
        def list(self, *_: Any, **__: Any) -> Iterator[ObjectInfo]:
            return iter(())

    store = Late()
    pack_id = packs.write_pack(store, [make("late")])
    also = [PackId("00" * 32), pack_id, PackId("ff" * 32)]
    assert ids_of(packs.read_new_packs(store, (), also=also)) == [pack_id]


def test_a_named_pack_that_is_gone_leaves_the_others() -> None:
    store = MemoryStore()
    pack_id = packs.write_pack(store, [make("here")])
    named = [PackId("00" * 32), pack_id]
    assert ids_of(packs.read_named_packs(store, named)) == [pack_id]


def test_a_replaced_pack_is_passed_over_and_those_after_it_are_read() -> None:
    store = MemoryStore()
    first, other = (packs.write_pack(store, [make(message)]) for message in ("first", "other"))
    both = packs.write_pack(store, [make("first"), make("second")], replaces=[first])
    named = [both, first, both, other]
    assert ids_of(packs.read_named_packs(store, named)) == [both, other]


def test_only_a_pack_that_can_be_read_is_replaceable() -> None:
    store = FaultyStore()
    good, damaged = (packs.write_pack(store, [make(message)]) for message in ("good", "damaged"))
    store.put(pack_key(damaged), b"", ANY)
    assert packs.find_replaceable_pack(store, PackId("00" * 32)) is None
    assert packs.find_replaceable_pack(store, damaged) is None
    assert packs.find_replaceable_pack(store, good) == packs.read_pack(store, good)
    store.errors["get"] = unreachable()
    with pytest.raises(Unreachable):
        packs.find_replaceable_pack(store, good)


@pytest.mark.parametrize("version", [-1, 0, 1, 2])
def test_a_commit_is_of_version_0_or_1(version: int) -> None:
    commit = make("commit")
    _, data = decode_value(encode_commit(commit))
    fields = {**COMMIT_DATA.decode(data), "version": version}
    with nullcontext() if version in {0, 1} else pytest.raises(MalformedValue, match="no commit"):
        found = decode_commit_data(commit.id.encode("ascii"), COMMIT_DATA.encode(fields))
        assert found.version == version


def test_a_commit_without_a_date_is_of_1970() -> None:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    commit = make("commit", created_at=epoch)
    _, data = decode_value(encode_commit(commit))
    undated = COMMIT_DATA.encode({**COMMIT_DATA.decode(data), "creation_date": None})
    assert decode_commit_data(commit.id.encode("ascii"), undated).created_at == epoch


def test_what_replaced_a_pack_is_read_though_another_that_a_ref_names_is_gone_too() -> None:
    store = CountingStore()
    one, two = make("a", metadata={"long": "x" * 5000}), make("b")
    first, second = (packs.write_pack(store, [commit]) for commit in (one, two))
    reading = packs.read_new_packs(store, (), also={PackId("ab" * 32)})
    assert ids_of(islice(reading, 1)) == [first]
    merged = packs.write_pack(store, [one, two], replaces=[first, second])
    store.delete([pack_key(first), pack_key(second)])
    assert ids_of(reading) == [merged]


def test_a_pack_deleted_while_it_is_read_was_replaced() -> None:
    store = CountingStore()
    one, two = make("a", metadata={"long": "x" * 5000}), make("b")
    first, second = (packs.write_pack(store, [commit]) for commit in (one, two))
    reading = packs.read_new_packs(store, ())
    assert ids_of(islice(reading, 1)) == [first]
    merged = packs.write_pack(store, [one, two], replaces=[first, second])
    store.delete([pack_key(first), pack_key(second)])
    assert ids_of(reading) == [merged]


def simulate(pushes: int, *, size: int) -> tuple[list[PackInfo], int]:
    """Push commits one at a time, by their sizes alone; return the packs, and bytes rewritten."""
    live: dict[str, PackInfo] = {}
    rewritten = 0
    for number in range(pushes):
        chosen = packs.choose_replaced(list(live.values()), size)
        merged = sum(live.pop(each).size for each in chosen)
        rewritten += merged
        live[PackId(f"{number:064}")] = PackInfo(PackId(f"{number:064}"), 1500 + size + merged, AT)
    return list(live.values()), rewritten


@pytest.mark.parametrize(("pushes", "size"), [(10_000, 400), (10_000, 4_000), (50_000, 300)])
def test_packs_stay_few(pushes: int, size: int) -> None:
    left, rewritten = simulate(pushes, size=size)
    total = sum(info.size for info in left)
    assert len(left) <= 35
    assert rewritten < 12 * total


def test_large_packs_are_left_alone() -> None:
    large = [PackInfo(PackId(f"{number:064}"), LARGEST_PACK, AT) for number in range(20)]
    assert packs.choose_replaced(large, 100) == []
    small = [PackInfo(PackId(f"{number:0>64x}"), 100, AT) for number in range(7)]
    assert packs.choose_replaced(large + small, 100) == [info.id for info in small]
    assert packs.choose_replaced(small[:6], 100) == []
    assert packs.choose_replaced(small[:6], LARGEST_PACK * 2) == []


def push_one_at_a_time(store: CountingStore, pushes: int) -> list[CommitId]:
    """Push commits as single machines do that see each other's packs at once."""
    history: list[CommitId] = []
    live: set[str] = set()
    for number in range(pushes):
        parents = (history[-1],) if history else ()
        commit = make(
            f"commit {number}",
            parents,
            created_at=AT + timedelta(seconds=number),
            metarange_id=blake3_of(b"%d" % number).hex(),
            generation=number + 1,
        )
        listed = [info for info in packs.list_packs(store) if info.id in live]
        chosen = packs.choose_replaced(listed, 500)
        merged = [commit]
        for pack_id in chosen:
            merged += packs.read_pack(store, pack_id).commits
        live -= set(chosen)
        live.add(packs.write_pack(store, merged, replaces=chosen))
        store.delete(map(pack_key, chosen))
        history.append(commit.id)
    return history


@pytest.mark.parametrize("pushes", [1_500, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_a_clone_of_thousands_of_pushes_reads_few_packs(pushes: int) -> None:
    store = CountingStore()
    history = push_one_at_a_time(store, pushes)
    store.reset()
    read = intact(packs.read_new_packs(store, ()))
    assert sorted(commit.id for pack in read for commit in pack.commits) == sorted(history)
    assert store.counts["get"] <= 50
    assert store.counts["list"] <= 1
