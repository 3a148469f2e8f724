"""Iceberg tables in a repository, by the examples of the topic ``python``; and why not Delta."""

from __future__ import annotations

import json
import pickle
import re
import textwrap
import zlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
import pyarrow as pa
import pytest

from lakecli.errors import IntegrityError
from lakecli.filesystem import LakeFileSystem, lakes
from lakecli.repository import branch, repo, tag
from tests.support.tools import require_package

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[2] / "lakecli" / "cli" / "manual" / "topics" / "python.md"
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


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_table_within_a_block(sales: None, tmp_path: Path) -> None:
    require_package("pyiceberg")
    names: dict[str, Any] = {
        "database": tmp_path / "catalog.db",
        "rows": pa.table({"id": [1, 2], "kind": ["a", "b"]}),
    }
    exec(next(_examples()), names)
    fs, orders = LakeFileSystem(), names["orders"]
    before = fs.find("lakefs://sales/main")
    with fs.committing("lakefs://sales/main", "Twice"):
        orders.append(names["rows"])
        orders.append(names["rows"])
        assert _ids(orders) == _ids(names["main"].load_table("shop.orders")) == [1, 1, 1, 2, 2, 2]
        assert fs.find("lakefs://sales/main@") != fs.find("lakefs://sales/main")
    assert [each.replace("@", "") for each in fs.find("lakefs://sales/main@")] == fs.find(
        "lakefs://sales/main"
    )
    assert _ids(names["main"].load_table("shop.orders")) == [1, 1, 1, 2, 2, 2]
    after = fs.find("lakefs://sales/main")
    assert len(after) > len(before)

    def fail() -> None:
        with fs.committing("lakefs://sales/main", "never"):
            orders.append(names["rows"])
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert fs.find("lakefs://sales/main") == after
    with pytest.raises(FileNotFoundError):  # as the manual says of the catalog
        names["main"].load_table("shop.orders")


def test_other_files_are_those_of_pyiceberg(sales: None, tmp_path: Path) -> None:
    require_package("pyiceberg")
    from lakecli.filesystem.iceberg import LakeFileIO

    for location in (f"file://{tmp_path}/x", "lakefs://sales/other/x"):
        io = LakeFileIO({"lakefs.ref": "main"})
        with io.new_output(location).create() as file:
            file.write(b"bytes")
        found = io.new_input(location)
        assert (found.location, len(found)) == (location, 5)
        assert found.open().read() == b"bytes"
        if location.startswith("file:"):
            io.delete(location)
            assert not (tmp_path / "x").exists()
    with pytest.raises(FileExistsError):
        io.new_output("lakefs://sales/other/x").create()
    assert LakeFileSystem().cat("lakefs://sales/main/x") == b"bytes"
    io.delete(found)
    assert not io.new_output("lakefs://sales/other/x").exists()


def test_delta_rs_takes_the_scheme_for_a_server(sales: None) -> None:
    """If this fails, the page on Python has to change."""
    require_package("deltalake")
    import deltalake

    with pytest.raises(Exception, match="LakeFS endpoint is missing"):
        deltalake.write_deltalake("lakefs://sales/main/t", pa.table({"id": [1]}))


class Shared:
    """A table that others may write, and what its metadata should not reach."""

    def __init__(self, directory: Path) -> None:
        from pyiceberg.catalog import load_catalog

        settings = {"type": "sql", "uri": f"sqlite:///{directory}/catalog.db", "py-io-impl": IO}
        self.catalog: Any = load_catalog("main", **settings, warehouse="lakefs://sales/main/tables")
        self.catalog.create_namespace("shop")
        rows = pa.table({"id": [1, 2]})
        self.table = self._create("shop.orders", rows)
        self.other = self._create("shop.other", rows, location="lakefs://stock/main/t")
        self.fs = LakeFileSystem()
        self.secret = directory / "secret"
        self.secret.write_bytes(b"secret")

    def _create(self, name: str, rows: pa.Table, **options: str) -> Any:
        plain = {"write.avro.compression-codec": "null"}
        table = self.catalog.create_table(name, rows.schema, properties=plain, **options)
        table.append(rows)
        return table

    def forge(self, change: Any) -> None:
        """Change the newest metadata file as somebody who may write to the repository."""
        place = self.table.metadata_location
        metadata = json.loads(self.fs.cat(place))
        change(metadata)
        self.fs.pipe(place, json.dumps(metadata).encode())

    def load(self) -> Any:
        return self.catalog.load_table("shop.orders")


@pytest.fixture
def shared(sales: None, tmp_path: Path) -> Shared:
    require_package("pyiceberg")
    with lakes.lake(lakes.home_of(None)) as held:
        repo.create(held.lake, "stock", str(tmp_path / "stock"))
        branch.create(held.lake.repository("sales"), "other", source="main")
    (tmp_path / "place").mkdir()
    return Shared(tmp_path / "place")


