"""The fields and requirements of ``_lakecli/repository.json``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest

from lakecli.base import layout
from lakecli.base.ids import RepositoryUuid
from lakecli.base.retry import CLAIMS, Retries
from lakecli.errors import AlreadyExists, ErrorKind, IntegrityError, Unreachable
from lakecli.repository.handle import namespace
from lakecli.repository.handle.namespace import (
    NewerRepository,
    check_readable,
    check_writable,
    describe,
    owner_of,
)
from lakecli.repository.lakefs.kept_dumps import find_take_over
from lakecli.stores.contract import ABSENT, ANY, PLAIN, Attributes, ConditionFailed
from tests.support.forgeries import DOCUMENTS, broken
from tests.support.lakes import through
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.repository.contract import Repository
    from lakecli.stores.contract import Condition, Version


def changed(repository: Repository, **fields: Any) -> MemoryStore:
    document = json.loads(repository.store.get(layout.REPOSITORY))
    store = MemoryStore()
    store.put(layout.REPOSITORY, json.dumps({**document, **fields}).encode(), ANY)
    return store


def test_repository_json_holds_what_a_clone_needs(repository: Repository) -> None:
    record = repository.record
    description = describe(repository.store)
    assert description is not None
    assert tuple(description) == (
        record.uuid,
        record.range_entries,
        record.default_branch,
        record.created_at,
        (),
        False,
    )


def test_a_lost_repository_json_is_rewritten_as_that_of_a_take_over(repository: Repository) -> None:
    store = MemoryStore()
    namespace.restore(store, repository.record._replace(is_from_lakefs=True))
    described = describe(store)
    assert described is not None
    assert described.is_from_lakefs
    with pytest.raises(IntegrityError, match="does not say which refs dump it was made of"):
        find_take_over(store)  # so garbage collection, which asks for it, deletes nothing


class Undecided(MemoryStore):
    """Answers 409 and writes nothing, as S3 does during a conflicting request."""

    def __init__(self, times: int, instead: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self._left, self._instead = times, instead
        self.waited: list[float] = []
        self.retries = Retries(CLAIMS, sleep=self.waited.append, random=lambda: 1.0)

    def put(
        self, key: str, body: bytes | BinaryIO, condition: Condition, attributes: Attributes = PLAIN
    ) -> Version:
        if condition == ABSENT and self._left:
            self._left -= 1
            self._instead()
            raise ConditionFailed("409 ConditionalRequestConflict")
        return super().put(key, body, condition, attributes)


def claim_patiently(store: Undecided, repository: Repository) -> None:
    """Claim a namespace, and note how long that waits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(namespace, "Retries", lambda _policy: store.retries)
        namespace.claim(store, repository.record)


def test_a_conflict_answer_to_a_claim_is_retried(repository: Repository) -> None:
    for times in (1, 2, 5):
        store = Undecided(times)
        claim_patiently(store, repository)
        assert len(store.waited) == times
        assert owner_of(store) == repository.record.uuid
        assert namespace.find_lakefs_marker(store) == layout.LAKEFS_MARKER


def test_a_conflict_answer_that_lasts_claims_nothing(repository: Repository) -> None:
    store = Undecided(1_000)
    with pytest.raises(Unreachable, match=r"refuses to create _lakecli/repository\.json"):
        claim_patiently(store, repository)
    assert sum(store.waited) > 5
    assert list(store.list()) == []
    store._left = 0
    namespace.claim(store, repository.record)
    assert owner_of(store) == repository.record.uuid


def test_a_claim_that_another_clone_wins_is_refused(repository: Repository) -> None:
    other = repository.record._replace(uuid=RepositoryUuid("0" * 32))

    def win() -> None:
        if owner_of(store) is None:
            MemoryStore.put(store, layout.REPOSITORY, namespace._document(other), ANY)

    store = Undecided(1, win)
    with pytest.raises(AlreadyExists, match=f"belongs to repository {other.uuid}"):
        claim_patiently(store, repository)


def test_a_conflict_answer_to_the_marker_is_retried(repository: Repository) -> None:
    store = Undecided(0)
    namespace.claim(store, repository.record)
    store.delete([layout.LAKEFS_MARKER])
    store._left = 2
    claim_patiently(store, repository)
    assert namespace.find_lakefs_marker(store) == layout.LAKEFS_MARKER


def test_a_namespace_without_repository_json_is_not_found() -> None:
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
def test_a_malformed_repository_json_is_refused(
    repository: Repository, fields: dict[str, Any]
) -> None:
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


def test_a_valid_repository_json_is_read() -> None:
    found = describe(
        holding(json.dumps({**SOUND, "needs_read": [], "unknown": {"later": 1}}).encode())
    )
    assert found is not None
    assert (type(found.uuid), found.uuid) == (RepositoryUuid, SOUND["uuid"])
    assert found.needs_write == ()


@pytest.mark.parametrize("fields", BROKEN.values(), ids=BROKEN)
def test_each_malformed_field_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises((IntegrityError, NewerRepository)) as caught:
        describe(holding(json.dumps(fields).encode()))
    assert caught.value.hint
    assert len(caught.value.message) < 500


@pytest.mark.parametrize("number", [-64, 0, 8, 15, 17, 8191, 1 << 21, 1e3, "64", True])
def test_an_impossible_tree_parameter_is_refused(number: object) -> None:
    with pytest.raises(IntegrityError, match="range_entries"):
        describe(holding(json.dumps({**SOUND, "range_entries": number}).encode()))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_hostile_document_is_refused(name: str) -> None:
    for read in (describe, owner_of):
        with pytest.raises(IntegrityError, match="not a repository description") as caught:
            read(holding(DOCUMENTS[name]))
        assert caught.value.hint


@pytest.mark.parametrize("data", [b"garbage", b"[]", b"\xff", b"{}"])
def test_an_object_that_is_no_json_is_refused(data: bytes) -> None:
    store = MemoryStore()
    store.put(layout.REPOSITORY, data, ANY)
    with pytest.raises(IntegrityError, match="not a repository description"):
        describe(store)


def test_a_newer_format_is_refused(repository: Repository) -> None:
    with pytest.raises(NewerRepository, match="format 2") as caught:
        describe(changed(repository, format=namespace.FORMAT + 1, uuid="other"))
    assert caught.value.kind is ErrorKind.REFUSED


def test_an_unknown_requirement_is_refused(repository: Repository) -> None:
    newer = through(repository, changed(repository, needs_write=["packs:2", "refs:2"]))
    assert check_readable(newer).needs_write == ("packs:2", "refs:2")
    with pytest.raises(NewerRepository, match="'packs:2', 'refs:2'"):
        check_writable(newer)
    with pytest.raises(NewerRepository, match="'trees:3'"):
        describe(changed(repository, needs_read=["trees:3"]))
