"""The table of messages: lakeFS's fields, under lakeFS's numbers."""

from __future__ import annotations

import pytest

from lakecli.proto import messages
from tests.proto import oracle
from tests.proto.test_codec import MESSAGES


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("Entry", "address last_modified size e_tag metadata address_type content_type"),
        ("RangeData", "min_key max_key estimated_size count"),
        ("Timestamp", "seconds nanos"),
        (
            "CommitData",
            "id committer message creation_date meta_range_id metadata parents version generation",
        ),
    ],
)
def test_fields_have_the_numbers_that_lakefs_gave_them(kind: str, names: str) -> None:
    fields = {field.name: field.number for field in oracle.message_class(kind).DESCRIPTOR.fields}
    assert fields == {name: number for number, name in enumerate(names.split(), 1)}
    assert list(MESSAGES[kind].decode(b"")) == names.split()


def test_an_entry_has_the_bytes_that_lakefs_writes() -> None:
    entry = {
        "address": "data/x",
        "last_modified": {"seconds": 1},
        "size": 2,
        "metadata": [{"key": "k", "value": "v"}],
    }
    expected = "0a06646174612f781202080118022a060a016b120176"
    assert messages.ENTRY.encode(entry).hex() == expected
