"""Retention rules are read as they were written, or refused with a reason."""

from __future__ import annotations

import json

import pytest

from lakecli.base.layout import MAX_RULES_SIZE
from lakecli.errors import NotFound, UsageError
from lakecli.gc.policy import (
    MAX_DAYS,
    Rules,
    delete_rules,
    find_rules,
    get_rules,
    parse_rules,
    put_rules,
    rules_fields,
)
from lakecli.stores.contract import ANY
from tests.support.memory_store import MemoryStore

KEY = "_lakecli/gc/rules.json"


@pytest.mark.parametrize("days", [1, MAX_DAYS])
def test_rules_of_lakefs_are_read(days: int) -> None:
    fields = {
        "default_retention_days": days,
        "branches": [
            {"branch_id": "main", "retention_days": days},
            {"branch_id": "dev", "retention_days": 7},
        ],
    }
    rules = parse_rules(json.dumps(fields))
    assert rules == Rules(days, {"main": days, "dev": 7})
    assert (rules.days_of("main"), rules.days_of("dev"), rules.days_of("x")) == (days, 7, days)
    assert rules_fields(rules) == {**fields, "branches": fields["branches"][::-1]}  # type: ignore[index]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", "'default_retention_days' is missing"),
        ('{"default_retention_days": 7, "branches": [{"branch_id": "a"}]}', "'retention_days' is"),
        ('{"default_retention_days": 0}', "no number of days from 1 to 36500: 0"),
        ('{"default_retention_days": 36501}', "no number of days from 1 to 36500: 36501"),
        ('{"default_retention_days": 7.0}', "no number of days from 1 to 36500: 7.0"),
        (
            '{"default_retention_days": 7, "branches": [{"branch_id": "", "retention_days": 1}]}',
            "no name of a branch: ''",
        ),
        (
            '{"default_retention_days": 7, "branches": [{"branch_id": 5, "retention_days": 1}]}',
            "no name of a branch: 5",
        ),
        (
            (
                '{"default_retention_days": 7, "branches": [{"branch_id": "a", "retention_days": 1}'
                ', {"branch_id": "a", "retention_days": 1}]}'
            ),
            "two rules for branch 'a'",
        ),
        ('{"default_retention_days": 7, "branches": 5}', "'int' object is not iterable"),
        ('["default_retention_days"]', "list indices"),
    ],
)
def test_what_is_wrong_with_rules_is_said(text: str, reason: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_rules(text)
    assert str(raised.value).startswith(f"no retention rules: {reason}")
    assert "such as {" in str(raised.value.hint)


def test_rules_are_written_read_and_deleted() -> None:
    store = MemoryStore()
    for act in (get_rules, delete_rules):
        with pytest.raises(NotFound, match="there are no retention rules"):
            act(store)
    assert find_rules(store) is None
    rules = Rules(7, {"dev": 3})
    put_rules(store, rules)
    assert find_rules(store) == get_rules(store) == rules
    assert json.loads(store.get(KEY)) == rules_fields(rules)
    delete_rules(store)
    assert not [*store.list()]


def test_rules_that_are_too_large_are_refused() -> None:
    store = MemoryStore()
    text = b'{"default_retention_days": 7}'
    store.put(KEY, text.ljust(MAX_RULES_SIZE), ANY)
    assert find_rules(store) == Rules(7, {})
    store.put(KEY, text.ljust(MAX_RULES_SIZE + 1), ANY)
    with pytest.raises(UsageError) as caught:
        find_rules(store)
    assert "`gc set-config lakefs://REPOSITORY -f FILE`" in (caught.value.hint or "")
    put_rules(store, Rules(7, {}))
    rules = Rules(7, {f"branch{number}": 3 for number in range(20_000)})
    with pytest.raises(UsageError, match="at most 1,048,576 are read"):
        put_rules(store, rules)
    assert find_rules(store) == Rules(7, {})
