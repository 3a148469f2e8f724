"""`lakecli doctor` on stores with one fault at a time."""

from __future__ import annotations

import posixpath
import threading
from contextlib import closing
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from lakecli.doctor import conditions
from lakecli.doctor.checks import Check, CheckVerdict, ScratchObjects
from lakecli.doctor.probe import NAMES, TIME_LIMIT, FetchedUrl, Probe, requests
from lakecli.errors import ErrorKind, IntegrityError, LakeError, Refused, Unreachable, Unsupported
from lakecli.stores.contract import ABSENT, ANY, BucketNotFound, ConditionFailed
from tests.support.faulty import NOW, FaultyStore, FaultyUploads, denied, unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from datetime import datetime

    from lakecli.stores.capabilities import UnfinishedUpload
    from lakecli.stores.contract import ObjectInfo, ObjectStore, Version
    from tests.support.memory_store import MemoryUploads

pytestmark = pytest.mark.races

ROOT = "_lakecli/doctor-"
OK, WARNING, FAILED, SKIPPED = (
    CheckVerdict.OK,
    CheckVerdict.WARNING,
    CheckVerdict.FAILED,
    CheckVerdict.SKIPPED,
)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakecli.doctor.conditions.PAUSE", 0)


def probe(
    store: FaultyStore,
    *,
    clock: Callable[[], datetime] = lambda: NOW,
    greet: Callable[[], ObjectStore] | None = None,
) -> dict[str, Check]:
    """Run every check, and assert that no object is left behind if deletion works."""
    before = store.keys
    found = {check.name: check for check in make_probe(store, clock=clock, greet=greet).run()}
    assert tuple(found) == NAMES
    if "delete" not in store.errors:
        assert store.keys == before
        assert store.bucket.uploads == {}
    return found


def make_probe(
    store: FaultyStore,
    *,
    clock: Callable[[], datetime] = lambda: NOW,
    greet: Callable[[], ObjectStore] | None = None,
) -> Probe:
    return Probe(store, clock, lambda: bytes(16), fetch=store.fetch, greet=greet)


def verdicts(found: dict[str, Check], *, but: CheckVerdict = OK) -> dict[str, CheckVerdict]:
    """Return the checks with a problem, except credentials, which a store in memory lacks."""
    return {
        name: check.verdict
        for name, check in found.items()
        if check.verdict is not but and name != "credentials"
    }


def test_a_good_store_passes() -> None:
    store = FaultyStore()
    found = probe(store)
    assert verdicts(found) == {}
    assert found["credentials"].verdict is SKIPPED
    assert {check.fix for check in found.values()} == {""}
    assert {check.kind for check in found.values()} == {None}
    assert found["presign"].details == {"expires_at": "2026-03-08T12:00:00Z"}
    assert found["clock"].details == {"seconds": "0"}
    assert sum(store.calls.values()) - store.calls["overwrite"] <= requests(conditions.RACES)


def test_the_probe_writes_only_below_its_prefix() -> None:
    store = FaultyStore()
    seen: set[str] = set()
    for _ in make_probe(store).run():
        seen.update(store.keys)
    assert seen
    assert all(key.startswith(f"ns/{ROOT}{'0' * 32}/") for key in seen)


# Conditions


@pytest.mark.parametrize(
    ("ignored", "name", "told"),
    [
        ("ABSENT", "create-only", "second create-only write replaced the first"),
        ("Match", "compare-and-set", "names a stale version succeeded"),
    ],
)
def test_ignored_conditions_are_detected(ignored: str, name: str, told: str) -> None:
    found = probe(FaultyStore(ignores=frozenset({ignored})))
    assert verdicts(found) == {name: FAILED, "race": SKIPPED}
    assert told in found[name].seen
    assert found[name].kind is ErrorKind.REFUSED
    assert "one machine at a time" in found[name].fix
    assert name in found["race"].seen


def test_wrong_versions_are_detected() -> None:
    found = probe(FaultyStore(lies_about_versions=True))
    assert verdicts(found) == {"compare-and-set": FAILED, "race": SKIPPED}
    assert "another version" in found["compare-and-set"].seen


