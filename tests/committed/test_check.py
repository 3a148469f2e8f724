"""What fsck finds in trees: no defect in sound ones, and every defect in damaged ones."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from lakecli.base.identity import blake3_of, frame_int, frame_map, frame_str
from lakecli.base.layout import data_key
from lakecli.base.model import EMPTY_TREE, Entry, MetarangeId, RangeId
from lakecli.committed.cache import SstableCache
from lakecli.committed.check import (
    CheckedEntry,
    Problem,
    check_metarange,
    check_range,
    problem_of_copy,
)
from lakecli.committed.metaranges import (
    TREE_PROPERTY,
    RangeRecord,
    encode_range_record,
    load_metarange,
)
from lakecli.committed.scan import scan
from lakecli.committed.values import encode_entry, encode_value, identity_of
from lakecli.committed.writer import apply
from lakecli.errors import IntegrityError
from lakecli.sstable.writer import TableWriter
from lakecli.stores.contract import ANY
from tests.committed.trees import Model, boundaries, build, iter_ranges, key, new_trees
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.committed.tree_store import TreeStore

AT = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)


def entry(number: int) -> Entry:
    checksum = blake3_of(b"%d" % number).hex()
    return Entry(data_key(checksum), number, checksum, AT, "text/plain", {"n": str(number)})


MODEL: Model = {key(at): encode_entry(entry(at)) for at in range(300)}


def problems_of(trees: TreeStore, tree: MetarangeId) -> list[Problem]:
    records, problems = check_metarange(trees, tree)
    for record in records:
        problems += [each for each in check_range(trees, record) if isinstance(each, Problem)]
    return problems


def test_a_sound_tree_has_no_problems_and_yields_its_entries() -> None:
    trees = new_trees()
    tree = build(trees, MODEL)
    records, problems = check_metarange(trees, tree)
    assert problems == []
    assert records == list(iter_ranges(trees, tree))
    found = [each for record in records for each in check_range(trees, record)]
    assert found == [
        CheckedEntry(
            path, entry(at).physical_address, at, entry(at).checksum, entry(at).modified_at
        )
        for at, path in enumerate(MODEL)
    ]


def test_the_empty_tree_is_sound() -> None:
    assert check_metarange(new_trees(), EMPTY_TREE) == ([], [])


def test_missing_tables_are_problems() -> None:
    trees = new_trees()
    tree = build(trees, MODEL)
    first, second, *_ = iter_ranges(trees, tree)
    trees.store.delete([f"_lakefs/{second.id}"])
    assert [each.key for each in problems_of(trees, tree)] == [f"_lakefs/{second.id}"]
    trees.store.delete([f"_lakefs/{tree}"])
    (problem,) = problems_of(trees, tree)
    assert problem.key == f"_lakefs/{tree}"
    assert "missing" in problem.what
    assert list(check_range(trees, first))


def test_the_bucket_is_read_not_the_cache(tmp_path: Path) -> None:
    store = MemoryStore()
    trees = new_trees(store, cache=SstableCache(tmp_path))
    tree = build(trees, MODEL)
    assert dict(scan(trees, tree)) == MODEL
    for info in list(store.list()):
        store.put(info.key, b"damaged", ANY)
    assert dict(scan(trees, tree)) == MODEL
    assert [each.key for each in problems_of(trees, tree)] == [f"_lakefs/{tree}"]


def test_every_flipped_byte_is_found() -> None:
    """But for those that nothing says: unused properties have the block's checksum to tell."""
    trees = new_trees()
    tree = build(trees, dict(list(MODEL.items())[:40]))
    flips = random.Random(2)
    for info in list(trees.store.list()):
        data = trees.store.get(info.key)
        for at in [*flips.sample(range(len(data)), 60), 0, len(data) - 1, len(data) - 54]:
            flipped = bytearray(data)
            flipped[at] ^= 1 << flips.randrange(8)
            trees.store.put(info.key, bytes(flipped), ANY)
            found = problems_of(trees, tree)
            assert info.key in {each.key for each in found}, (info.key, at, len(data))
        trees.store.put(info.key, data, ANY)
    assert problems_of(trees, tree) == []


