"""Manifests for tests, in every format."""

from __future__ import annotations

import csv
import gzip
import json
from datetime import UTC, datetime
from io import StringIO
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet

from tests.support.lakes import START

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

COLUMNS = ("path", "physical_address", "size", "checksum", "mtime")


def row_of(key: str, number: int) -> dict[str, Any]:
    """Return the row of an object; see `sources.value_of`."""
    seconds = int(START.timestamp())
    address = f"s3://elsewhere/{number}"
    return dict(zip(COLUMNS, (key, address, number, f"etag-{number}", seconds), strict=True))


def write_parquet(
    path: Path,
    rows: Iterable[dict[str, Any]],
    *,
    group: int = 400,
    kinds: Mapping[str, pa.DataType] = MappingProxyType({}),
) -> Path:
    table = pa.Table.from_pylist(list(rows))
    for name, kind in kinds.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, table.column(name).cast(kind))
    parquet.write_table(table, path, row_group_size=group)
    return path


def write_csv(path: Path, rows: Iterable[dict[str, Any]], *, header: bool = True) -> Path:
    rows = list(rows)
    out = StringIO()
    writer = csv.DictWriter(out, list(rows[0]))
    if header:
        writer.writeheader()
    writer.writerows(rows)
    data = out.getvalue().encode("utf-8", "surrogateescape")
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    return path


def write_json(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    return path


def inventory_row(key: str, number: int, **fields: str) -> dict[str, Any]:
    """Return a row of an S3 Inventory in CSV."""
    when = datetime.fromtimestamp(START.timestamp(), UTC)
    return {
        "Bucket": "source",
        "Key": key,
        "VersionId": "v",
        "IsLatest": "true",
        "IsDeleteMarker": "false",
        "Size": str(number),
        "LastModifiedDate": when.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "ETag": f"etag-{number}",
        **fields,
    }


def inventory_manifest(rows: list[dict[str, Any]], keys: list[str], **fields: Any) -> bytes:
    manifest = {
        "sourceBucket": "source",
        "destinationBucket": "arn:aws:s3:::inventories",
        "version": "2016-11-30",
        "creationTimestamp": "1500000000000",
        "fileFormat": "CSV",
        "fileSchema": ", ".join(rows[0]),
        "files": [{"key": key, "size": 1, "MD5checksum": "x"} for key in keys],
        **fields,
    }
    return json.dumps(manifest).encode()
