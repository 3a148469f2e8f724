"""What ``_lakecli/repository.json`` tells, and asks for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lakecli import layout
from lakecli.errors import ErrorKind, IntegrityError
from lakecli.ids import RepositoryUuid
from lakecli.objectstore.base import ANY
from lakecli.objectstore.memory.store import MemoryStore
from lakecli.repository import namespace
from lakecli.repository.namespace import NewerRepository, check_needs, describe, owner_of
from tests.support.forgeries import DOCUMENTS, broken

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


SOUND = {
    "format": 1,
    "uuid": "0f" * 16,
    "range_entries": 8192,
    "default_branch": "main",
    "created": "2026-11-20T15:00:00Z",
    "needs_read": ["new"],
    "needs_write": [],
}
LEGAL = {
    "default_branch": {"short", "short ID", "uneven ID", "long ID"},
    "needs_read": {"missing", "list"},
    "needs_write": {"missing", "list"},
}
BROKEN = dict(broken(SOUND, LEGAL))


def holding(data: bytes) -> MemoryStore:
    store = MemoryStore()
    store.put(layout.REPOSITORY, data, ANY)
    return store


def test_a_sound_one() -> None:
    found = describe(holding(json.dumps({**SOUND, "unknown": {"later": 1}}).encode()))
    assert found is not None
    assert (type(found.uuid), found.uuid) == (RepositoryUuid, SOUND["uuid"])
    assert (found.needs_read, found.needs_write) == (("new",), ())


@pytest.mark.parametrize("fields", BROKEN.values(), ids=BROKEN)
def test_each_field_broken_in_each_way(fields: dict[str, Any]) -> None:
    with pytest.raises((IntegrityError, NewerRepository)) as caught:
        describe(holding(json.dumps(fields).encode()))
    assert caught.value.hint
    assert len(caught.value.message) < 500


@pytest.mark.parametrize("number", [-64, 0, 8, 15, 17, 8191, 1 << 21, 1e3, "64", True])
def test_a_tree_parameter_that_cannot_be(number: object) -> None:
    with pytest.raises(IntegrityError, match="range_entries"):
        describe(holding(json.dumps({**SOUND, "range_entries": number}).encode()))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_hostile_documents(name: str) -> None:
    for read in (describe, owner_of):
        with pytest.raises(IntegrityError, match="not a repository description") as caught:
            read(holding(DOCUMENTS[name]))
        assert caught.value.hint


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