def test_a_damaged_block_does_not_hide_the_others() -> None:
    trees = new_trees(range_entries=1024)
    tree = build(trees, MODEL)
    record = max(iter_ranges(trees, tree), key=lambda each: each.count)
    table = trees.table(record)
    assert table.block_count > 5
    stored = table.stored_block(2)
    object_key = f"_lakefs/{record.id}"
    data = trees.store.get(object_key)
    assert data.count(stored) == 1
    trees.store.put(object_key, data.replace(stored, bytes(len(stored))), ANY)

    found = list(check_range(trees, record))
    (problem,) = [each for each in found if isinstance(each, Problem)]
    lost = table.block(2).keys
    assert f"after {table.block(1).keys[-1]!r} are lost" in problem.what
    expected = [path for path, _ in table.records() if path not in lost]
    assert [each.path for each in found if isinstance(each, CheckedEntry)] == expected


def tampered(change_records: dict[bytes, bytes | None]) -> tuple[TreeStore, RangeRecord]:
    """Return a range with other records under its name, in a table that is otherwise sound."""
    trees = new_trees(range_entries=1024)
    tree = build(trees, dict(list(MODEL.items())[:20]))
    (record,) = iter_ranges(trees, tree)
    records = {**dict(list(MODEL.items())[:20]), **change_records}
    table = TableWriter(properties={"type": b"ranges", "writer": b"lakecli"})
    for path in sorted(records):
        value = records[path]
        if value is not None:
            table.add_many([path], [value])
    trees.store.put(f"_lakefs/{record.id}", table.finish(), ANY)
    return trees, record


def whats(trees: TreeStore, record: RangeRecord) -> list[tuple[bytes | None, str]]:
    return [
        (each.path, each.what) for each in check_range(trees, record) if isinstance(each, Problem)
    ]


def test_an_entry_that_does_not_match_its_identity() -> None:
    other = entry(5)._replace(size=99)
    value = encode_value(identity_of(MODEL[key(5)]), encode_entry(other)[35:])
    trees, record = tampered({key(5): value})
    assert whats(trees, record) == [(key(5), "the entry does not match its identity")]


def test_another_entry_is_told_by_the_name() -> None:
    trees, record = tampered({key(5): encode_entry(entry(6))})
    assert whats(trees, record) == [(None, "its name is not the digest of its records")]


def test_a_missing_record() -> None:
    trees, record = tampered({key(5): None})
    assert [what for _, what in whats(trees, record)] == [
        "19 records, but its metarange says 20",
        "its name is not the digest of its records",
    ]


def test_a_record_outside_the_bounds() -> None:
    trees, record = tampered({key(5): None, key(500): MODEL[key(5)]})
    expected = (
        "its keys reach from b'k00000' to b'k00500', but its metarange says b'k00000' to b'k00019'"
    )
    assert expected in [what for _, what in whats(trees, record)]


def test_a_value_that_is_not_an_entry() -> None:
    trees, record = tampered({key(5): encode_value(blake3_of(b"x"), b"\xff")})
    assert whats(trees, record)[0][0] == key(5)
    trees, record = tampered({key(5): b"\xff"})
    assert [path for path, _ in whats(trees, record)] == [key(5)]


def test_a_copy_of_a_table_is_judged_by_its_name() -> None:
    trees = new_trees()
    tree = build(trees, MODEL)
    record, *_ = iter_ranges(trees, tree)
    for name, other in ((tree, record.id), (record.id, tree)):
        data = trees.store.get(f"_lakefs/{name}")
        assert problem_of_copy(name, data) is None
        assert problem_of_copy(other, data) == "its name is not the digest of its records"
        assert "is not an SSTable" in (problem_of_copy(name, data[:-1]) or "")


def test_a_tree_of_one_entry_is_sound() -> None:
    trees = new_trees()
    assert problems_of(trees, build(trees, {key(5): MODEL[key(5)]})) == []


def framed(entry: Entry) -> bytes:
    metadata = frame_map(entry.metadata)
    return frame_int(entry.size) + frame_str(entry.checksum) + metadata


@pytest.mark.parametrize("content_type", ["", "text/plain"])
def test_the_identities_of_every_release_of_lakefs_are_right(content_type: str) -> None:
    five = entry(5)._replace(content_type=content_type)
    old = framed(five)
    newest = old + frame_str(content_type)
    oldest = frame_str(five.physical_address) + old
    rights = [old, oldest, *([newest] if content_type else [])]
    for hashed in [old, oldest, newest]:
        value = encode_value(sha256(hashed).digest(), encode_entry(five)[35:])
        trees, record = tampered({key(5): value})
        found = (key(5), "the entry does not match its identity") in whats(trees, record)
        assert found == (hashed not in rights)


