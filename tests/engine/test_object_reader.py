"""The process that reads pieces of objects for Spark."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING

from lakecli.base.model import Account
from lakecli.engine.object_reader import TableFile, answer
from lakecli.engine.runner import StoreLocation
from lakecli.repository.reading.recorded import Recorded

if TYPE_CHECKING:
    from pathlib import Path


def ask(location: StoreLocation, file: TableFile, start: int, length: int) -> tuple[int, bytes]:
    fields = json.loads(file.dump())
    request = json.dumps([json.dumps(location), fields, start, length, True])
    size, found = answer(request.encode())
    return struct.unpack(">i", size)[0], found


def test_pieces_and_errors(tmp_path: Path) -> None:
    account = Account(demands=(("requester-pays", "", "1"),))
    location = StoreLocation(f"local://{tmp_path}", "", 16, "demo", ("s3://allowed",), account)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/x").write_bytes(b"0123456789")
    recorded = Recorded("data/x", 10, "", None)
    assert ask(location, TableFile("k=1/x", recorded), 2, 3) == (3, b"234")
    for name, wrong, what in (
        ("k=1/x", recorded._replace(size=12), b"has 10 bytes instead of 12"),
        ("k=1/x", recorded._replace(address="data/y"), b"k=1/x is missing"),
        ("k=1/x", recorded._replace(address="gs://other/y"), b"gs://other"),
        ("\udcff", recorded._replace(address="data/y"), rb"\udcff is missing"),
    ):
        count, text = ask(location, TableFile(name, wrong), 0, wrong.size)
        assert count == -len(text)
        assert what in text
        assert b"\nhint: " in text
