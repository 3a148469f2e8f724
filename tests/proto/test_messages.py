from __future__ import annotations

from typing import TYPE_CHECKING

from lakecli.proto.messages import CommitData, Entry, Pair, RangeData, Timestamp
from tests.support.compile_proto import COMPILED, compile_descriptor

if TYPE_CHECKING:
    from google.protobuf.message import Message


def test_the_compiled_descriptor_is_current() -> None:
    assert compile_descriptor() == COMPILED.read_bytes(), "python -m tests.support.compile_proto"


def test_fields_have_the_numbers_that_lakefs_gave_them() -> None:
    numbers: dict[type[Message], str] = {
        Entry: "address last_modified size e_tag metadata address_type content_type",
        RangeData: "min_key max_key estimated_size count",
        Timestamp: "seconds nanos",
        CommitData: "id committer message creation_date meta_range_id metadata parents version "
        "generation",
    }
    for message, names in numbers.items():
        fields = {field.name: field.number for field in message.DESCRIPTOR.fields}
        assert fields == {name: number for number, name in enumerate(names.split(), 1)}


def test_an_entry_has_the_bytes_that_lakefs_writes() -> None:
    entry = Entry(
        address="data/x",
        last_modified=Timestamp(seconds=1),
        size=2,
        metadata=[Pair(key="k", value="v")],
    )
    expected = "0a06646174612f781202080118022a060a016b120176"
    assert entry.SerializeToString(deterministic=True).hex() == expected
