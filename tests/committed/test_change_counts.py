"""Counts of differences by prefix against counts of a plain list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakecli.base.model import ChangeType, Difference
from lakecli.committed.change_counts import ChangeCounts, count_changes
from lakecli.committed.diff import prefix_of
from lakecli.committed.values import encode_entry
from tests.support.lakes import entry_of

paths = st.lists(st.sampled_from(["a", "b", "c", "a.", "aa"]), min_size=1, max_size=4).map("/".join)
kinds = st.sampled_from(list(ChangeType))


def difference(path: str, kind: ChangeType, left: int, right: int) -> Difference:
    old, new = encode_entry(entry_of(b"x" * left)), encode_entry(entry_of(b"y" * right))
    return Difference(
        kind,
        path.encode(),
        None if kind == ChangeType.ADDED else old,
        None if kind == ChangeType.REMOVED else new,
    )


def fields(counts: ChangeCounts) -> tuple[object, ...]:
    return tuple(vars(counts).values())


@given(
    st.dictionaries(paths, st.tuples(kinds, st.integers(0, 9), st.integers(0, 9)), max_size=20),
    st.integers(0, 4),
)
def test_every_path_counts_once(found: dict[str, tuple[ChangeType, int, int]], depth: int) -> None:
    changes = [difference(path, *found[path]) for path in sorted(found, key=str.encode)]
    *rows, total = count_changes(changes, depth=depth)
    expected: dict[bytes | None, ChangeCounts] = {None: ChangeCounts(None)}
    for change in changes:
        directories = change.path.decode().split("/")[:-1][:depth]
        prefix = "".join(f"{name}/" for name in directories).encode()
        assert prefix_of(change.path, depth) == prefix
        for key in [None, *([prefix] if depth else [])]:
            expected.setdefault(key, ChangeCounts(key)).add(change)
    assert fields(total) == fields(expected.pop(None))
    assert sorted(map(fields, rows)) == sorted(map(fields, expected.values()))
    assert total.paths == len(found)
    for number, row in enumerate(rows):
        # What is inside a prefix comes before it.
        assert not any(
            (later.prefix or b"").startswith(row.prefix or b"") for later in rows[number + 1 :]
        )


def test_sizes_of_both_sides() -> None:
    changes = [
        difference("a/x", ChangeType.ADDED, 0, 5),
        difference("a/y", ChangeType.CHANGED, 7, 2),
        difference("a/z", ChangeType.REMOVED, 3, 0),
        difference("b", ChangeType.CONFLICT, 9, 9),
    ]
    rows = [fields(row) for row in count_changes(changes, depth=1)]
    names = vars(ChangeCounts(None))
    assert [dict(zip(names, row, strict=True)) for row in rows] == [
        {
            "prefix": prefix,
            "added": counts[0],
            "changed": counts[1],
            "removed": counts[2],
            "conflicts": counts[3],
            "bytes_added": 5 * counts[0],
            "bytes_before": 7 * counts[1],
            "bytes_after": 2 * counts[1],
            "bytes_removed": 3 * counts[2],
        }
        for prefix, counts in ((b"a/", (1, 1, 1, 0)), (b"", (0, 0, 0, 1)), (None, (1, 1, 1, 1)))
    ]
