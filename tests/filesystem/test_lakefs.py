"""Entries of lakeFS through the file system: kept as they are, wherever they go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.filesystem import lakes
from lakecli.repository.reading.view import open_view
from lakecli.stores.contract import ANY
from tests.support.lakefs_entries import address_of, lakefs_value, stage_lakefs, stage_values

if TYPE_CHECKING:
    from lakecli.filesystem import LakeFileSystem

CONTENTS = {b"a/1": b"one", b"a/2": b"two"}


@pytest.fixture
def values(fs: LakeFileSystem) -> dict[bytes, bytes]:
    with lakes.repository(fs.home, "demo") as repository:
        return stage_lakefs(repository, "main", CONTENTS)


def present(fs: LakeFileSystem) -> dict[bytes, bytes]:
    with lakes.repository(fs.home, "demo") as repository, open_view(repository, "main") as view:
        return dict(view.scan())


def test_removing(fs: LakeFileSystem, values: dict[bytes, bytes]) -> None:
    fs.rm("demo/main/a/1")
    assert present(fs) == {b"a/2": values[b"a/2"]}


def test_copying_and_moving(fs: LakeFileSystem, values: dict[bytes, bytes]) -> None:
    fs.copy("demo/main/a/1", "demo/main/b/1")
    fs.mv("demo/main/a/2", "demo/main/c/2")
    assert present(fs) == {b"a/1": values[b"a/1"], b"b/1": values[b"a/1"], b"c/2": values[b"a/2"]}


def test_writing_the_same_bytes_again(fs: LakeFileSystem, values: dict[bytes, bytes]) -> None:
    for path, data in CONTENTS.items():
        fs.pipe_file(f"demo/main/{path.decode()}", data)
    with fs.transaction:
        fs.pipe_file("demo/main/a/1", b"one")
        fs.rm("demo/main/a/2")
        fs.pipe_file("demo/main/a/2", b"two")
    assert present(fs) == values
    fs.pipe_file("demo/main/a/1", b"owe")
    assert present(fs)[b"a/1"] != values[b"a/1"]
    assert fs.cat_file("demo/main/a/1") == b"owe"


def test_an_object_uploaded_in_parts_is_read(fs: LakeFileSystem) -> None:
    """Its checksum is no MD5, which proves no damage."""
    data = b"uploaded in parts"
    with lakes.repository(fs.home, "demo") as repository:
        repository.store.put(address_of(data), data, ANY)
        stage_values(repository, "main", {b"a/3": lakefs_value(data, checksum="ab" * 16)})
    assert fs.cat_file("demo/main/a/3") == data
    with fs.open("demo/main/a/3") as file:
        assert file.read() == data
    fs.pipe_file("demo/main/a/3", data)
    assert fs.cat_file("demo/main/a/3") == data
