from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import pytest

from lakecli.base.model import Entry
from lakecli.committed.values import encode_entry
from lakecli.exports import entry_columns
from lakecli.spark import record_columns

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def test_only_the_wanted_columns_are_returned_in_their_order() -> None:
    value = encode_entry(Entry("data/x", 300, "c", EPOCH))
    found = record_columns.decode_batch([b"k"], [value], ["mtime", "size", "path"])
    assert found["mtime"].type == record_columns.TIMESTAMP
    assert {name: column.to_pylist() for name, column in found.items()} == {
        "path": ["k"],
        "mtime": [EPOCH],
        "size": [300],
    }


def test_paths_pass_through_as_bytes() -> None:
    found = record_columns.decode_batch(
        [b"a\xff"], [encode_entry(Entry("x", 0, "", EPOCH))], ["path"]
    )
    assert found["path"].view("binary").to_pylist() == [b"a\xff"]


def test_batches_decode_without_pandas() -> None:
    program = (
        "import sys\n"
        "from pyspark.sql.worker import plan_data_source_read\n"
        "from pyspark.sql.types import StringType, StructField, StructType\n"
        "from datetime import datetime, UTC\n"
        "now = datetime.now(UTC)\n"
        "from lakecli.committed.values import encode_entry\n"
        "from lakecli.base.model import Entry\n"
        "from lakecli.exports.entry_columns import paths_of\n"
        "from lakecli.spark import entries, record_columns, schemas\n"
        "value = encode_entry(Entry('data/x', 3, 'c', now, 't', {'k': 'v'}))\n"
        "schema = schemas.arrow_schema(StructType([StructField('path', StringType())]))\n"
        "record_columns.decode_batch([b'k'], [value], record_columns.COLUMNS['entries'])\n"
        "entries._batch(schema, 1, {'path': paths_of([b'k'])}, 'x')\n"
        "sys.exit('pandas' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_records_wait_until_they_are_many_or_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_columns, "BATCH_SIZE", 10)

    def sizes(*blocks: tuple[list[bytes], list[bytes]]) -> list[int]:
        return [len(keys) for keys, _ in entry_columns.batched(blocks, rows=3)]

    one = ([b"a"], [b"b"])
    assert sizes() == []
    assert sizes(one, one, one, one) == [3, 1]
    assert sizes(one, ([b"a" * 4], [b"b" * 4]), one) == [2, 1]
    assert sizes(one, ([b"c"] * 9, [b"d"] * 9), one) == [10, 1]
