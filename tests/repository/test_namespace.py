"""What ``_lakecli/repository.json`` tells, and asks for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lakecli import layout
from lakecli.errors import ErrorKind, IntegrityError
from lakecli.objectstore.base import ANY
from lakecli.objectstore.memory.store import MemoryStore
from lakecli.repository import namespace
from lakecli.repository.namespace import NewerRepository, check_needs, describe

if TYPE_CHECKING:
    from lakecli.repository.lake import Repository


def changed(repository: Repository, **fields: Any) -> MemoryStore:
    document = json.loads(repository.store.get(layout.REPOSITORY))
    store = MemoryStore()
    store.put(layout.REPOSITORY, json.dumps({**document, **fields}).encode(), ANY)
    return store


def test_it_tells_what_a_clone_has_to_know(repository: Repository) -> None:
    record = repository.record
    description = describe(repository.store)
    assert description is not None
    assert tuple(description) == (
        record.uuid,
        record.range_entries,
        record.default_branch,
        record.created_at,
        (),
        (),
    )
    check_needs(repository.store, description, writing=True)


def test_a_namespace_without_one() -> None:
    assert describe(MemoryStore()) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"uuid": "x"},
        {"uuid": None},
        {"range_entries": "many"},
        {"created": "yesterday"},
        {"format": "one"},
        {"needs_read": 3},
    ],
)
def test_one_that_makes_no_sense(repository: Repository, fields: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError, match="not a repository description"):
        describe(changed(repository, **fields))


@pytest.mark.parametrize("data", [b"garbage", b"[]", b"\xff", b"{}"])
def test_one_that_is_no_document(data: bytes) -> None:
    store = MemoryStore()
    store.put(layout.REPOSITORY, data, ANY)
    with pytest.raises(IntegrityError, match="not a repository description"):
        describe(store)


def test_a_newer_format_is_refused(repository: Repository) -> None:
    with pytest.raises(NewerRepository, match="format 2") as caught:
        describe(changed(repository, format=namespace.FORMAT + 1, uuid="other"))
    assert caught.value.kind is ErrorKind.REFUSED


def test_what_it_needs_and_we_cannot_do_is_refused(repository: Repository) -> None:
    store = changed(repository, needs_write=["packs:2"])
    description = describe(store)
    assert description is not None
    check_needs(store, description, writing=False)
    with pytest.raises(NewerRepository, match="'packs:2'"):
        check_needs(store, description, writing=True)
    store = changed(repository, needs_read=["trees:3"])
    description = describe(store)
    assert description is not None
    with pytest.raises(NewerRepository, match="'trees:3'"):
        check_needs(store, description, writing=False)