def test_refused_conditions_are_detected() -> None:
    class Unconditional(FaultyStore):
        def put(self, *arguments: object, **options: object) -> object:  # type: ignore[override]
            if arguments[2] == ABSENT:
                raise Unsupported("cannot do PutObject (NotImplemented)")
            return super().put(*arguments, **options)  # type: ignore[arg-type]

    found = probe(Unconditional())
    assert verdicts(found) == {"create-only": FAILED, "race": SKIPPED}
    assert found["create-only"].seen == "cannot do PutObject (NotImplemented)"


def test_a_race_with_two_winners_is_detected() -> None:
    """Checks the condition before it writes, which a single writer never notices."""

    class Racy(FaultyStore):
        together = threading.Barrier(8)

        def put(self, *arguments: object, **options: object) -> object:  # type: ignore[override]
            key, body, condition = arguments
            in_race = "race-" in str(key) and body != b"start"
            if in_race:
                stored = self.bucket.objects.get(f"ns/{key}")
                fits = stored is None if condition == ABSENT else True
                self.together.wait(20)
                if fits:
                    object.__setattr__(self, "ignores", frozenset({"ABSENT", "Match"}))
            return super().put(*arguments, **options)  # type: ignore[arg-type]

    found = probe(Racy())
    assert verdicts(found) == {"race": FAILED}
    assert "8 of 8 writers won one create-only race" in found["race"].seen


def test_a_race_without_a_winner_is_a_warning() -> None:
    class Timid(FaultyStore):
        """Answers racing writers with a conflict until they give up."""

        def put(self, *arguments: object, **options: object) -> object:  # type: ignore[override]
            if "race-match" in str(arguments[0]) and arguments[1] != b"start":
                super().put(*(arguments[0], b"start", ABSENT), **options)  # type: ignore[arg-type]
            return super().put(*arguments, **options)  # type: ignore[arg-type]

    found = probe(Timid())
    assert verdicts(found) == {"race": WARNING}
    assert found["race"].seen.startswith("4 of 8 races of 8 writers had no winner")


def test_a_race_without_answers_is_no_verdict() -> None:
    class Silent(FaultyStore):
        def put(self, *arguments: object, **options: object) -> object:  # type: ignore[override]
            if "race-" in str(arguments[0]) and arguments[1] != b"start":
                raise unreachable()
            return super().put(*arguments, **options)  # type: ignore[arg-type]

    found = probe(Silent())
    assert verdicts(found) == {"race": FAILED}, "the store answers everything else"
    assert found["race"].kind is ErrorKind.UNREACHABLE


def test_the_probe_waits_between_writes_if_the_store_needs_it() -> None:
    class Slow(FaultyStore):
        """Refuses a second write of a key for a moment, as Google does."""

        refused: set[str] = set()  # noqa: RUF012 - one store a test

        def put(self, *arguments: object, **options: object) -> object:  # type: ignore[override]
            check = str(arguments[0]).rpartition("/")[2].removesuffix("-again")
            if arguments[1] == b"second" and check not in self.refused:
                self.refused.add(check)
                raise unreachable()
            return super().put(*arguments, **options)  # type: ignore[arg-type]

    store = Slow()
    assert verdicts(probe(store)) == {}
    assert store.refused == {"create-only", "compare-and-set"}


def test_a_reply_lost_in_a_race_is_no_second_winner() -> None:
    class Lossy(FaultyStore):
        """Applies the write of the first writer in each race, and loses the reply."""

        lost: set[str] = set()  # noqa: RUF012 - one store a test

        def put(self, *arguments: object, **options: object) -> object:  # type: ignore[override]
            version = super().put(*arguments, **options)  # type: ignore[arg-type]
            if "race-" in str(arguments[0]) and arguments[1] != b"start":
                raise unreachable()
            return version

    assert verdicts(probe(Lossy())) == {}


