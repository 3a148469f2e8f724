"""Iceberg tables in a repository, by the examples of the topic ``python``; and why not Delta."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakecli.filesystem import LakeFileSystem, lakes
from lakecli.repository import repo
from tests.support.tools import require_package

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[2] / "lakecli" / "cli" / "topics" / "python.md"
IO = "lakecli.filesystem.iceberg.LakeFileIO"


@pytest.fixture
def sales(demo: Path, tmp_path: Path) -> None:
    with lakes.lake(lakes.home_of(None)) as held:
        repo.create(held.lake, "sales", str(tmp_path / "sales"))


def _examples() -> Iterator[str]:
    section = PAGE.read_text(encoding="utf-8").partition("\n## Iceberg and Delta tables\n")[2]
    section = section.partition("\n## ")[0]
    for block in re.findall(r"(?:^    .*\n(?:\n(?=    ))?)+", section, re.MULTILINE):
        yield textwrap.dedent(block)


def _ids(table: Any) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_table_on_two_branches(sales: None, tmp_path: Path) -> None:
    require_package("pyiceberg")
    from pyiceberg.table import StaticTable

    on_main, on_branch = _examples()
    names: dict[str, Any] = {
        "database": tmp_path / "catalog.db",
        "rows": pa.table({"id": [1, 2], "kind": ["a", "b"]}),
        "more": pa.table({"id": [3], "kind": ["c"]}),
    }
    exec(on_main, names)
    first = names["orders"]
    assert first.metadata_location.startswith("lakefs://sales/main/tables/")
    fs = LakeFileSystem()
    assert len(fs.glob("lakefs://sales/main@/tables/**/*.parquet")) == 1

    before, merging, after = on_branch.partition("    merge(")
    exec(before, names)
    assert _ids(names["main"].load_table("shop.orders")) == [1, 2]
    assert _ids(names["there"]) == [1, 2, 3]
    assert len(fs.glob("lakefs://sales/main/tables/**/*.parquet")) == 1
    exec(f"with lakecli.open('lakefs://sales') as sales:\n{merging}{after}", names)
    assert _ids(names["main"].load_table("shop.orders")) == [1, 2, 3]

    old = {"py-io-impl": IO, "lakefs.ref": "main~1"}
    assert _ids(StaticTable.from_metadata(first.metadata_location, old)) == [1, 2]
    newest = names["there"].metadata_location
    assert _ids(StaticTable.from_metadata(newest, {"py-io-impl": IO})) == [1, 2, 3]
    with pytest.raises(FileNotFoundError):
        StaticTable.from_metadata(newest, old)


def test_other_files_are_those_of_pyiceberg(sales: None, tmp_path: Path) -> None:
    require_package("pyiceberg")
    from lakecli.filesystem.iceberg import LakeFileIO

    io = LakeFileIO({"lakefs.ref": "main"})
    for location in (f"file://{tmp_path}/x", "lakefs://sales/other/x"):
        with io.new_output(location).create() as file:
            file.write(b"bytes")
        found = io.new_input(location)
        assert (found.location, len(found)) == (location, 5)
        assert found.open().read() == b"bytes"
    with pytest.raises(FileExistsError):
        io.new_output("lakefs://sales/other/x").create()
    assert LakeFileSystem().cat("lakefs://sales/main/x") == b"bytes"
    io.delete(found)
    assert not io.new_output("lakefs://sales/other/x").exists()
    io.delete(f"file://{tmp_path}/x")
    assert not (tmp_path / "x").exists()


def test_delta_rs_takes_the_scheme_for_a_server(sales: None) -> None:
    """If this fails, the page on Python has to change."""
    require_package("deltalake")
    import deltalake

    with pytest.raises(Exception, match="LakeFS endpoint is missing"):
        deltalake.write_deltalake("lakefs://sales/main/t", pa.table({"id": [1]}))
