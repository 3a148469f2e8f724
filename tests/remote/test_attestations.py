"""Statements about trees: written once, read only if they are valid."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakecli.base.ids import MalformedId, MetarangeId
from lakecli.base.layout import MAX_ATTESTATION_SIZE, attestation_key, attestation_prefix
from lakecli.errors import UsageError
from lakecli.remote.attestations import (
    MAX_ATTESTATIONS,
    Attestation,
    iter_attestations,
    write_attestation,
)
from lakecli.stores.contract import ABSENT
from tests.support.lakes import START
from tests.support.memory_store import MemoryStore

TREE = MetarangeId("6a" * 32)
DIGEST = "7b" * 32
CHECK = Attestation("check", "schema", TREE, TREE, "", "Ann <ann@example.com>", START)


def written(*statements: Attestation) -> MemoryStore:
    store = MemoryStore()
    for number, statement in enumerate(statements):
        write_attestation(store, statement, id=f"{number:032x}")
    return store


def read(store: MemoryStore, subject: str = TREE) -> list[Attestation]:
    return list(iter_attestations(store, subject))


def test_statements_are_read_by_their_subject() -> None:
    approval = CHECK._replace(kind="approve", name="main", who="Bob <bob@example.com>")
    below = CHECK._replace(subject=DIGEST, prefix="raw/\udcff")
    empty = CHECK._replace(subject="", tree=MetarangeId(""))
    store = written(CHECK, approval, below, empty)
    assert read(store) == [CHECK, approval]
    assert read(store, DIGEST) == [below]
    assert read(store, "") == [empty]
    assert read(store, "8c" * 32) == []
    assert attestation_key("", "0" * 32) == f"_lakecli/attest/empty/{'0' * 32}"


def test_a_statement_is_never_replaced() -> None:
    store = written(CHECK)
    write_attestation(store, CHECK._replace(name="other"), id="0" * 32)
    assert read(store) == [CHECK]


@pytest.mark.parametrize(
    "changed",
    [
        {"format": 2},
        {"kind": "skip"},
        {"name": ""},
        {"name": "n" * 1025},
        {"subject": DIGEST},
        {"tree": DIGEST},
        {"tree": "../data"},
        {"prefix": None},
        {"who": ""},
        {"who": "w" * 4097},
        {"at": "2026-11-20T15:00:00"},
        {"at": 7},
        {"name": "\ud800"},
    ],
)
def test_an_invalid_statement_does_not_count(changed: dict[str, Any]) -> None:
    store = written(CHECK)
    fields = json.loads(store.get(attestation_key(TREE, "0" * 32)))
    store.put_new(attestation_key(TREE, "1" * 32), json.dumps(fields | changed).encode())
    assert read(store) == [CHECK]
    fields.pop("who")
    store.put_new(attestation_key(TREE, "2" * 32), json.dumps(fields).encode())
    store.put_new(attestation_key(TREE, "3" * 32), b"[" * 5000)
    store.put_new(attestation_key(TREE, "4" * 32), b" " * MAX_ATTESTATION_SIZE + b"{}")
    assert read(store) == [CHECK]


def test_a_statement_that_nobody_could_read_is_not_written() -> None:
    store = MemoryStore()
    with pytest.raises(UsageError, match="name: a text of 1,025 bytes"):
        write_attestation(store, CHECK._replace(name="n" * 1025), id="0" * 32)
    with pytest.raises(UsageError, match="subject: not its tree"):
        write_attestation(store, CHECK._replace(subject=DIGEST), id="0" * 32)
    with pytest.raises(MalformedId):
        write_attestation(store, CHECK, id="../x")
    assert list(store.list()) == []


def test_only_some_objects_are_read() -> None:
    store = MemoryStore()
    write_attestation(store, CHECK, id="f" * 32)
    for number in range(MAX_ATTESTATIONS - 1):
        store.put(f"{attestation_prefix(TREE)}{number:08}", b"{}", ABSENT)
    assert read(store) == [CHECK]
    store.put(f"{attestation_prefix(TREE)}{MAX_ATTESTATIONS:08}", b"{}", ABSENT)
    assert read(store) == []