# Permissions


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("list", {"list": FAILED, "list-after-write": SKIPPED, "names": SKIPPED}),
        ("overwrite", {"overwrite": FAILED, "read-after-write": FAILED, "compare-and-set": FAILED,
                       "create-only": FAILED, "race": SKIPPED, "delete-matching": SKIPPED}),
        ("presign", {"presign": FAILED, "cors": SKIPPED}),
        ("upload", {"multipart": FAILED, "checksums": SKIPPED}),
        ("unfinished", {"multipart": WARNING}),
        ("delete", {"delete": FAILED}),
    ],
)  # fmt: skip
def test_a_denied_operation_is_named(operation: str, expected: dict[str, CheckVerdict]) -> None:
    found = probe(FaultyStore(errors={operation: denied(operation)}))
    assert verdicts(found) == expected
    first = next(iter(expected))
    assert found[first].fix.startswith(f"grant test:{operation}")
    failures = [check for check in found.values() if check.verdict is FAILED]
    assert {check.kind for check in failures} <= {ErrorKind.PERMISSION}


def test_a_read_only_store_passes_for_reading() -> None:
    store = FaultyStore(errors={"put": denied("put")})
    found = probe(store)
    well = {name for name, check in found.items() if check.verdict is OK}
    assert well == {"reachable", "list", "read", "clock", "delete"}
    assert found["write"].kind is ErrorKind.PERMISSION
    assert store.calls["put"] == 1
    assert store.calls["fetch"] == 1, "the clock is told by the answer to a URL"


def test_a_store_that_denies_reading_is_reported_once() -> None:
    errors = {name: denied("get") for name in ("get", "head")}
    found = probe(FaultyStore(errors=errors))
    failures = [name for name, check in found.items() if check.verdict is FAILED]
    assert failures == ["read"]
    assert {"write", "overwrite", "list-after-write", "delete"} <= {
        name for name, check in found.items() if check.verdict is OK
    }


def test_objects_that_cannot_be_deleted_are_named() -> None:
    store = FaultyStore(errors={"delete": denied("delete")})
    found = probe(store)
    place = f"memory://ns/{ROOT}{'0' * 32}/"
    assert f"delete the remaining objects under {place}" in found["delete"].fix
    assert store.keys
    assert store.calls["delete"] == 1


# Consistency, contents, checksums


def test_late_listings_are_detected() -> None:
    found = probe(FaultyStore(lists_late=True))
    assert verdicts(found) == {"list-after-write": WARNING}


def test_late_reads_are_detected() -> None:
    found = probe(FaultyStore(reads_late=True))
    assert found["read-after-write"].verdict is FAILED
    assert "read as it was before" in found["read-after-write"].seen
    assert found["read-after-write"].kind is ErrorKind.REFUSED


def test_lost_writes_are_detected() -> None:
    found = probe(FaultyStore(forgets=True))
    assert found["read"].verdict is FAILED
    assert "not found" in found["read"].seen
    assert found["read"].kind is ErrorKind.REFUSED


def test_wrong_bytes_are_detected() -> None:
    found = probe(FaultyStore(garbles=True))
    assert found["read"].verdict is FAILED
    assert found["read"].kind is ErrorKind.INTEGRITY


class Folding(FaultyStore):
    """Takes names for one that a file system does, as versitygw and S3Proxy."""

    def put(self, *arguments: Any, **options: Any) -> Version:
        key, *rest = arguments
        return super().put(posixpath.normpath(key), *rest, **options)

    def get(self, key: str, **options: Any) -> bytes:
        return super().get(posixpath.normpath(key), **options)

    def head(self, key: str, **options: Any) -> ObjectInfo:
        return super().head(posixpath.normpath(key), **options)


class Hiding(FaultyStore):
    """Lists no objects below the name of another, as MinIO."""

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        above = ""
        for info in super().list(prefix, after=after):
            if above and info.key.startswith(above):
                continue
            above = f"{info.key}/"
            yield info


class Picky(FaultyStore):
    """Refuses names with an empty component, as MinIO; `how` is its answer."""

    how: LakeError = Refused("XMinioInvalidObjectName")

    def put(self, *arguments: Any, **options: Any) -> Version:
        if "//" in arguments[0]:
            raise self.how
        return super().put(*arguments, **options)


def test_names_that_the_store_takes_for_one_are_detected() -> None:
    found = probe(Folding())
    assert verdicts(found) == {"names": WARNING}
    assert "taken for another: x//y, x/./y, x/z/../y" in found["names"].seen
    assert "export nothing" in found["names"].fix


def test_objects_that_are_not_listed_are_detected() -> None:
    found = probe(Hiding())
    assert verdicts(found) == {"names": WARNING}
    assert "not listed: o/inner" in found["names"].seen


