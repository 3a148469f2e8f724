"""The index of a working directory."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from lakecli.worktree.index import (
    MAPPED_NS,
    TICK_NS,
    FileState,
    Index,
    TrackedFile,
    is_settled,
    root_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PATHS = st.lists(st.sampled_from([b"a", b"b"]), min_size=1, max_size=3).map(b"/".join)
DIGEST = bytes(range(32))


@given(st.lists(st.tuples(PATHS, st.integers(0, 9) | st.none()), max_size=12), st.booleans())
def test_the_index_is_a_mapping_that_survives_its_file(
    tmp_path_factory: pytest.TempPathFactory,
    edits: list[tuple[bytes, int | None]],
    saves_between: bool,  # noqa: FBT001 - drawn by Hypothesis
) -> None:
    file = tmp_path_factory.mktemp("index") / "x.index"
    index, model = Index("key"), dict[bytes, TrackedFile]()
    for path, size in edits:
        if size is None:
            index.drop(path)
            model.pop(path, None)
        else:
            model[path] = TrackedFile(FileState(1, size, -5, 7), DIGEST)
            index.put(path, *model[path])
        if saves_between:
            index.save(file)
            loaded = Index.load(file, "key")
            assert loaded is not None
            index = loaded
    index.save(file)
    found = Index.load(file, "key")
    assert found is not None
    assert {path: found.find(path) for path in found.paths()} == model


def test_an_index_of_something_else_or_a_damaged_one_is_not_used(tmp_path: Path) -> None:
    file = tmp_path / "x.index"
    index = Index("key")
    index.put(b"d/a", FileState(1, 2, 3, 4), DIGEST)
    index.save(file)
    assert Index.load(tmp_path / "absent", "key") is None
    assert Index.load(tmp_path, "key") is None  # a directory
    assert Index.load(file, "other") is None
    data = file.read_bytes()
    for position in range(len(data)):
        file.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        assert Index.load(file, "key") is None
        file.write_bytes(data[:position])
        assert Index.load(file, "key") is None


def test_a_state_counts_once_the_file_cannot_change_unnoticed() -> None:
    state = FileState(1, 2, mtime_ns=0, ctime_ns=10**9)
    assert not is_settled(state, at_ns=10**9 + MAPPED_NS - 1)
    assert is_settled(state, at_ns=10**9 + MAPPED_NS)
    assert not is_settled(state, at_ns=10**9 + TICK_NS - 1, is_own=True)
    assert is_settled(state, at_ns=10**9 + TICK_NS, is_own=True)


def test_the_file_of_an_index(tmp_path: Path) -> None:
    index = Index("key", b"/root")
    index.put(b"a", FileState(1, 2), DIGEST)
    index.put(b"b", FileState(3, 4, 5, 6), DIGEST)
    assert list(index.paths()) == [b"a", b"b"]
    changed = [index.has_changed]
    index.save(tmp_path / "x.index")
    changed.append(index.has_changed)
    assert changed == [True, False]
    records = struct.pack("<Qqqq", 1, 2, 0, 0) + DIGEST + struct.pack("<Qqqq", 3, 4, 5, 6) + DIGEST
    data = b"lakecli index 2\n\0\0\0\x03key\0\0\0\x05/root"
    data += struct.pack(">IIII", 0, 2, 3, 128) + b"a\0b" + records
    assert (tmp_path / "x.index").read_bytes() == data + blake3(data).digest()
    assert root_of(tmp_path / "x.index") == b"/root"
    assert root_of(tmp_path / "absent") is None


def test_a_state_is_recorded_where_its_file_is() -> None:
    index = Index("key")
    for name in (b"a", b"b", b"c"):
        index.put(name, FileState(0, 2), DIGEST)
    index.settle()
    block = index.blocks[b""]
    changed = []
    for mtime_ns in (2**63 - 1, 2**63):
        index.has_changed = False
        index.see(block, 1, FileState(1, 2, mtime_ns, 0))
        changed.append(index.has_changed)
    assert changed == [True, False]
    assert [index.find(name) for name in (b"a", b"b", b"c")] == [
        TrackedFile(FileState(0, 2), DIGEST),
        TrackedFile(FileState(1, 2, 2**63 - 1, 0), DIGEST),
        TrackedFile(FileState(0, 2), DIGEST),
    ]


def test_a_time_out_of_range_is_not_recorded() -> None:
    index = Index("key")
    index.put(b"last", FileState(1, 2, 2**63 - 1, 0), DIGEST)
    assert index.find(b"last") == TrackedFile(FileState(1, 2, 2**63 - 1, 0), DIGEST)
    index.put(b"a", FileState(1, 2, 2**63, 0), DIGEST)
    assert index.find(b"a") == TrackedFile(FileState(0, 2), DIGEST)
