"""Listings with prefix and delimiter against a plain list, and what they read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.committed.scan import (
    ListedObject,
    ListedPrefix,
    first_key,
    list_prefix,
    prefix_end,
    scan,
)
from tests.committed.trees import Model, build, new_trees, reopened, value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.base.model import MetarangeId
    from lakecli.committed.tree_store import TreeStore

Listed = ListedObject | ListedPrefix

paths = st.lists(st.sampled_from([b"a", b"b", b"/", b"//", b"\xff", b"0"]), max_size=6).map(
    b"".join
)
names_of_objects = st.sets(paths.filter(bool), max_size=50)
delimiters = st.sampled_from([b"", b"/", b"//", b"a", b"\xff", b"b/"])


def listed(
    trees: TreeStore, tree: MetarangeId, *, prefix: bytes, delimiter: bytes, after: bytes
) -> list[Listed]:
    def scan_from(start: bytes) -> Iterator[tuple[bytes, bytes]]:
        return scan(trees, tree, start=start, prefix=prefix)

    return list(list_prefix(scan_from, prefix=prefix, delimiter=delimiter, after=after))


def of_model(model: Model, prefix: bytes, delimiter: bytes, after: bytes) -> list[Listed]:
    found: dict[bytes, Listed] = {}
    for path in sorted(model):
        if not path.startswith(prefix):
            continue
        at = path.find(delimiter, len(prefix)) if delimiter else -1
        if at < 0:
            found[path] = ListedObject(path, model[path])
        else:
            common = path[: at + len(delimiter)]
            found[common] = ListedPrefix(common)
    return [found[path] for path in sorted(found) if path > after]


@given(names_of_objects, paths, delimiters, paths)
def test_listing_is_the_models_listing(
    names: set[bytes], prefix: bytes, delimiter: bytes, after: bytes
) -> None:
    model = {path: value(at) for at, path in enumerate(sorted(names))}
    trees = new_trees()
    tree = build(trees, model)
    found = listed(trees, tree, prefix=prefix, delimiter=delimiter, after=after)
    assert found == of_model(model, prefix, delimiter, after)


@given(names_of_objects, paths, delimiters, st.integers(1, 5))
def test_pages_add_up_to_the_listing(
    names: set[bytes], prefix: bytes, delimiter: bytes, size: int
) -> None:
    model = {path: value(at) for at, path in enumerate(sorted(names))}
    trees = new_trees()
    tree = build(trees, model)
    pages: list[Listed] = []
    after = b""
    while page := listed(trees, tree, prefix=prefix, delimiter=delimiter, after=after)[:size]:
        pages += page
        after = page[-1].path
        assert len(pages) <= len(model)
    assert pages == of_model(model, prefix, delimiter, b"")


def partitions(count: int, size: int) -> Model:
    return {
        b"t/p%03d/f%05d" % (number, at): value(at) for number in range(count) for at in range(size)
    }


def test_common_prefixes_are_sought_past_not_read_through() -> None:
    trees = new_trees()
    tree = build(trees, partitions(10, 1000))
    trees = reopened(trees)
    found = listed(trees, tree, prefix=b"t/", delimiter=b"/", after=b"")
    assert found == [ListedPrefix(b"t/p%03d/" % number) for number in range(10)]
    assert len(trees.metarange(tree)) > 500
    assert trees.counts.ranges_opened <= 3 * 10


def test_small_common_prefixes_are_read_past_without_another_scan() -> None:
    model = partitions(200, 3)
    starts: list[bytes] = []

    def scan_from(start: bytes) -> Iterator[tuple[bytes, bytes]]:
        starts.append(start)
        return iter([item for item in sorted(model.items()) if item[0] >= start])

    assert len(list(list_prefix(scan_from, prefix=b"t/", delimiter=b"/"))) == 200
    assert starts == [b"t/"]


def test_a_listing_ends_behind_the_last_common_prefix_there_can_be() -> None:
    model = {b"\xff" + b"%03d" % at: value(at) for at in range(50)} | {b"a": value(1)}

    def scan_from(start: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter([item for item in sorted(model.items()) if item[0] >= start])

    found = list(list_prefix(scan_from, delimiter=b"\xff"))
    assert found == [ListedObject(b"a", value(1)), ListedPrefix(b"\xff")]
    assert list(list_prefix(scan_from, delimiter=b"\xff", after=b"\xff")) == []


def test_a_prefix_opens_only_its_ranges() -> None:
    trees = new_trees()
    model = partitions(50, 40)
    tree = build(trees, model)
    trees = reopened(trees)
    found = [path for path, _ in scan(trees, tree, prefix=b"t/p017/")]
    assert found == [path for path in sorted(model) if path.startswith(b"t/p017/")]
    needed = [
        record
        for record in trees.metarange(tree).records()
        if record.max_key >= b"t/p017/" and record.min_key < b"t/p0170"
    ]
    assert trees.counts.ranges_opened == len(needed)


def test_a_prefix_that_nothing_has_opens_nothing_behind_it() -> None:
    trees = new_trees()
    tree = build(trees, partitions(50, 40))
    trees = reopened(trees)
    assert list(scan(trees, tree, prefix=b"u")) == []
    assert list(scan(trees, tree, prefix=b"a")) == []
    assert list(scan(trees, tree, start=b"u", prefix=b"t/")) == []
    assert trees.counts.ranges_opened == 0


@pytest.mark.parametrize(
    ("prefix", "end"),
    [(b"", None), (b"a", b"b"), (b"a\xff", b"b"), (b"\xff\xff", None), (b"a/", b"a0")],
)
def test_prefix_end(prefix: bytes, end: bytes | None) -> None:
    assert prefix_end(prefix) == end


@given(st.binary(max_size=4), st.binary(max_size=4), st.binary(max_size=5))
def test_intervals(prefix: bytes, after: bytes, path: bytes) -> None:
    end = prefix_end(prefix)
    inside = path >= first_key(prefix, after) and (end is None or path < end)
    wanted = path.startswith(prefix) and (path > after or not after)
    assert inside == wanted
