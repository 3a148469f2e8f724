from __future__ import annotations

import io
from typing import TYPE_CHECKING, BinaryIO, cast

import pytest

from lakecli.stores import streams
from lakecli.stores.contract import ANY, ObjectNotFound
from lakecli.stores.s3.store import S3Store
from lakecli.stores.streams import open_range
from tests.support.memory_store import MemoryStore
from tests.support.servers import new_bucket

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore


@pytest.fixture(params=["pieces", "stream"])
def store(
    request: pytest.FixtureRequest, aws_environment: pytest.MonkeyPatch, moto_endpoint: str
) -> ObjectStore:
    if request.param == "pieces":
        return MemoryStore()
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    return S3Store(new_bucket(moto_endpoint), "p")


def test_a_range_of_an_object_is_read(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "READ_SIZE", 7)
    body = bytes(range(256))
    store.put("k", body, ANY)
    with open_range(store, "k", start=10, length=100) as stream:
        assert b"".join(iter(lambda: stream.read(9), b"")) == body[10:110]
        assert stream.read(9) == b""
    with open_range(store, "k", start=200, length=100) as stream:
        assert stream.read() == body[200:]


def test_a_missing_object_is_not_found(store: ObjectStore) -> None:
    with pytest.raises(ObjectNotFound), open_range(store, "none", start=0, length=5) as stream:
        stream.read(5)


@pytest.mark.parametrize("answers", [[None], [b"ab", None], [b"ab", b"c", None]])
def test_a_stream_without_data_is_not_taken_for_ended(answers: list[bytes | None]) -> None:
    class Paused(io.RawIOBase):
        def read(self, _size: int = -1, /) -> bytes | None:
            return answers.pop(0)

    with pytest.raises(BlockingIOError):
        streams.read_exactly(cast("BinaryIO", Paused()), 10)
