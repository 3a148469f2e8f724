"""Moving the state of garbage collection, with every answer that a store may give."""

from __future__ import annotations

from typing import Any

import pytest

from lakecli.errors import Unreachable
from lakecli.objectstore.base import ConditionFailed
from lakecli.remote.collection import NEVER_RAN, GcState, StateMoved, look, move
from tests.support.faulty import FaultyStore

FIRST = NEVER_RAN._replace(epoch=1, write_id="1" * 32)
SECOND = NEVER_RAN._replace(epoch=2, write_id="2" * 32)


def store_with(state: GcState) -> FaultyStore:
    store = FaultyStore()
    move(store, look(store), state)
    return store


def test_a_refused_request_does_not_change_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_with(FIRST)
    seen = look(store)

    def conflict(*_: Any, **__: Any) -> Any:
        raise ConditionFailed("409: a conflicting conditional operation is in progress", hint="-")

    with monkeypatch.context() as patch:
        patch.setattr(store, "put", conflict)
        with pytest.raises(Unreachable, match="nobody else changed it"):
            move(store, seen, SECOND)
    assert look(store) == seen
    move(store, seen, SECOND)
    assert look(store).state == SECOND


def test_a_state_that_another_machine_moved_is_lost() -> None:
    store = store_with(FIRST)
    seen = look(store)
    move(store, seen, SECOND._replace(write_id="3" * 32))
    with pytest.raises(StateMoved):
        move(store, seen, SECOND)


def test_a_version_from_before_the_state_that_was_read_is_lost() -> None:
    store = store_with(FIRST)
    before = look(store)
    move(store, before, SECOND)
    with pytest.raises(StateMoved):
        move(store, look(store)._replace(version=before.version), FIRST)
