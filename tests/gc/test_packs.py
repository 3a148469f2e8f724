"""Which commits all packs have, and which packs are garbage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.ids import PackId
from lakecli.base.layout import COMMITS, pack_key
from lakecli.gc.roots import Known, read_packs, superseded_packs
from lakecli.remote.packs import REPLACES, encode_commit, read_pack, write_pack
from lakecli.sstable.writer import TableWriter
from lakecli.stores.contract import ANY
from tests.gc.shared import LONG, Shared, make_commit, push
from tests.remote.test_packs import AT, make
from tests.support.counting import CountingStore
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.base.model import Commit
    from lakecli.stores.contract import ObjectInfo

A, B, C = (make(text) for text in "abc")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def garbage(store: MemoryStore) -> dict[PackId, PackId]:
    listed = [info.key.removeprefix(COMMITS) for info in store.list(COMMITS)]
    return superseded_packs(store, listed, read_packs(store).replaces)


def write_bad(store: MemoryStore, commits: list[Commit], *, replaces: list[PackId]) -> PackId:
    """Write a pack of which this version cannot read one record, and return its ID."""
    table = TableWriter(
        properties={
            "type": b"commits",
            "entity": b"commit",
            REPLACES: b"".join(map(bytes.fromhex, replaces)),
        }
    )
    for each in sorted(commits, key=lambda each: each.id):
        table.add_many([each.id.encode()], [encode_commit(each)])
    table.add_many([b"g" * 64], [b"\xff"])
    data = table.finish()
    pack_id = PackId.of_bytes(blake3_of(data))
    store.put(pack_key(pack_id), data, ANY)
    assert len(read_pack(store, pack_id).bad) == 1
    return pack_id


def test_all_packs_are_read(store: MemoryStore) -> None:
    first, second = write_pack(store, [A]), write_pack(store, [B])
    third = write_pack(store, [A, B, C], replaces=[first, second])
    read = read_packs(store)
    at = int(AT.timestamp())
    assert read.commits == {each.id: Known((), each.metarange_id, at) for each in (A, B, C)}
    assert read.replaces == {third: tuple(sorted([first, second]))}
    assert read.damaged == []


def test_a_pack_that_was_replaced_since_the_listing_is_read_in_its_replacement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = CountingStore()
    scratch = MemoryStore()
    by = write_pack(scratch, [A, B], replaces=[write_pack(scratch, [A])])
    # A pack that was read is listed before the replacement, which must be read all the same.
    early = next(each for each in map(make, "cdefghijk") if write_pack(scratch, [each]) < by)
    first, second = write_pack(store, [A]), write_pack(store, [early])
    listings = 0
    real = MemoryStore.list

    def list_(store: MemoryStore, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        nonlocal listings
        found = [*real(store, prefix, after=after)]
        listings += 1
        if listings == 1:
            write_pack(store, [A, B], replaces=[first])
            store.delete([pack_key(first)])
        return iter(found)

    monkeypatch.setattr(MemoryStore, "list", list_)
    assert set(read_packs(store).commits) == {A.id, B.id, early.id}
    read = [key for kind, key in store.keys if kind == "get"]
    assert len(read) == len(set(read)) == 3
    assert (listings, second in garbage(store)) == (2, False)


def test_a_damaged_pack_hides_no_other(store: MemoryStore) -> None:
    first = write_pack(store, [A])
    store.put(pack_key(first), b"damaged", ANY)
    write_pack(store, [B])
    read = read_packs(store)
    assert set(read.commits) == {B.id}
    assert [first in str(each) for each in read.damaged] == [True]


@pytest.mark.parametrize("held", [[A, B], [A, B, C]])
def test_a_pack_is_garbage_if_another_one_has_all_of_its_commits(
    store: MemoryStore, held: list[Commit]
) -> None:
    first, second = write_pack(store, [A]), write_pack(store, [A, B])
    by = write_pack(store, held, replaces=[first, second])
    write_pack(store, [C])
    assert garbage(store) == {first: by, second: by}


def test_what_replaces_a_replacing_pack_replaces_the_first_too(store: MemoryStore) -> None:
    first = write_pack(store, [A])
    second = write_pack(store, [A, B], replaces=[first])
    third = write_pack(store, [A, B, C], replaces=[second])
    assert garbage(store) == {first: third, second: third}


def test_a_claim_that_proves_nothing_hides_no_other(store: MemoryStore) -> None:
    first, lost = write_pack(store, [A]), write_pack(store, [B])
    store.delete([pack_key(lost)])
    by = write_pack(store, [A, C], replaces=[first])
    forged = [make(f"{number}") for number in range(20)]
    claims = {write_pack(store, [each], replaces=[lost]) for each in forged}
    assert min(claims) < by < max(claims)  # claims are read in the order of IDs
    assert garbage(store) == {first: by}


@pytest.mark.parametrize("why", ["lacks a commit", "gone", "damaged"])
@pytest.mark.parametrize("which", ["the replaced one", "the replacing one"])
def test_a_pack_stays_unless_another_one_provably_has_its_commits(
    store: MemoryStore, which: str, why: str
) -> None:
    first = write_pack(store, [A, B] if why == "lacks a commit" else [A])
    by = write_pack(store, [A, C], replaces=[first])
    replaces = read_packs(store).replaces
    listed = [first, by]
    changed = first if which == "the replaced one" else by
    if why == "gone":
        store.delete([pack_key(changed)])
    elif why == "damaged":
        store.put(pack_key(changed), b"damaged", ANY)
    assert superseded_packs(store, listed, replaces) == {}
    if why == "gone":
        assert garbage(store) == {}


def test_a_pack_stays_if_it_or_its_replacement_has_a_record_that_cannot_be_read(
    store: MemoryStore,
) -> None:
    first = write_bad(store, [A], replaces=[])
    write_pack(store, [A, C], replaces=[first])
    second = write_pack(store, [B])
    write_bad(store, [B, C], replaces=[second])
    assert len(read_packs(store).replaces) == 2
    assert garbage(store) == {}


def test_a_pack_stays_while_its_replacement_is_not_listed(store: MemoryStore) -> None:
    """A store may list late; what is not listed could be deleted as well."""
    first = write_pack(store, [A])
    by = write_pack(store, [A, B], replaces=[first])
    replaces = read_packs(store).replaces
    assert superseded_packs(store, [first], replaces) == {}
    assert superseded_packs(store, [first, by], replaces) == {first: by}


def test_a_pack_stays_while_its_replacement_is_young(tmp_path: Path) -> None:
    """A process that has listed the packs before still reads the old one."""
    with Shared(tmp_path) as shared:
        make_commit(shared.clones[0], {b"a": b"a"})
        push(shared.clones[0])
        first = write_pack(shared.store, [A])
        shared.time.pass_by(LONG)
        write_pack(shared.store, [A, B], replaces=[first])
        assert not shared.collect().garbage
        shared.time.pass_by(LONG)
        assert {each.kind: each.objects for each in shared.collect().garbage} == {"pack": 1}