@pytest.mark.parametrize(
    "how", [Refused("invalid name"), denied("put"), unreachable(), ConditionFailed("in its way")]
)
def test_names_that_the_store_refuses_are_no_problem(how: LakeError) -> None:
    store = Picky()
    store.how = how
    found = probe(store)
    assert verdicts(found) == {}
    assert found["names"].seen == "refused: x//y"


# Deletions


class Careless(FaultyStore):
    """Ignores the versions of deletions, as fake-gcs-server."""

    def delete_matching(self, objects: Iterable[tuple[str, Version]]) -> Collection[str]:
        self.delete(key for key, _ in objects)
        return ()


class Reluctant(FaultyStore):
    """Deletes nothing by its version."""

    def delete_matching(self, objects: Iterable[tuple[str, Version]]) -> Collection[str]:
        return [key for key, _ in objects]


class Lacking(FaultyStore):
    delete_matching = None  # type: ignore[assignment]


def test_deletions_that_ignore_their_version_are_detected() -> None:
    found = probe(Careless())
    assert verdicts(found) == {"delete-matching": WARNING}
    assert "lease alone" in found["delete-matching"].fix


def test_deletions_that_never_match_are_detected() -> None:
    found = probe(Reluctant())
    assert verdicts(found) == {"delete-matching": FAILED}
    assert found["delete-matching"].kind is ErrorKind.REFUSED


def test_a_store_without_conditional_deletions_passes() -> None:
    found = probe(Lacking())
    assert verdicts(found) == {}
    assert "lease" in found["delete-matching"].seen


# Uploads


def test_unfinished_uploads_that_are_not_listed_are_detected() -> None:
    """MinIO lists them by prefixes that are whole keys only."""

    class Unlisted(FaultyStore):
        def uploads(self) -> MemoryUploads:
            return Silent(self, self.bucket, "ns/")

    class Silent(FaultyUploads):
        def iter_unfinished(self, prefix: str = "") -> Iterator[UnfinishedUpload]:
            return iter(())

    found = probe(Unlisted())
    assert verdicts(found) == {"multipart": WARNING}
    assert "not listed" in found["multipart"].seen
    assert "lifecycle rule" in found["multipart"].fix


NO_PARTS = Unsupported("host has no uploads in parts")


def test_large_files_are_tried_as_streams_where_there_are_no_parts() -> None:
    found = probe(FaultyStore(errors={"upload": NO_PARTS}))
    assert found["multipart"].verdict is WARNING
    assert found["multipart"].seen == NO_PARTS.message
    assert "one stream" in found["multipart"].fix


def test_large_files_that_go_neither_way_are_detected() -> None:
    class Small(FaultyStore):
        def put(self, *arguments: Any, **options: Any) -> Version:
            if not isinstance(arguments[1], bytes):
                raise Refused("invalid uploadType")
            return super().put(*arguments, **options)

    found = probe(Small(errors={"upload": NO_PARTS}))
    assert found["multipart"].verdict is FAILED
    assert found["multipart"].seen == "invalid uploadType"


def test_wrong_ranges_are_detected() -> None:
    class Rangeless(FaultyStore):
        def get(
            self, key: str, *, start: int = 0, length: int | None = None, matching: str = ""
        ) -> bytes:
            return super().get(key)

    found = probe(Rangeless())
    assert verdicts(found) == {"ranges": FAILED}


def test_accepted_damaged_parts_are_detected() -> None:
    found = probe(FaultyStore(takes_garbled=True))
    assert verdicts(found) == {"checksums": WARNING}
    assert "`fsck REPOSITORY --data`" in found["checksums"].fix


class Whole(FaultyStore):
    uploads = None  # type: ignore[assignment]


def test_a_store_without_uploads_in_parts_passes() -> None:
    assert verdicts(probe(Whole())) == {"multipart": SKIPPED, "checksums": SKIPPED}


@pytest.mark.parametrize("refuses", [True, False])
def test_checksums_are_probed_without_multipart_uploads(*, refuses: bool) -> None:
    class Checking(Whole):
        def put_garbled(self, key: str, body: bytes) -> None:
            if refuses:
                raise IntegrityError("other bytes than were sent")
            self.put(key, body, ANY)

    expected = {"multipart": SKIPPED} | ({} if refuses else {"checksums": WARNING})
    assert verdicts(probe(Checking())) == expected


