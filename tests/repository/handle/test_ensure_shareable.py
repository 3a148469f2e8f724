"""Testing whether a namespace can be shared: once for all clones, and once failed is failed."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

from lakecli.base.layout import SHARING
from lakecli.doctor import conditions
from lakecli.doctor.evidence import Result, place_of, read_evidence
from lakecli.doctor.probe import requests
from lakecli.errors import ErrorKind, IntegrityError, PermissionDenied, Unreachable, Unsupported
from lakecli.kv.local_store import Table
from lakecli.repository.contract import Repository
from lakecli.repository.handle.lake import LocalRepository
from lakecli.repository.handle.shareable import CannotShare, ClockOff, ensure_shareable, remember
from lakecli.stores.capabilities import Access
from lakecli.stores.contract import ABSENT, ANY
from tests.doctor.test_evidence import HOSTILE
from tests.support.faulty import NOW, FaultyStore, denied, unreachable
from tests.support.lakes import open_lake, serve

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.stores.contract import Version
    from tests.support.lakes import Ticking

pytestmark = pytest.mark.races


class SignedStore(FaultyStore):
    """A store with a login, and so on another machine."""

    def access(self) -> Access:
        return Access("access key", "AKIA…", "test")


def with_store(repository: Repository, store: FaultyStore | None = None, **settings: Any) -> Any:
    made = FaultyStore(**settings) if store is None else store
    serve(repository, made)
    return made


def evidence_of(repository: Repository) -> list[tuple[str, int]]:
    """Return reason and races of each result in the namespace."""
    found = read_evidence(repository.store)
    return [(each.reason, each.races) for each in found.results]


def asked(store: FaultyStore) -> int:
    """Return how many requests a store got; an overwrite is no second one."""
    return store.calls.total() - store.calls["overwrite"]


def another_clone(repository: Repository, directory: Path, store: FaultyStore) -> Repository:
    """Return the repository on another machine, which remembers nothing."""
    other = open_lake(directory)
    made = LocalRepository(other, repository.record)
    serve(made, store)
    return made


def test_a_directory_is_tested_and_left_clean(repository: Repository) -> None:
    before = {info.key for info in repository.store.list()}
    ensure_shareable(repository)
    assert {info.key for info in repository.store.list()} - before == {SHARING}


def test_only_the_first_clone_tests(repository: Repository, tmp_path: Path) -> None:
    store = with_store(repository)
    ensure_shareable(repository)
    assert store.keys == (f"ns/{SHARING}",)
    assert conditions.RACES < asked(store) <= requests(conditions.RACES)
    assert evidence_of(repository) == [("", conditions.RACES)]
    for clone in (repository, another_clone(repository, tmp_path / "other", store)):
        store.calls.clear()
        ensure_shareable(clone)
        assert store.calls == {"get": 1}


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
def test_a_store_that_failed_is_refused_to_every_clone(
    repository: Repository, settings: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    store = with_store(repository, **settings)
    for clone in (repository, repository, another_clone(repository, tmp_path / "other", store)):
        with pytest.raises(CannotShare, match=reason) as caught:
            ensure_shareable(clone)
        assert caught.value.kind is ErrorKind.REFUSED
        assert f"`doctor {clone.uri} --again" in str(caught.value.hint)
        assert set(store.keys) <= {f"ns/{SHARING}"}
    store.forgets = False
    store.reads_late = False
    store.lies_about_versions = False
    store.ignores = frozenset()
    store.calls.clear()
    with pytest.raises(CannotShare, match=reason):  # it failed once
        ensure_shareable(repository)
    assert store.calls["delete"] == 0


def test_a_failure_outlasts_the_pass_of_another_clone(
    repository: Repository, tmp_path: Path, clock: Ticking
) -> None:
    """A store without conditions may lose the record of its failure to that of a lucky clone."""
    store = with_store(repository, ignores=frozenset({"Match"}))
    with pytest.raises(CannotShare):
        ensure_shareable(repository)
    store.delete([SHARING])
    store.ignores = frozenset()
    lucky = another_clone(repository, tmp_path / "lucky", store)
    ensure_shareable(lucky)
    clock.present += timedelta(days=400)
    for clone in (repository, lucky, repository):
        with pytest.raises(CannotShare, match="ignores conditions"):
            ensure_shareable(clone)
    retest(repository)
    for clone in (repository, lucky, repository):
        ensure_shareable(clone)


def retest(repository: Repository) -> None:
    """Record a whole pass that somebody asked for."""
    store = repository.store
    remember(repository, Result(place_of(store), "", conditions.RACES, NOW, "ada", again=True))


def test_a_pass_does_not_end_a_failure(repository: Repository) -> None:
    store = with_store(repository, ignores=frozenset({"ABSENT"}))
    with pytest.raises(CannotShare):
        ensure_shareable(repository)
    store.ignores = frozenset()
    remember(repository, Result(place_of(store), "", conditions.RACES, NOW))
    with pytest.raises(CannotShare):
        ensure_shareable(repository)


@pytest.mark.parametrize(
    ("error", "family"), [(denied("put"), PermissionDenied), (unreachable(), Unreachable)]
)
def test_a_test_without_a_result_is_not_recorded(
    repository: Repository, error: Exception, family: type[Exception]
) -> None:
    store = with_store(repository, errors={"put": error})
    with pytest.raises(family):
        ensure_shareable(repository)
    store.errors = {}
    assert evidence_of(repository) == []
    ensure_shareable(repository)


def test_what_a_store_cannot_do_is_no_fault(repository: Repository) -> None:
    """It may learn it, and then needs no word of anybody."""

    class Plain(FaultyStore):
        can = False

        def put(self, *arguments: Any, **options: Any) -> Version:
            if arguments[2] == ABSENT and not self.can:
                raise Unsupported("cannot do PutObject (NotImplemented)")
            return super().put(*arguments, **options)

    store = with_store(repository, Plain())
    with pytest.raises(CannotShare, match="NotImplemented"):
        ensure_shareable(repository)
    store.can = True
    ensure_shareable(repository)


def test_a_user_without_delete_permission_can_share(repository: Repository) -> None:
    store = with_store(repository, errors={"delete": denied("delete")})
    ensure_shareable(repository)
    assert store.calls["delete"]


def test_a_slow_store_is_tested_by_several_commands(repository: Repository) -> None:
    """No race begins after the limit of time; what was seen counts."""
    store = with_store(repository)
    seconds = iter(range(0, 10_000, int(conditions.TIME_LIMIT / 3)))
    repository.lake.runtime = repository.lake.runtime._replace(elapsed=lambda: next(seconds))
    with pytest.raises(Unreachable, match=r"3 of 4 races") as caught:
        ensure_shareable(repository)
    assert "repeat the command" in str(caught.value.hint)
    assert evidence_of(repository) == [("", 3)]
    ensure_shareable(repository)
    assert evidence_of(repository) == [("", 3), ("", 1)]
    assert store.keys == (f"ns/{SHARING}",)


def test_a_copied_namespace_is_tested_anew(repository: Repository) -> None:
    class Elsewhere(SignedStore):
        uri = "memory://elsewhere"

    with_store(repository)
    ensure_shareable(repository)
    copied = repository.store.get(SHARING)
    record = repository.record._replace(storage_namespace="local:///elsewhere")
    moved = LocalRepository(repository.lake, record)
    store = with_store(moved, Elsewhere())
    store.put(SHARING, copied, ANY)
    store.calls.clear()
    ensure_shareable(moved)
    assert store.calls["put"] > conditions.RACES
    assert len(evidence_of(moved)) == 2
    store.calls.clear()
    ensure_shareable(moved)
    assert store.calls == {"get": 1}


# What earlier versions remembered


def remembered(repository: Repository, reason: str, namespace: str = "") -> None:
    """Leave a result in the local store as earlier versions did."""
    fields = {
        "reason": reason,
        "at": int(NOW.timestamp()),
        "version": 1,
        "namespace": namespace or repository.record.storage_namespace,
    }
    with repository.lake.kv.write() as txn:
        txn.put(Table.META, b"sharing/" + repository.key, json.dumps(fields).encode())


def test_an_old_pass_does_not_count(repository: Repository) -> None:
    store = with_store(repository)
    remembered(repository, "")
    ensure_shareable(repository)
    assert store.calls["put"] > conditions.RACES


def test_an_old_failure_counts_for_every_clone(repository: Repository, tmp_path: Path) -> None:
    store = with_store(repository)
    remembered(repository, "8 of 8 writers won one create-only race")
    for clone in (repository, another_clone(repository, tmp_path / "other", store), repository):
        with pytest.raises(CannotShare, match="8 of 8 writers"):
            ensure_shareable(clone)
    retest(repository)
    ensure_shareable(repository)
    ensure_shareable(repository)


def test_an_old_failure_of_another_namespace_does_not_count(repository: Repository) -> None:
    with_store(repository)
    remembered(repository, "it failed", "s3://elsewhere")
    ensure_shareable(repository)
    assert evidence_of(repository) == [("", conditions.RACES)]


# Its object


@pytest.mark.parametrize("body", HOSTILE)
def test_an_object_that_is_not_valid_is_refused_by_name(
    repository: Repository, body: bytes
) -> None:
    store = with_store(repository)
    store.put(SHARING, body, ANY)
    with pytest.raises(IntegrityError, match=r"_lakecli/sharing\.json does not hold") as caught:
        ensure_shareable(repository)
    assert f"`doctor {store.uri} --again`" in str(caught.value.hint)
    assert store.get(SHARING) == body


# The clock


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


@pytest.fixture
def clock(repository: Repository) -> Ticking:
    return cast("Ticking", repository.lake.runtime.clock)
