"""Checks of `lakecli doctor` around the namespace: local store, cache, disks, owner."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from lakecli.base.ids import WriteId
from lakecli.base.layout import SHARING, pack_key, ref_key
from lakecli.base.model import RefKind
from lakecli.base.retry import REF_MOVES, Retries
from lakecli.cli.context import random_id, system_now
from lakecli.doctor import conditions, probe
from lakecli.doctor.checks import Check, CheckVerdict, failed, ok, skipped, warning
from lakecli.doctor.evidence import read_evidence
from lakecli.errors import ErrorKind, LakeError, NotFound, Refused, UsageError
from lakecli.refs.ref_store import RefStore
from lakecli.remote.packs import write_pack
from lakecli.remote.refs import Intent
from lakecli.repository import doctor
from lakecli.repository.handle.shareable import CannotShare, Examiner, ensure_shareable
from lakecli.repository.runtime import Home, Runtime
from lakecli.stores.contract import ANY
from lakecli.stores.local.store import DirectoryStore
from tests.remote.chains import move_ref
from tests.support.faulty import NOW, FaultyStore, denied
from tests.support.lakes import serve, through
from tests.support.memory_store import MemoryStore
from tests.support.stores import get_branch

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.repository.contract import Repository
    from lakecli.repository.handle.lake import Lake

pytestmark = pytest.mark.races

LOCAL_NAMES = ("compiled-core", "local-store", "map", "cache", "disk-space")
ALL_NAMES = (*LOCAL_NAMES, *probe.NAMES, *doctor.TRAILING, doctor.OUTSIDE)
ELSEWHERE = {"multipart", "checksums", "presign", "cors", "to-presign"}
"""Checks that a directory skips."""

RUNTIME = Runtime(system_now, random_id)


EXAMINER = Examiner(RUNTIME.now)


def plenty(_: str) -> int:
    return 10**12


@pytest.fixture(autouse=True)
def large_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "free_space", plenty)


def of_repository(
    lake: Lake, *, name: str = "demo", free_space: Callable[[str], int] = plenty
) -> dict[str, Check]:
    examination = doctor.examine_repository(name, lambda: lake, lake.home, RUNTIME, EXAMINER)
    with patch.object(doctor, "free_space", free_space):
        found = {check.name: check for check in examination.checks}
    assert tuple(found) == ALL_NAMES
    return found


def of_namespace(namespace: Path, *, free_space: Callable[[str], int] = plenty) -> dict[str, Check]:
    examination = doctor.examine_namespace(f"local://{namespace}", RUNTIME, EXAMINER)
    assert examination.namespace == f"local://{namespace}"
    with patch.object(doctor, "free_space", free_space):
        found = {check.name: check for check in examination.checks}
    assert tuple(found) == ("disk-space", *probe.NAMES, *doctor.TRAILING)
    return found


def not_well(found: dict[str, Check]) -> dict[str, CheckVerdict]:
    return {
        name: check.verdict
        for name, check in found.items()
        if check.verdict is not CheckVerdict.OK and name not in ELSEWHERE
    }


def test_a_healthy_repository_has_no_problems(lake: Lake, repository: Repository) -> None:
    found = of_repository(lake)
    assert not_well(found) == {}
    assert found["claim"].details == {"uuid": repository.record.uuid}
    assert found["local-store"].seen == f"schema version 1, {lake.home.store}"
    assert doctor.problem_of(list(found.values())) is None
    assert doctor.verdict_of(found.values()) is CheckVerdict.OK


def test_an_unknown_repository_is_not_found(lake: Lake) -> None:
    with pytest.raises(NotFound, match="no repository 'demo'"):
        of_repository(lake)


def test_a_local_store_that_does_not_open_is_reported(tmp_path: Path) -> None:
    def refuse() -> Lake:
        raise Refused("the local store was written by a newer lakecli", hint="upgrade lakecli")

    home = Home(tmp_path / "store", tmp_path / "cache")
    examination = doctor.examine_repository("demo", refuse, home, RUNTIME, EXAMINER)
    assert examination.namespace is None
    found = {check.name: check for check in examination.checks}
    assert tuple(found) == ALL_NAMES
    assert found["local-store"].kind is ErrorKind.REFUSED
    assert found["local-store"].fix == "upgrade lakecli"
    assert found["cache"].verdict is found["disk-space"].verdict is CheckVerdict.OK
    assert {found[name].verdict for name in ("map", *probe.NAMES, *doctor.TRAILING)} == {
        CheckVerdict.SKIPPED
    }


@pytest.mark.parametrize(
    ("used", "verdict"),
    [(79, CheckVerdict.OK), (80, CheckVerdict.WARNING), (100, CheckVerdict.WARNING)],
)
def test_a_map_that_fills_up_is_reported(
    lake: Lake,
    repository: Repository,
    used: int,
    verdict: CheckVerdict,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del repository
    monkeypatch.setattr(type(lake.kv), "usage", lambda _: (used, 100))
    found = of_repository(lake)
    assert found["map"].verdict is verdict
    assert found["map"].details == {"used": str(used), "size": "100"}


def test_an_unwritable_cache_is_reported(lake: Lake, repository: Repository) -> None:
    del repository
    Path(lake.home.cache).write_text("in the way")
    found = of_repository(lake)
    assert not_well(found) == {"cache": CheckVerdict.WARNING}
    assert str(lake.home.cache) in found["cache"].seen
    assert "LAKECLI_HOME" in found["cache"].fix


@pytest.mark.parametrize(
    ("free", "verdict"),
    [
        (10**9, CheckVerdict.OK),
        (10**9 - 1, CheckVerdict.WARNING),
        (10**8, CheckVerdict.WARNING),
        (10**8 - 1, CheckVerdict.FAILED),
    ],
)
@pytest.mark.parametrize("full", ["store", "cache", "namespace"])
def test_a_full_disk_is_reported(
    lake: Lake, repository: Repository, full: str, free: int, verdict: CheckVerdict
) -> None:
    del repository

    def free_space(place: str) -> int:
        return free if place.endswith(f"/{full}") else 10**12

    Path(lake.home.cache).mkdir()
    found = of_repository(lake, free_space=free_space)
    assert found["disk-space"].verdict is verdict
    if verdict is not CheckVerdict.OK:
        assert f"/{full}" in found["disk-space"].seen
    if verdict is CheckVerdict.FAILED:
        assert found["disk-space"].kind is ErrorKind.UNREACHABLE


def test_a_disk_that_does_not_tell_its_space_is_no_problem(
    lake: Lake, repository: Repository
) -> None:
    del repository

    def free_space(place: str) -> int:
        if place.endswith("namespace"):
            raise PermissionError
        return 10**12

    found = of_repository(lake, free_space=free_space)
    assert found["disk-space"].verdict is CheckVerdict.OK

    def refuse(_: str) -> int:
        raise PermissionError

    assert not_well(of_repository(lake, free_space=refuse)) == {"disk-space": CheckVerdict.SKIPPED}


# Namespaces


def test_an_unused_directory_is_accepted(tmp_path: Path) -> None:
    namespace = tmp_path / "namespace"
    namespace.mkdir()
    found = of_namespace(namespace)
    assert not_well(found) == {"shared": CheckVerdict.SKIPPED}
    assert "free" in found["claim"].seen
    assert list(namespace.rglob("*")) == []


def test_a_missing_directory_is_made_by_repo_create(tmp_path: Path) -> None:
    asked: list[str] = []

    def free_space(place: str) -> int:
        asked.append(place)
        return 10**12

    found = of_namespace(tmp_path / "no" / "such", free_space=free_space)
    assert asked == [str(tmp_path)]
    assert found["reachable"].kind is ErrorKind.NOT_FOUND
    assert "lakecli repo create lakefs://NAME" in found["reachable"].fix
    assert found["claim"].verdict is CheckVerdict.SKIPPED
    assert list(tmp_path.iterdir()) == []


def test_the_missing_directory_of_a_repository_should_be_mounted(
    lake: Lake, repository: Repository, tmp_path: Path
) -> None:
    del repository
    (tmp_path / "namespace").rename(tmp_path / "elsewhere")
    found = of_repository(lake)
    assert found["reachable"].kind is ErrorKind.NOT_FOUND
    assert "mount the disk" in found["reachable"].fix


def test_a_directory_in_use_is_reported(lake: Lake, repository: Repository, tmp_path: Path) -> None:
    del lake
    found = of_namespace(tmp_path / "namespace")
    assert not_well(found) == {}
    assert found["claim"].details == {"uuid": repository.record.uuid}


def test_a_directory_that_lakefs_uses_is_reported(tmp_path: Path) -> None:
    DirectoryStore(str(tmp_path)).put("_lakefs/dummy", b"", ANY)
    found = of_namespace(tmp_path)
    assert not_well(found) == {"claim": CheckVerdict.WARNING, "shared": CheckVerdict.SKIPPED}
    assert "lakeFS" in found["claim"].seen


def test_a_malformed_namespace_is_refused() -> None:
    with pytest.raises(UsageError):
        doctor.examine_namespace("ftp://host", RUNTIME, EXAMINER)


# Ownership


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        (b'{"uuid": "00112233445566778899aabbccddeeff"}', ErrorKind.REFUSED),
        (b"garbage", ErrorKind.INTEGRITY),
        (None, ErrorKind.INTEGRITY),
    ],
)
def test_a_namespace_that_another_repository_took_is_reported(
    lake: Lake, repository: Repository, document: bytes | None, kind: ErrorKind
) -> None:
    if document is None:
        repository.store.delete(["_lakecli/repository.json"])
    else:
        repository.store.put("_lakecli/repository.json", document, ANY)
    found = of_repository(lake)
    skipped = dict.fromkeys(("shared", "outside"), CheckVerdict.SKIPPED)
    assert not_well(found) == {"claim": CheckVerdict.FAILED, **skipped}
    assert found["claim"].kind is kind
    assert found["claim"].fix


# Shared refs, and permissions


def with_store(repository: Repository, **settings: Any) -> FaultyStore:
    """Give a repository a store in memory, claimed by it."""
    store = FaultyStore(**settings)
    document = through(repository).store.get("_lakecli/repository.json")
    MemoryStore(store.bucket, "ns/").put("_lakecli/repository.json", document, ANY)
    serve(repository, store)
    return store


def looked_at(
    repository: Repository, store: FaultyStore, *, again: bool = False
) -> dict[str, Check]:
    lake = repository.lake
    runtime = Runtime(lambda: NOW, random_id)

    class Known:
        """A lake that knows this repository object."""

        kv, home = lake.kv, lake.home

        def repository(self, _: str) -> Repository:
            return repository

    known: Any = Known()
    examiner = Examiner(runtime.now, "ada", again)
    examination = doctor.examine_repository("demo", lambda: known, lake.home, runtime, examiner)
    with patch.object(probe, "fetch", lambda url, access, **options: store.fetch(url, **options)):
        return {check.name: check for check in examination.checks}


def allowed(found: dict[str, Check]) -> dict[str, str]:
    """Return the missing permissions of each group of commands."""
    return {
        purpose.name: found[purpose.name].details.get("lacks", "not known")
        for purpose in doctor.PURPOSES
    }


def test_a_store_that_allows_everything_passes(repository: Repository) -> None:
    found = looked_at(repository, with_store(repository))
    assert set(allowed(found).values()) == {""}
    assert found["sharing"].verdict is found["shared"].verdict is CheckVerdict.OK
    assert "nothing has been pushed" in found["shared"].seen


@pytest.mark.parametrize(
    ("operation", "lacks"),
    [
        ("delete", {"to-collect": "delete", "to-take-in": "delete"}),
        (
            "list",
            dict.fromkeys(("to-clone", "to-change", "to-take-in", "to-push", "to-collect"), "list"),
        ),
        ("presign", {"to-presign": "presign"}),
        ("put", dict.fromkeys(("to-change", "to-take-in", "to-push", "to-collect"), "write")),
    ],
)
def test_a_missing_permission_is_named(
    repository: Repository, operation: str, lacks: dict[str, str]
) -> None:
    store = with_store(repository, errors={operation: denied(operation)})
    found = looked_at(repository, store)
    for name, need in lacks.items():
        assert found[name].verdict is CheckVerdict.WARNING
        assert need in found[name].details["lacks"].split(", ")
        assert found[name].fix.startswith(f"grant test:{operation}")
        assert found[name].details["commands"] in found[name].seen
    told = {name for name, lack in allowed(found).items() if lack}
    assert told - {"to-presign"} == set(lacks) - {"to-presign"}


def test_a_failure_ends_only_by_the_word_of_somebody(repository: Repository) -> None:
    store = with_store(repository, ignores=frozenset({"Match"}))
    found = looked_at(repository, store)
    assert found["sharing"].verdict is CheckVerdict.WARNING
    assert found["sharing"].details == {"because": "compare-and-set"}
    assert "ignores conditions" in found["sharing"].seen
    assert "one machine at a time" in found["sharing"].fix
    store.calls.clear()
    with pytest.raises(CannotShare, match=r"ignores conditions \(2026-03-01 12:00 UTC by ada\)"):
        ensure_shareable(repository)
    assert store.calls == {"get": 1}

    store.ignores = frozenset()
    found = looked_at(repository, store)
    assert found["race"].verdict is CheckVerdict.OK
    assert found["sharing"].verdict is found["to-push"].verdict is CheckVerdict.WARNING
    assert "2026-03-01 12:00 UTC by ada" in found["sharing"].seen
    assert f"`doctor {repository.uri} --again`" in found["sharing"].fix
    with pytest.raises(CannotShare):
        ensure_shareable(repository)

    found = looked_at(repository, store, again=True)
    assert found["sharing"].verdict is CheckVerdict.OK
    *_, last = read_evidence(store).results
    assert (last.by, last.at, last.again, last.races) == ("ada", NOW, True, conditions.RACES)
    ensure_shareable(repository)


def test_a_failure_is_not_ended_by_a_test_that_fails(repository: Repository) -> None:
    store = with_store(repository, ignores=frozenset({"ABSENT"}))
    for again in (False, True):
        assert "push is refused" in looked_at(repository, store, again=again)["sharing"].seen
    store.errors["put"] = denied("put")
    store.ignores = frozenset()
    found = looked_at(repository, store, again=True)
    assert found["sharing"].details == {"because": "failure"}


def test_a_failure_that_the_namespace_lost_is_known_to_who_saw_it(repository: Repository) -> None:
    store = with_store(repository, ignores=frozenset({"ABSENT"}))
    looked_at(repository, store)
    store.delete([SHARING])
    store.ignores = frozenset()
    assert looked_at(repository, store)["sharing"].details == {"because": "failure"}
    store.delete([SHARING])
    assert looked_at(repository, store, again=True)["sharing"].verdict is CheckVerdict.OK
    ensure_shareable(repository)
    assert looked_at(repository, store)["sharing"].verdict is CheckVerdict.OK


def test_a_recorded_pass_saves_races_and_is_not_written_again(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditions, "LOOK", 2)
    store = with_store(repository)
    races = [looked_at(repository, store)["race"].details["races"] for _ in range(2)]
    assert races == ["4", "2"]
    assert [each.races for each in read_evidence(store).results] == [4]
    found = looked_at(repository, store)["sharing"]
    assert found.details == {"races": "4"}
    ensure_shareable(repository)


def test_a_fault_is_found_by_the_few_races_after_a_pass(repository: Repository) -> None:
    store = with_store(repository)
    looked_at(repository, store)
    store.ignores = frozenset({"ABSENT"})
    assert looked_at(repository, store)["sharing"].details == {"because": "create-only"}
    with pytest.raises(CannotShare):
        ensure_shareable(repository)


def test_a_test_that_ran_out_of_time_goes_on(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = with_store(repository)
    with monkeypatch.context() as patch:
        patch.setattr(conditions, "TIME_LIMIT", -1.0)
        found = looked_at(repository, store)
    assert found["race"].verdict is found["sharing"].verdict is CheckVerdict.WARNING
    assert "0 races of each kind" in found["sharing"].seen
    assert looked_at(repository, store)["sharing"].verdict is CheckVerdict.OK


def test_results_that_are_not_valid_are_named_and_replaced_by_a_new_test(
    repository: Repository,
) -> None:
    store = with_store(repository)
    store.put(SHARING, b"passed", ANY)
    found = looked_at(repository, store)["sharing"]
    assert (found.verdict, found.kind) == (CheckVerdict.FAILED, ErrorKind.INTEGRITY)
    assert "_lakecli/sharing.json does not hold" in found.seen
    assert found.fix.endswith("--again`")
    assert looked_at(repository, store, again=True)["sharing"].verdict is CheckVerdict.OK
    ensure_shareable(repository)


def test_what_is_not_this_repository_gets_no_record(repository: Repository) -> None:
    store = with_store(repository)
    other = {"uuid": "00112233445566778899aabbccddeeff"}
    store.put("_lakecli/repository.json", json.dumps(other).encode(), ANY)
    looked_at(repository, store, again=True)
    assert read_evidence(store).results == ()


def test_a_repository_of_a_newer_lakecli_gets_no_record(repository: Repository) -> None:
    store = with_store(repository)
    document = json.loads(store.get("_lakecli/repository.json"))
    store.put(
        "_lakecli/repository.json", json.dumps({**document, "needs_write": ["x:2"]}).encode(), ANY
    )
    looked_at(repository, store, again=True)
    assert read_evidence(store).results == ()


def test_a_namespace_without_a_name_here_gets_the_record_too(
    lake: Lake, repository: Repository, tmp_path: Path
) -> None:
    del lake
    of_namespace(tmp_path / "namespace")
    assert [each.races for each in read_evidence(repository.store).results] == [4]
    ensure_shareable(repository)


def test_uploads_in_parts_that_fail_are_named_where_commands_are(repository: Repository) -> None:
    """What is called allowed works: a server may refuse every large file, and take small ones."""
    error = Refused("invalid uploadType", hint="use another server")
    found = looked_at(repository, with_store(repository, errors={"upload": error}))
    assert found["multipart"].verdict is CheckVerdict.FAILED
    assert found["to-change"].verdict is CheckVerdict.WARNING
    assert "files of more than 8 MiB cannot be uploaded" in found["to-change"].seen
    assert found["to-change"].fix == "use another server"
    assert found["to-push"].verdict is CheckVerdict.OK


def test_a_wrong_clock_forbids_sharing(repository: Repository) -> None:
    found = looked_at(repository, with_store(repository, offset=timedelta(days=1)))
    assert found["clock"].verdict is CheckVerdict.FAILED
    assert found["sharing"].details == {"because": "clock"}
    assert "24 hours" in found["sharing"].seen


def test_shared_refs_and_packs_are_read(repository: Repository) -> None:
    store = with_store(repository)
    good = MemoryStore(store.bucket, "ns/")
    with repository.lake.kv.read() as txn:
        refs = RefStore(txn, repository.key)
        commit = refs.get_commit(get_branch(refs, "main").commit_id)
    pack = write_pack(good, [commit])
    intent = Intent(
        RefKind.BRANCH, "main", WriteId("ab" * 16), None, commit.id, "ada", NOW, "push", pack
    )
    move_ref(good, intent, retries=Retries(REF_MOVES, sleep=lambda _: None))
    found = looked_at(repository, store)["shared"]
    assert found.verdict is CheckVerdict.OK
    assert found.details == {"refs": "1", "packs": "1"}
    good.put(ref_key(RefKind.BRANCH, "main"), b"garbage", ANY)
    found = looked_at(repository, store)["shared"]
    assert found.kind is ErrorKind.INTEGRITY
    good.delete([ref_key(RefKind.BRANCH, "main")])
    good.put(pack_key(pack), b"garbage", ANY)
    found = looked_at(repository, store)["shared"]
    assert found.kind is ErrorKind.INTEGRITY


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({"needs_write": ["x:2"]}, CheckVerdict.WARNING),
        ({"needs_read": ["x:2"]}, CheckVerdict.FAILED),
        ({"format": 9}, CheckVerdict.FAILED),
    ],
)
def test_a_repository_of_a_newer_lakecli_is_reported(
    repository: Repository, fields: dict[str, Any], verdict: CheckVerdict
) -> None:
    store = with_store(repository)
    document = {**json.loads(store.get("_lakecli/repository.json")), **fields}
    store.put("_lakecli/repository.json", json.dumps(document).encode(), ANY)
    found = looked_at(repository, store)["shared"]
    assert found.verdict is verdict
    assert found.fix == "upgrade lakecli"


# All checks together


def of_kind(kind: ErrorKind, name: str = "x") -> Check:
    family = next(family for family in doctor.FAMILIES if family.kind is kind)
    return failed(name, family("what", hint=f"fix of {name}"))


def test_every_family_has_its_rank() -> None:
    of_runs = {ErrorKind.JOB, ErrorKind.CHECK, ErrorKind.HOOK}  # which no check of doctor raises
    assert {family.kind for family in doctor.FAMILIES} == set(ErrorKind) - of_runs
    assert doctor.FAMILIES[-1] is LakeError


@pytest.mark.parametrize("better", range(len(doctor.FAMILIES) - 1))
def test_the_most_serious_failure_names_the_problem(better: int) -> None:
    kinds = [family.kind for family in doctor.FAMILIES]
    checks = [ok("a", ""), of_kind(kinds[better + 1], "b"), of_kind(kinds[better], "c")]
    problem = doctor.problem_of(checks)
    assert problem is not None
    assert problem.kind is kinds[better]
    assert problem.message == "2 of 3 checks failed: b, c"
    assert problem.hint == "fix of c"


def test_a_check_that_did_not_fail_is_no_problem() -> None:
    checks = [ok("a", ""), warning("b", "", fix="do"), skipped("c", "why")]
    assert doctor.problem_of(checks) is None
    assert doctor.verdict_of(checks) is CheckVerdict.WARNING
    assert doctor.verdict_of([*checks, of_kind(ErrorKind.REFUSED)]) is CheckVerdict.FAILED
    assert doctor.verdict_of([skipped("c", "why")]) is CheckVerdict.OK