# URLs and clocks


@pytest.mark.parametrize(
    ("status", "kind"),
    [(403, ErrorKind.PERMISSION), (404, ErrorKind.REFUSED), (503, ErrorKind.UNREACHABLE)],
)
def test_urls_that_do_not_work_are_detected(status: int, kind: ErrorKind) -> None:
    found = probe(FaultyStore(status=status))
    assert found["presign"].verdict is FAILED
    assert f"{status} AccessDenied" in found["presign"].seen
    assert found["presign"].kind is kind


@pytest.mark.parametrize(
    ("cors", "pages"),
    [
        ({"access-control-allow-origin": "null", "access-control-allow-methods": "put"}, "yes"),
        ({"access-control-allow-origin": "*", "access-control-allow-methods": "GET"}, "no"),
        ({"access-control-allow-origin": "https://a.example"}, "no"),
        ({}, "no"),
    ],
)
def test_a_bucket_without_a_rule_for_pages_is_well(cors: dict[str, str], pages: str) -> None:
    check = probe(FaultyStore(cors=cors))["cors"]
    assert (check.verdict, check.details) == (OK, {"pages": pages})
    assert ("help clouds" in check.seen) == (pages == "no")


def test_a_server_that_hangs_up_on_a_page_is_well() -> None:
    def fetch(url: str, *, preflight: bool = False) -> FetchedUrl:
        if preflight:
            raise Unreachable("broken")
        return store.fetch(url)

    store = FaultyStore()
    found = {
        each.name: each for each in Probe(store, lambda: NOW, lambda: bytes(16), fetch=fetch).run()
    }
    assert (found["cors"].verdict, found["cors"].details) == (OK, {"pages": "no"})


@pytest.mark.parametrize(
    ("seconds", "verdict", "told"),
    [
        (0, OK, "no difference"),
        (4, OK, "4 s ahead of"),
        (-5, OK, "4 s behind"),
        (30, WARNING, "30 s ahead of"),
        (-301, WARNING, "300 s behind"),
        (1000, FAILED, "1000 s ahead of"),
        (-1001, FAILED, "1000 s behind"),
    ],
)
@pytest.mark.parametrize("writes", [True, False])
def test_the_clock_difference_is_judged(
    seconds: int, verdict: CheckVerdict, told: str, *, writes: bool
) -> None:
    errors = {} if writes else {"put": denied("put")}
    found = probe(FaultyStore(offset=timedelta(seconds=seconds), errors=errors))
    assert found["clock"].verdict is verdict
    assert told in found["clock"].seen
    if verdict is not OK:
        assert "timedatectl" in found["clock"].fix
    if verdict is FAILED:
        assert found["clock"].kind is ErrorKind.PERMISSION


# Interruption


def test_an_unreachable_store_is_asked_once() -> None:
    store = FaultyStore(errors={"list": unreachable()})
    found = probe(store)
    assert verdicts(found) == {"reachable": FAILED} | dict.fromkeys(NAMES[2:], SKIPPED)
    assert sum(store.calls.values()) == 1


def test_a_missing_bucket_is_reported() -> None:
    store = FaultyStore(errors={"list": BucketNotFound("no such bucket", hint="make it")})
    found = probe(store)
    assert found["reachable"].kind is ErrorKind.NOT_FOUND
    assert found["reachable"].fix == "make it"
    assert found["write"].seen == "the store is not reachable"


def test_a_store_that_stops_answering_ends_the_probe() -> None:
    store = FaultyStore()
    store.errors["get"] = unreachable_from_now_on(store)
    found = probe(store)
    assert found["read"].verdict is FAILED
    assert [name for name, check in found.items() if check.verdict is SKIPPED][1:] == list(
        NAMES[5:-1]
    )
    assert {check.seen for check in found.values() if check.verdict is SKIPPED} >= {
        "the store stopped answering"
    }
    assert found["delete"].verdict is OK


def unreachable_from_now_on(store: FaultyStore) -> Callable[[], None]:
    """Return what a request raises after which the store does not list either."""

    def stop() -> None:
        store.errors["list"] = unreachable()
        raise unreachable()

    return stop


