"""Writing and reading give the same records back."""

from __future__ import annotations

from lakecli.sstable.reader import BytesSource, Table
from lakecli.sstable.writer import TableWriter


def test_an_empty_table_reads_back_empty() -> None:
    table = Table(BytesSource("empty", TableWriter(properties={}).finish()))
    assert list(table.records()) == []
    assert table.count == 0
    assert table.get(b"") is None
