"""The batch of parallel requests, which all clouds share."""

from __future__ import annotations

import pytest

from lakecli.errors import Unreachable
from lakecli.stores.cloud_store import WAITING, WORKERS, ParallelBatch
from tests.support.memory_store import MemoryStore


class Broken(MemoryStore):
    """A store whose server does not respond."""

    tried = 0

    def put_new(self, key: str, body: bytes) -> bool:
        del key, body
        self.tried += 1
        raise Unreachable("no answer")


def test_after_a_failed_request_a_batch_sends_no_more() -> None:
    store = Broken()
    batch = ParallelBatch(store)

    def put_many() -> None:
        for number in range(1_000):
            batch.put_new(f"{number}", b"")

    with pytest.raises(Unreachable, match="no answer"):
        put_many()
    assert store.tried <= WORKERS + WAITING + 1
    with pytest.raises(Unreachable, match="no answer"):
        batch.flush()
    batch.flush()
