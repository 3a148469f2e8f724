"""What an export writes to a bucket for one entry."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lakecli.committed.values import encode_entry, identity_of
from lakecli.exports.target import IDENTITY, BucketTarget, ExportItem
from tests.support.lakes import entry_of

PREFIX = "x-amz-meta-"
S3_LIMIT = 2048


@pytest.mark.parametrize(("left", "fits"), [(0, True), (-1, False)])
def test_metadata_are_left_out_if_they_exceed_the_limit_of_s3(*, left: int, fits: bool) -> None:
    identity = identity_of(encode_entry(entry_of(b"1"))).hex()
    size = S3_LIMIT - left - len(f"{PREFIX}{IDENTITY}{identity}{PREFIX}owner")
    entry = entry_of(b"1")._replace(metadata={"owner": "a" * size})
    written: list[Any] = []
    store: Any = SimpleNamespace(uri="s3://bucket", put=lambda *given: written.append(given))
    item = ExportItem(b"a", b"a", entry, identity, None, "")
    assert BucketTarget(store).write(item, iter([b"1"])) is fits
    metadata = written[0][3].metadata
    assert metadata == ({"owner": "a" * size} if fits else {}) | {IDENTITY: identity}
