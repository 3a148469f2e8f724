"""Test vectors of the format, because IDs stay in buckets for years."""

from __future__ import annotations

from datetime import UTC, datetime

from lakecli.base.identity import blake3_of
from lakecli.base.layout import data_key
from lakecli.base.model import EMPTY_TREE, Entry
from lakecli.committed.values import encode_entry, identity_of
from lakecli.committed.writer import apply
from tests.committed.trees import build, iter_ranges, large_model, new_trees

AT = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)


def uploaded(data: bytes, content_type: str, metadata: dict[str, str]) -> bytes:
    checksum = blake3_of(data).hex()
    return encode_entry(Entry(data_key(checksum), len(data), checksum, AT, content_type, metadata))


HELLO = uploaded(b"hello", "text/plain", {})
EMPTY = uploaded(b"", "application/octet-stream", {"k": "v"})


def test_one_entry() -> None:
    trees = new_trees()
    tree = apply(trees, EMPTY_TREE, [(b"a/1.txt", HELLO)])
    assert tree == "454d4dd124b42e86f088d57165741bbf445b4b6da5ccc43df52884bd978c8946"
    assert [record.id for record in iter_ranges(trees, tree)] == [
        "85fc17baf39c8f1c4b4cd9ef7497c4ffc2fe8f08cd7b262c8cf4056251fdd6cb"
    ]


def test_two_entries() -> None:
    trees = new_trees(range_entries=8192)
    assert (
        identity_of(EMPTY).hex()
        == "438b9f6e393140ba409ecfe826d857dcdadb804eefd45455dc02ff07ca662565"
    )
    tree = apply(trees, EMPTY_TREE, [(b"a/1.txt", HELLO), (b"a/2.bin", EMPTY)])
    assert tree == "4b22d2a254b53cda6dd7b8cad48d4a0084dc286e04348a056b33967d00f85bc3"
    assert [record.id for record in iter_ranges(trees, tree)] == [
        "6ca454513846acf730ac0b4cd03ca3bc0f2c1857356b6adaa9029f67ab214289"
    ]


def test_the_empty_tree_has_no_object() -> None:
    trees = new_trees()
    tree = apply(trees, EMPTY_TREE, [(b"a", HELLO)])
    assert apply(trees, tree, [(b"a", None)]) == EMPTY_TREE == ""
    assert {info.key for info in trees.store.list()} == {
        f"_lakefs/{tree}",
        *(f"_lakefs/{record.id}" for record in iter_ranges(trees, tree)),
    }


TREE_OF_2000 = "d74f019a59acf37a26fb38c9590addf8677e958e86cf60be73f5be684edddbaa"
COUNTS = [72, 28, 18, 71, 1, 77, 50, 56, 83, 79, 14, 66]


def test_many_ranges() -> None:
    trees = new_trees(range_entries=64)
    tree = build(trees, large_model(2000))
    assert tree == TREE_OF_2000
    assert [record.count for record in iter_ranges(trees, tree)][:12] == COUNTS


def test_what_tables_say_of_themselves() -> None:
    trees = new_trees(range_entries=32)
    tree = build(trees, large_model(100))
    properties = trees.read_object(tree).properties
    assert properties["type"] == b"metaranges"
    assert properties["writer"] == b"lakecli"
    assert properties["lakecli.tree"] == b"1;n=32"
    for record in iter_ranges(trees, tree):
        table = trees.read_object(record.id)
        assert table.properties["type"] == b"ranges"
        assert table.properties["writer"] == b"lakecli"
        assert table.properties["min_key"] == record.min_key
        assert table.properties["max_key"] == record.max_key
        assert table.properties["count"] == b"%d" % record.count
        assert record.size == table.size == trees.store.head(f"_lakefs/{record.id}").size