def put_metarange(
    trees: TreeStore, records: list[tuple[bytes, bytes]], *, number: bytes = b"16"
) -> MetarangeId:
    table = TableWriter(
        properties={"type": b"metaranges", "writer": b"lakecli", TREE_PROPERTY: b"1;n=" + number}
    )
    for path, value in records:
        table.add_many([path], [value])
    tree = MetarangeId(blake3_of(repr(records).encode()).hex())
    trees.store.put(f"_lakefs/{tree}", table.finish(), ANY)
    return tree


ID = RangeId("5" * 64)


@pytest.mark.parametrize(
    ("records", "what"),
    [
        ([RangeRecord(ID, b"c", b"a", 1, 1)], "contradicts itself"),
        ([RangeRecord(ID, b"a", b"b", 1, 0)], "contradicts itself"),
        ([RangeRecord(ID, b"a", b"c", 1, 5), RangeRecord(ID, b"b", b"d", 1, 5)], "overlap"),
        ([RangeRecord(ID, b"a", b"c", 1, 5), RangeRecord(ID, b"c", b"d", 1, 5)], "overlap"),
        ([RangeRecord(ID, b"a", b"c", 1, 5), RangeRecord(ID, b"d", b"e", 1, 5)], "does not cut"),
        ([RangeRecord(ID, b"a", b"c", 1, 5)], "its name is not the digest"),
    ],
)
def test_a_metarange_that_contradicts_itself(records: list[RangeRecord], what: str) -> None:
    trees = new_trees()
    tree = put_metarange(
        trees, [(record.max_key, encode_range_record(record)) for record in records]
    )
    found, problems = check_metarange(trees, tree)
    assert found == records
    assert any(what in problem.what for problem in problems)


def test_a_metarange_with_a_record_that_is_none() -> None:
    trees = new_trees()
    good = RangeRecord(ID, b"a", b"b", 1, 5)
    tree = put_metarange(
        trees, [(b"b", encode_range_record(good)), (b"c", encode_value(b"../x", b""))]
    )
    found, problems = check_metarange(trees, tree)
    assert found == [good]
    assert any("a range without an ID" in problem.what for problem in problems)


def test_a_metarange_of_an_impossible_n() -> None:
    trees = new_trees()
    record = RangeRecord(ID, b"a", b"b", 1, 5)
    tree = put_metarange(trees, [(b"b", encode_range_record(record))], number=b"17")
    _, problems = check_metarange(trees, tree)
    assert any("range_entries" in problem.what for problem in problems)


def test_a_metarange_whose_properties_count_other_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    trees = new_trees()
    tree = build(trees, MODEL)
    table = trees.read_object(tree)
    count = table.count
    table.count += 1
    monkeypatch.setattr(trees, "read_object", lambda _: table)
    _, (problem,) = check_metarange(trees, tree)
    assert problem.key == f"_lakefs/{tree}"
    assert problem.what == f"{count} ranges, but its properties say {count + 1}"
    with pytest.raises(IntegrityError, match=problem.what):  # so no block of it is empty
        load_metarange(tree, table)


def test_a_range_in_place_of_a_metarange_is_reported_and_the_reverse() -> None:
    trees = new_trees()
    tree = build(trees, MODEL)
    record = next(iter_ranges(trees, tree))
    _, problems = check_metarange(trees, MetarangeId(record.id))
    assert "is not a metarange" in problems[0].what
    (problem,) = check_range(trees, record._replace(id=RangeId(tree)))
    assert isinstance(problem, Problem)
    assert "is not a range" in problem.what


def test_trees_after_many_commits_are_sound() -> None:
    trees = new_trees()
    tree = build(trees, MODEL)
    for step in range(5):
        changes: dict[bytes, bytes | None] = dict.fromkeys(boundaries(trees, tree)[step::3])
        changes |= {key(step * 50 + at) + b"+": MODEL[key(at)] for at in range(30)}
        tree = apply(trees, tree, sorted(changes.items()))
        assert problems_of(trees, tree) == []
