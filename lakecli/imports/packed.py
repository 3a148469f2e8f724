"""The result of a part as bytes: a line of JSON, then all records, concatenated.

The steps of a dry run, whose results nobody keeps, are left out.
"""

from __future__ import annotations

import json
import os
from array import array
from dataclasses import asdict

from lakecli.imports.merging import Tally
from lakecli.imports.part import PartResult
from lakecli.imports.rows import Failure
from lakecli.imports.sink import Cut


def pack_result(result: PartResult) -> bytes:
    """Return a result as bytes."""
    pieces: list[bytes] = []
    sizes = []
    for column in result.cut:
        lengths = array("Q", map(len, column)).tobytes()
        pieces += (lengths, *column)
        sizes.append([len(column), len(lengths) + sum(map(len, column))])
    header = {
        "columns": sizes,
        "tally": asdict(result.tally),
        "failed": result.failed,
        "failures": [[os.fsdecode(failure.path), failure.why] for failure in result.failures],
        "duplicates": [os.fsdecode(path) for path in result.duplicates],
        "ranges_written": result.ranges_written,
        "listed": result.listed,
        "places": result.places,
        "verified": result.verified,
    }
    return b"".join([json.dumps(header).encode(), b"\n", *pieces])


def unpack_result(data: bytes) -> PartResult:
    """Return the result that `pack_result` encoded."""
    line, _, body = data.partition(b"\n")
    header = json.loads(line)
    columns = []
    at = 0
    for count, size in header["columns"]:
        lengths = array("Q", body[at : at + 8 * count])
        start = at + 8 * count
        column = []
        for length in lengths:
            column.append(body[start : start + length])
            start += length
        columns.append(column)
        at += size
    return PartResult(
        Cut(*columns),
        Tally(**header["tally"]),
        failed=header["failed"],
        failures=tuple(Failure(os.fsencode(path), why) for path, why in header["failures"]),
        duplicates=tuple(map(os.fsencode, header["duplicates"])),
        ranges_written=header["ranges_written"],
        listed=header["listed"],
        places=tuple(header["places"]),
        verified=header["verified"],
    )