@pytest.mark.parametrize(
    "operation", ["get", "presign", "upload", "part", "complete", "unfinished"]
)
def test_a_check_without_an_answer_ends_nothing_else(operation: str) -> None:
    """A server may fail in one kind of request and answer all others."""
    found = probe(FaultyStore(errors={operation: unreachable()}))
    told = {check.seen for check in found.values()}
    assert "the store stopped answering" not in told
    well = {name for name, check in found.items() if check.verdict is OK}
    assert {"list", "write", "overwrite", "list-after-write", "delete"} <= well
    if operation != "get":
        assert {"read", "ranges", "race", "clock", "delete-matching"} <= well


def test_the_time_of_a_probe_is_limited() -> None:
    moments = iter(range(1000))

    def clock() -> datetime:
        return NOW + next(moments) * TIME_LIMIT / 12

    store = FaultyStore()
    found = probe(store, clock=clock)
    assert found["ranges"].seen == "the earlier checks took too long"
    assert found["delete"].verdict is OK
    assert store.keys == ()


def test_the_first_contact_is_a_listing_by_a_separate_store() -> None:
    first, second = FaultyStore(errors={"list": denied("list")}), FaultyStore()
    probing = make_probe(first, greet=lambda: second)
    assert next(check.verdict for check in islice(probing.run(), 2, 3)) is OK
    assert not first.calls
    assert second.calls == {"list": 1}


def test_a_denied_first_contact_counts_as_an_answer() -> None:
    def greet() -> ObjectStore:
        raise denied("HeadBucket")

    assert verdicts(probe(FaultyStore(), greet=greet)) == {}


def test_objects_of_killed_probes_are_reported() -> None:
    store = FaultyStore()
    old, young = f"{ROOT}{'a' * 32}/object", f"{ROOT}{'b' * 32}/object"
    store.put_behind_its_back(old, b"", age=timedelta(hours=2))
    store.put_behind_its_back(young, b"", age=timedelta(minutes=5))
    found = probe(store)
    assert verdicts(found) == {"list": WARNING}
    assert found["list"].fix == f"delete the objects under memory://ns/{ROOT}{'a' * 32}/"
    assert store.keys == (f"ns/{old}", f"ns/{young}")


@pytest.mark.parametrize("count", range(1, len(NAMES)))
def test_a_probe_that_ends_at_any_moment_leaves_nothing(count: int) -> None:
    store = FaultyStore()
    with closing(make_probe(store).run()) as checks:
        assert len(list(islice(checks, count))) == count
    assert store.keys == ()
    assert store.bucket.uploads == {}


@pytest.mark.parametrize("operation", ["put", "get", "part", "complete", "fetch", "delete"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_probe_cleans_up(operation: str, error: type[BaseException]) -> None:
    store = FaultyStore()
    times = iter(range(100))

    def interrupt() -> None:
        if next(times) == (0 if operation != "put" else 20):
            raise error

    store.errors[operation] = interrupt
    with pytest.raises(error):
        list(make_probe(store).run())
    assert store.keys == ()
    assert store.bucket.uploads == {}


def test_a_failed_clean_up_hides_no_error() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    store = FaultyStore(errors={"get": interrupt, "delete": unreachable()})
    with pytest.raises(KeyboardInterrupt):
        list(make_probe(store).run())


def test_an_upload_that_cannot_be_aborted_keeps_no_other() -> None:
    store = FaultyStore()
    scratch = ScratchObjects(store, "t/")
    uploads = store.uploads()
    scratch.start_upload(Mock(abort=Mock(side_effect=unreachable())), "t/a")
    scratch.start_upload(uploads, "t/b")
    store.put(scratch.key("c"), b"", ANY)

    with pytest.raises(Unreachable):
        scratch.remove()
    assert (store.bucket.uploads, store.keys) == ({}, ())


def test_every_lakecli_error_is_a_failed_check() -> None:
    class Odd(LakeError):
        kind = ErrorKind.UNEXPECTED

    found = probe(FaultyStore(errors={"get": Odd("odd")}))
    assert found["read"].kind is ErrorKind.UNEXPECTED