def _foreign(shared: Shared) -> list[str]:
    other = str(shared.other.metadata.snapshots[-1].manifest_list)
    return [
        f"file://{shared.secret}",
        str(shared.secret),
        f"file:{shared.secret}",
        f"local://{shared.secret}",
        "s3://bucket/secret",
        other,
        str(shared.table.metadata.snapshots[-1].manifest_list).replace("/main/", "/other/", 1),
    ]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_table_names_files_of_its_own_repository_and_ref_only(shared: Shared) -> None:
    assert _ids(shared.load()) == [1, 2]
    for foreign in _foreign(shared):

        def change(metadata: dict[str, Any], foreign: str = foreign) -> None:
            metadata["snapshots"][-1]["manifest-list"] = foreign

        shared.forge(change)
        with pytest.raises(OSError, match=r"(of|from|than) a table|not allowed"):
            _ids(shared.load())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_properties_of_a_table_name_no_classes_and_no_places(
    shared: Shared, tmp_path: Path
) -> None:
    forged = {
        "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
        "lakefs.home": str(tmp_path / "elsewhere"),
        "lakefs.ref": "other",
        "lakefs.table": f"x {shared.other.metadata_location}",
        "s3.endpoint": "http://127.0.0.1:9",
        "write.py-location-provider.impl": "antigravity.X",
        "write.data.path": f"file://{tmp_path}/written",
        "owner": "me",
    }
    shared.forge(lambda metadata: metadata["properties"].update(forged))
    table = shared.load()
    assert type(table.io).__name__ == "LakeFileIO"
    assert table.properties["owner"] == "me"
    assert not {"py-io-impl", "lakefs.home", "lakefs.ref", "s3.endpoint"} & table.properties.keys()
    assert _ids(table) == [1, 2]
    with pytest.raises(OSError, match="of this machine"):
        table.append(pa.table({"id": [3]}))
    assert not (tmp_path / "written").exists()
    shared.forge(lambda metadata: metadata["properties"].pop("write.data.path"))
    shared.forge(lambda metadata: metadata.update(location=f"file://{tmp_path}/written"))
    with pytest.raises(OSError, match="of this machine"):
        shared.load().append(pa.table({"id": [3]}))
    assert not (tmp_path / "written").exists()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_this_process_adds_to_properties_is_never_written(shared: Shared) -> None:
    shared.load().append(pa.table({"id": [3]}))
    table = shared.load()
    with table.transaction() as transaction:
        transaction.set_properties(owner="me")
    written = json.loads(shared.fs.cat(table.metadata_location))
    assert written["properties"]["owner"] == "me"
    assert "lakefs.table" not in written["properties"]
    assert _ids(shared.load()) == [1, 2, 3]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_purging_deletes_in_the_directory_of_the_table_only(shared: Shared) -> None:
    beside = "lakefs://sales/main/tables/shop/orders2/x"
    shared.fs.pipe(beside, b"x")
    kept = [
        beside,
        str(shared.other.metadata_location),
        str(shared.other.metadata.snapshots[-1].manifest_list),
    ]

    def change(metadata: dict[str, Any]) -> None:
        for place in [*kept, f"file://{shared.secret}"]:
            log = {"metadata-file": place, "timestamp-ms": metadata["last-updated-ms"]}
            metadata["metadata-log"].append(log)

    shared.forge(change)
    own = shared.fs.find("lakefs://sales/main/tables/shop/orders")
    assert len(own) > 3
    shared.catalog.purge_table("shop.orders")
    assert shared.fs.find("lakefs://sales/main/tables/shop/orders") == []
    assert all(map(shared.fs.exists, kept))
    assert shared.secret.read_bytes() == b"secret"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_purging_reads_no_manifests_of_another_repository(shared: Shared) -> None:
    other = str(shared.other.metadata.snapshots[-1].manifest_list)
    before = shared.fs.find("lakefs://stock/main")

    def change(metadata: dict[str, Any]) -> None:
        metadata["snapshots"][-1]["manifest-list"] = other

    shared.forge(change)
    shared.catalog.load_table("shop.other")
    with pytest.raises(OSError, match="outside the repository"):
        shared.catalog.purge_table("shop.orders")
    assert shared.fs.find("lakefs://stock/main") == before


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_files_that_manifests_name_are_checked_too(shared: Shared) -> None:
    from pyiceberg.io.fsspec import FsspecFileIO

    from lakecli.filesystem.iceberg import LakeFileIO

    table = shared.load()
    io = table.io
    assert isinstance(io, LakeFileIO)
    for foreign in _foreign(shared):
        for act in (io.new_input, io.new_output, io.delete):
            with pytest.raises(OSError, match=r"table|not allowed"):
                act(foreign)
    with pytest.raises(OSError, match="own directory"):
        io.delete("lakefs://sales/main/tables/shop/orders2/x")
    restored = pickle.loads(pickle.dumps(io))
    with pytest.raises(OSError, match="outside the repository"):
        restored.new_input(shared.other.metadata_location)
    # Tables that are in no repository follow pyiceberg's rules.
    free = LakeFileIO({})
    with free.new_output(f"file://{shared.secret}x.json").create() as file:
        file.write(b"{}")
    assert free.new_input(f"file://{shared.secret}x.json").open().read() == b"{}"
    assert issubclass(LakeFileIO, FsspecFileIO)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_place_that_is_allowed_is_read_and_never_written(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKECLI_TRUST_ADDRESSES", f"s3://bucket/raw {shared.secret.parent}")
    memory = fsspec.filesystem("memory")
    monkeypatch.setattr("lakecli.filesystem.iceberg.LakeFileIO.get_fs", lambda *_: memory)
    io = shared.load().io
    assert io.new_input("s3://bucket/raw/x").location == "s3://bucket/raw/x"
    for place in ("s3://bucket/raw2/x", "s3://bucket/raw/../x", f"file://{shared.secret}"):
        with pytest.raises(OSError, match=r"not allowed|of this machine"):
            io.new_input(place)
    for act in (io.new_output, io.delete):
        with pytest.raises(OSError, match="neither written nor deleted"):
            act("s3://bucket/raw/x")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("codec", ["gzip", "none"])
def test_staged_and_compressed_tables(shared: Shared, codec: str) -> None:
    rows = pa.table({"id": [5]})
    creating = shared.catalog.create_table_transaction(
        "shop.staged", schema=rows.schema, properties={"write.metadata.compression-codec": codec}
    )
    with creating as transaction:
        transaction.append(rows)
    table = shared.catalog.load_table("shop.staged")
    table.append(rows)
    assert _ids(shared.catalog.load_table("shop.staged")) == [5, 5]
    packed = zlib.compress(b"{" * 1000, wbits=31)
    place = "lakefs://sales/main/tables/x/metadata/1.gz.metadata.json"
    shared.fs.pipe(place, packed)
    with pytest.raises(OSError, match="not the metadata"):
        shared.catalog.register_table("shop.bad", place)


def test_all_members_of_packed_metadata_are_read() -> None:
    from lakecli.filesystem.iceberg import _unpacked

    place = "x.gz.metadata.json"
    packed = b"".join(zlib.compress(each, wbits=31) for each in (b'{"a": 1', b"}"))
    assert _unpacked(place, packed) == {"a": 1}
    for damaged in (packed[:-1], packed[:-30], packed + b"x", b"{}"):
        with pytest.raises(IntegrityError, match="not the metadata"):
            _unpacked(place, damaged)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_another_ref_needs_the_property(shared: Shared) -> None:
    from pyiceberg.table import StaticTable

    shared.fs.commit("lakefs://sales/main", "orders", committer="me")
    with lakes.repository(lakes.home_of(None), "sales") as repository:
        tag.create(repository, "v1", "main")
    there = shared.table.metadata_location.replace("/main/", "/v1/", 1)
    with pytest.raises(OSError, match=r"set the property lakefs\.ref"):
        _ids(StaticTable.from_metadata(there, {"py-io-impl": IO}))
    assert _ids(StaticTable.from_metadata(there, {"py-io-impl": IO, "lakefs.ref": "v1"})) == [1, 2]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("target", ["other repository", "local file"])
@pytest.mark.parametrize("forged", ["manifest list", "manifest"])
def test_forged_manifests_reach_nothing(shared: Shared, forged: str, target: str) -> None:
    table = shared.load()
    snapshot = table.metadata.snapshots[-1]
    manifest = snapshot.manifests(table.io)[0]
    entry = manifest.fetch_manifest_entry(table.io)[0]
    place, named = {
        "manifest list": (snapshot.manifest_list, manifest.manifest_path),
        "manifest": (manifest.manifest_path, entry.data_file.file_path),
    }[forged]
    foreign = named.replace("lakefs://sales/", "lakefs://stock/")
    if target == "local file":
        victim = shared.secret.parent / "v"
        victim.write_bytes(shared.fs.cat(named))
        foreign = f"file://{str(victim).rjust(len(named) - len('file://'), '/')}"
    else:
        shared.fs.pipe(foreign, shared.fs.cat(named))
    assert len(foreign) == len(named)
    content = shared.fs.cat(place)
    assert content.count(named.encode()) == 1
    shared.fs.pipe(place, content.replace(named.encode(), foreign.encode()))
    with pytest.raises(OSError, match=r"outside the repository|of this machine"):
        _ids(shared.load())
    with suppress(OSError):
        shared.catalog.purge_table("shop.orders")
    assert victim.exists() if target == "local file" else shared.fs.exists(foreign)
