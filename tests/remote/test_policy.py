"""The rules in the bucket: versions, races, damage."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from lakecli.base.ids import WriteId
from lakecli.base.layout import MAX_POLICY_SIZE, MAX_SEQUENCE, POLICIES, POLICY, policy_key
from lakecli.errors import OutcomeUnknown, Unreachable
from lakecli.remote import policy
from lakecli.remote.policy import (
    PolicyMoved,
    PolicyRecord,
    SeenPolicy,
    find_policy,
    iter_policies,
    look_at_policy,
    put_policy,
    read_policy,
)
from lakecli.remote.ref_records import NewerRecord, NotOurs, Unwritable
from lakecli.stores.contract import ANY, ConditionFailed
from tests.support.memory_store import MemoryStore


def record(number: int, document: str = "") -> PolicyRecord:
    at = datetime(2026, 11, 29, tzinfo=UTC)
    return PolicyRecord(number, WriteId(f"{number:032x}"), "Ada <ada@x>", at, document)


def test_each_version_is_kept() -> None:
    store = MemoryStore()
    assert read_policy(store) is None
    for number in range(1, 4):
        put_policy(store, look_at_policy(store), record(number, "é\n"))
    assert read_policy(store) == record(3, "é\n")
    assert [each.number for each in iter_policies(store)] == [3, 2, 1]


def test_a_former_version_is_found_by_its_number() -> None:
    store = MemoryStore()
    for number in (1, 2):
        put_policy(store, look_at_policy(store), record(number, str(number)))
    assert find_policy(store, 1) == record(1, "1")
    assert find_policy(store, 9) is None
    for body in (b"{}", b" " * (MAX_POLICY_SIZE + 1)):
        store.put(policy_key(9), body, ANY)
        assert find_policy(store, 9) is None
        assert [each.number for each in iter_policies(store)] == [2, 1]


def test_the_newest_of_many_versions_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "MOST_KEPT", 2)
    store = MemoryStore()
    for number in range(1, 6):
        put_policy(store, look_at_policy(store), record(number))
    assert [each.number for each in iter_policies(store)] == [5, 4, 3]


def test_a_false_number_is_not_made_worse() -> None:
    store = MemoryStore()
    put_policy(store, SeenPolicy(None), record(MAX_SEQUENCE))
    before = store.get(POLICY)
    with pytest.raises(Unwritable, match="no lakecli could read it: number"):
        put_policy(store, look_at_policy(store), record(MAX_SEQUENCE + 1))
    assert store.get(POLICY) == before
    assert not list(store.list(POLICIES))


def test_only_one_of_two_writers_wins() -> None:
    store = MemoryStore()
    put_policy(store, SeenPolicy(None), record(1))
    with pytest.raises(PolicyMoved):
        put_policy(store, SeenPolicy(None), record(1)._replace(write_id=WriteId("f" * 32)))
    seen = look_at_policy(store)
    put_policy(store, seen, record(2))
    with pytest.raises(PolicyMoved):
        put_policy(store, seen, record(2, "other")._replace(write_id=WriteId("f" * 32)))
    assert read_policy(store) == record(2)


def test_a_refused_request_is_not_the_policy_of_somebody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    put_policy(store, SeenPolicy(None), record(1))
    seen = look_at_policy(store)

    put = store.put

    def conflict(key: str, *arguments: Any, **more: Any) -> Any:
        if key == POLICY:
            raise ConditionFailed("409: another conditional operation is in progress", hint="-")
        return put(key, *arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(store, "put", conflict)
        with pytest.raises(Unreachable, match="nobody else changed it"):
            put_policy(store, seen, record(2))
    put_policy(store, seen, record(2))
    assert read_policy(store) == record(2)


class LosesAnswers(MemoryStore):
    """Takes what is written, and does not say so."""

    is_down = False

    def put(self, *arguments: Any, **more: Any) -> Any:
        super().put(*arguments, **more)
        raise Unreachable("no answer")

    def get_versioned(self, *arguments: Any, **more: Any) -> Any:
        if self.is_down:
            raise Unreachable("no answer")
        return super().get_versioned(*arguments, **more)


def test_a_lost_answer_is_found_out() -> None:
    store = LosesAnswers()
    put_policy(store, SeenPolicy(None), record(1))
    assert read_policy(store) == record(1)
    store.is_down = True
    with pytest.raises(OutcomeUnknown):
        put_policy(store, SeenPolicy(None), record(2))


@pytest.mark.parametrize(
    "change",
    [{"number": 0}, {"who": None}, {"write_id": "x"}, {"document": 1}, {"at": "yesterday"}],
)
def test_what_is_not_valid_is_refused_and_can_be_replaced(change: dict[str, object]) -> None:
    store = MemoryStore()
    put_policy(store, SeenPolicy(None), record(1))
    fields = json.loads(store.get(POLICY))
    store.put(POLICY, json.dumps(fields | change).encode(), ANY)
    with pytest.raises(NotOurs):
        read_policy(store)
    put_policy(store, look_at_policy(store, accepts_damage=True), record(2))
    assert read_policy(store) == record(2)


def test_a_newer_record_is_not_replaced() -> None:
    store = MemoryStore()
    store.put(POLICY, b'{"format": 2}', ANY)
    with pytest.raises(NewerRecord):
        look_at_policy(store, accepts_damage=True)


def test_a_version_under_another_number_is_left_out() -> None:
    store = MemoryStore()
    for number in (1, 2):
        put_policy(store, look_at_policy(store), record(number))
    store.put(policy_key(7), store.get(policy_key(1)), ANY)
    store.put(policy_key(5), b"{}", ANY)
    assert [each.number for each in iter_policies(store)] == [2, 1]


def test_a_foreign_object_in_the_place_of_a_former_version_is_no_reason_to_lose_one() -> None:
    store = MemoryStore()
    put_policy(store, SeenPolicy(None), record(1))
    store.put(policy_key(1), b"{}", ANY)
    with pytest.raises(NotOurs):
        put_policy(store, look_at_policy(store), record(2))
