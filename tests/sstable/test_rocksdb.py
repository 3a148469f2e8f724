"""RocksDB reads what we write: the library by ingestion, and Debian's sst_dump where present."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakecli.sstable.writer import TableWriter
from tests.sstable.tables import Record, build, many_records, open_bytes, records

if TYPE_CHECKING:
    from pathlib import Path

SST_DUMP = shutil.which("sst_dump")
needs_sst_dump = pytest.mark.skipif(
    SST_DUMP is None, reason="sst_dump is not installed (Debian: rocksdb-tools)"
)
PROPERTIES = {"type": b"ranges", "writer": b"lakecli"}
TABLES = {
    "one record": [(b"key", b"value")],
    "empty key": [(b"", b"")],
    "single level": many_records(300),
    "two levels": many_records(6000),
    "keys like trailers": [
        (b"a", b"1"),
        (b"a\x00", b"2"),
        (b"a\x01", b"3"),
        (b"a\x01\x00\x00\x00\x00\x00\x00\x00", b"4"),
        (b"a\x02", b"5"),
        (b"\xff" * 1024, b"6"),
    ],
    "large values": [(b"%02d" % at, bytes([at]) * 100_000) for at in range(20)],
}


def ingest(directory: Path, *files: bytes) -> list[Record]:
    """Let RocksDB take files in and give their records back; never an empty one, it aborts."""
    from rocksdict import Options, Rdict

    paths = []
    for number, data in enumerate(files):
        path = directory / f"{number}.sst"
        path.write_bytes(data)
        paths.append(str(path))
    database = Rdict(str(directory / "database"), Options(raw_mode=True))
    try:
        database.ingest_external_file(paths)
        records: Any = database.items()
        return list(records)
    finally:
        database.close()


def dump(path: Path, *options: str) -> str:
    """Run sst_dump, whose exit code tells nothing; return all it says."""
    assert SST_DUMP is not None
    done = subprocess.run(
        [SST_DUMP, f"--file={path}", *options],
        capture_output=True,
        check=True,
        cwd=path.parent,
        text=True,
    )
    return done.stdout + done.stderr


def scanned(output: str) -> list[Record]:
    """Parse the records of a scan in hex."""
    found = []
    for line in output.splitlines():
        if " seq:0, type:1 => " in line:
            key, value = line.split(" seq:0, type:1 => ")
            found.append((bytes.fromhex(key.strip("'")), bytes.fromhex(value)))
    return found


@pytest.mark.parametrize("name", TABLES)
def test_rocksdb_ingests_a_table(tmp_path: Path, name: str) -> None:
    assert ingest(tmp_path, build(TABLES[name], **PROPERTIES)) == TABLES[name]


def test_rocksdb_ingests_copied_blocks(tmp_path: Path) -> None:
    rows = many_records(4000)
    table = open_bytes(build(rows))
    writer = TableWriter(properties=PROPERTIES)
    writer.add_many([b""], [b"first" * 2000])
    for run in table.runs():
        writer.copy_run(run, 0, len(run.keys))
    assert ingest(tmp_path, writer.finish()) == [(b"", b"first" * 2000), *rows]


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(tables=st.lists(records(min_size=1), min_size=1, max_size=4))
def test_rocksdb_ingests_anything(
    tmp_path_factory: pytest.TempPathFactory, tables: list[list[Record]]
) -> None:
    rows = dict(record for table in tables for record in table)
    files = [build(table, **PROPERTIES) for table in tables]
    assert ingest(tmp_path_factory.mktemp("rocksdb"), *files) == sorted(rows.items())


@needs_sst_dump
@pytest.mark.parametrize("name", TABLES)
def test_sst_dump_verifies_and_scans_a_table(tmp_path: Path, name: str) -> None:
    rows = TABLES[name]
    path = tmp_path / "table.sst"
    path.write_bytes(build(rows, **PROPERTIES))
    checked = dump(path, "--command=check", "--verify_checksum", "--show_properties")
    assert "Corruption" not in checked
    assert f"# entries: {len(rows)}\n" in checked
    assert f"# data blocks: {open_bytes(path.read_bytes()).block_count}\n" in checked
    assert f"# writer: 0x{b'lakecli'.hex().upper()}\n" in checked
    assert scanned(dump(path, "--command=scan", "--output_hex")) == rows


@needs_sst_dump
def test_sst_dump_accepts_an_empty_table(tmp_path: Path) -> None:
    path = tmp_path / "empty.sst"
    path.write_bytes(build([]))
    output = dump(path, "--command=check", "--verify_checksum", "--show_properties")
    assert "# entries: 0\n" in output
    assert "Corruption" not in output


@needs_sst_dump
def test_sst_dump_would_notice(tmp_path: Path) -> None:
    """The checks above can fail: one flipped bit, and the tool says so."""
    data = bytearray(build(TABLES["single level"]))
    data[100] ^= 1
    path = tmp_path / "damaged.sst"
    path.write_bytes(data)
    assert "Corruption" in dump(path, "--command=check", "--verify_checksum")
