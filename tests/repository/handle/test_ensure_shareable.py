"""Probing once whether a namespace can be shared, and remembering the result."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

from lakecli.errors import ErrorKind, PermissionDenied, Unreachable
from lakecli.repository.contract import Repository
from lakecli.repository.handle import namespace
from lakecli.repository.handle.lake import LocalRepository
from lakecli.repository.handle.namespace import CannotShare, ClockOff, ensure_shareable
from lakecli.stores.capabilities import Access
from tests.support.faulty import FaultyStore, denied, unreachable
from tests.support.lakes import serve

if TYPE_CHECKING:
    from tests.support.lakes import Ticking


class SignedStore(FaultyStore):
    """A store with a login, and so on another machine."""

    def access(self) -> Access:
        return Access("access key", "AKIA…", "test")


def with_store(repository: Repository, store: FaultyStore | None = None, **settings: Any) -> Any:
    made = FaultyStore(**settings) if store is None else store
    serve(repository, made)
    return made


def test_a_directory_is_probed_and_left_clean(repository: Repository) -> None:
    before = {info.key for info in repository.store.list()}
    ensure_shareable(repository)
    assert {info.key for info in repository.store.list()} == before


def test_a_good_store_is_probed_once(repository: Repository) -> None:
    store = with_store(repository)
    ensure_shareable(repository)
    assert store.keys == ()
    asked = sum(store.calls.values())
    assert (
        0 < asked - store.calls["overwrite"] <= 110
    )  # an overwrite is not counted as a second request
    ensure_shareable(repository)
    assert sum(store.calls.values()) == asked


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"ignores": frozenset({"ABSENT"})}, "the store ignores conditions"),
        ({"ignores": frozenset({"Match"})}, "the store ignores conditions"),
        ({"reads_late": True}, "is read as it was before"),
        ({"lies_about_versions": True}, "another version"),
        ({"forgets": True}, "not found"),
    ],
)
def test_a_store_without_compare_and_set_is_refused(
    repository: Repository, settings: dict[str, Any], reason: str
) -> None:
    store = with_store(repository, **settings)
    with pytest.raises(CannotShare, match=reason) as caught:
        ensure_shareable(repository)
    assert caught.value.kind is ErrorKind.REFUSED
    assert caught.value.hint is not None
    assert f"lakecli doctor {repository.uri}" in caught.value.hint
    assert store.keys == ()
    asked = sum(store.calls.values())
    with pytest.raises(CannotShare, match=reason):
        ensure_shareable(repository)
    assert sum(store.calls.values()) == asked


def test_a_refused_store_is_probed_again_after_a_day(
    repository: Repository, clock: Ticking
) -> None:
    store = with_store(repository, ignores=frozenset({"ABSENT"}))
    with pytest.raises(CannotShare):
        ensure_shareable(repository)
    store.ignores = frozenset()
    clock.present += timedelta(hours=23)
    with pytest.raises(CannotShare):
        ensure_shareable(repository)
    clock.present += timedelta(hours=1)
    ensure_shareable(repository)


@pytest.mark.parametrize(
    ("error", "family"), [(denied("put"), PermissionDenied), (unreachable(), Unreachable)]
)
def test_an_inconclusive_probe_is_not_remembered(
    repository: Repository, error: Exception, family: type[Exception]
) -> None:
    store = with_store(repository, errors={"put": error})
    with pytest.raises(family):
        ensure_shareable(repository)
    store.errors = {}
    ensure_shareable(repository)


def test_a_user_without_delete_permission_can_share(repository: Repository) -> None:
    store = with_store(repository, errors={"delete": denied("delete")})
    ensure_shareable(repository)
    assert store.calls["delete"]


def test_an_older_probe_is_ignored(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    store = with_store(repository)
    ensure_shareable(repository)
    asked = sum(store.calls.values())
    monkeypatch.setattr(namespace, "TESTS_VERSION", namespace.TESTS_VERSION + 1)
    ensure_shareable(repository)
    assert sum(store.calls.values()) > asked


@pytest.mark.parametrize(
    ("offset", "said"),
    [
        (timedelta(days=1), "24 hours behind that of the store"),
        (timedelta(days=-3), "3 days ahead of that of the store"),
        (timedelta(hours=2), "2 hours behind"),
    ],
)
def test_a_wrong_clock_has_its_own_error(
    repository: Repository, offset: timedelta, said: str
) -> None:
    store = with_store(repository, SignedStore(offset=offset))
    with pytest.raises(ClockOff, match=said) as caught:
        ensure_shareable(repository)
    assert caught.value.hint is not None
    assert "timedatectl" in caught.value.hint
    assert store.keys == ()
    store.offset = timedelta(minutes=5)
    ensure_shareable(repository)


def test_the_clock_of_a_directory_is_that_of_this_machine(repository: Repository) -> None:
    store = with_store(repository, offset=timedelta(days=2))
    ensure_shareable(repository)
    assert store.calls


def test_a_probe_is_remembered_for_one_namespace(repository: Repository) -> None:
    with_store(repository)
    ensure_shareable(repository)
    record = repository.record._replace(storage_namespace="local:///elsewhere")
    moved = LocalRepository(repository.lake, record)
    store = with_store(moved)
    ensure_shareable(moved)
    assert store.calls


@pytest.fixture
def clock(repository: Repository) -> Ticking:
    return cast("Ticking", repository.lake.runtime.clock)
