"""Decide whether several machines may write to a namespace; the first clone that pushes tests it.

Sharing needs a store with compare-and-set. A store that ignores conditions sends the same responses
as a store that honours them. So the store is tested before a ref is first written to it. The
results are recorded in the namespace (`lakecli.doctor.evidence`), and each push reads them. Once
enough tests have passed, no clone tests again. After a failure no clone pushes until
`lakecli doctor --again` has passed.

If a clone sees a failure, it also records the failure in its local store, until a later command
finds the failure in the namespace: a store that failed the test may lose the record of the failure,
too. Earlier versions kept all their results in the local store; only their failures count::

    META  sharing/ ‖ repository  -> a failure as JSON, its time as unix seconds
"""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from lakecli.base import layout
from lakecli.base.retry import CLAIMS, Retries
from lakecli.doctor import checks, conditions, evidence
from lakecli.doctor.checks import BROKEN, BrokenPromise, Check, CheckVerdict, ok, skipped, warning
from lakecli.doctor.evidence import Result, SharingEvidence
from lakecli.errors import ErrorKind, LakeError, Refused, Unreachable, Unsupported
from lakecli.kv.local_store import Table
from lakecli.repository.contract import Repository
from lakecli.repository.journal.operation_log import CLOCK_FIX, CLOCK_LIMIT, wrong_by
from lakecli.stores.capabilities import access_of
from lakecli.stores.contract import ObjectStore
from lakecli.stores.uri import is_local

PROMISES: Final = ("read-after-write", "create-only", "compare-and-set", "race")
"""The checks of `lakecli.doctor.probe` that must pass before several machines may write."""


class CannotShare(Unsupported):
    """The store does not support safe writes from several machines."""


class ClockOff(Refused):
    """This machine's clock differs so much from the store's that it would mislead other clones."""


def ensure_shareable(repository: Repository) -> None:
    """Raise an error if several machines must not write to a namespace; test it if necessary.

    If enough tests are recorded, this takes one request. A test sends about 1,300 requests in at
    most `conditions.TIME_LIMIT` seconds, below a prefix that nothing else uses. Afterwards the
    objects with this prefix are removed, if deleting is allowed.

    Raises:
        CannotShare: the store ignores conditions, or a read does not return the last write. An
            earlier failure counts too, whichever clone saw it.
        ClockOff: this machine's clock is more than `CLOCK_LIMIT` from the store's.
        IntegrityError: the recorded test results are not valid.
        PermissionDenied: reading or writing is not allowed in the namespace.
        Unreachable: the store does not answer, or is too slow for the whole test; the next command
            continues the test.
    """
    store, place = repository.store, evidence.place_of(repository.store)
    known = _known(store, repository)
    wanted = conditions.RACES - known.races(place)
    if known.failure is None and wanted > 0:
        known = remember(repository, _try_out(repository, place, wanted))
    if known.failure is not None:
        what = f"{store.uri} cannot be shared: {known.failure.reason} ({known.failure.described})"
        raise CannotShare(what, hint=retest_hint(repository.uri))
    passed = known.races(place)
    if passed < conditions.RACES:
        raise Unreachable(
            f"{store.uri} is not tested enough yet: {passed} of {conditions.RACES} races of each "
            f"kind had one winner, of those that begin within {conditions.TIME_LIMIT:.0f} s",
            hint="repeat the command, which goes on with the test",
        )


def retest_hint(target: str) -> str:
    """Return a hint on what to do after a failed test."""
    again = f"once the store is mended or replaced, test it again: `doctor {target} --again`"
    return f"{checks.CONDITIONS_FIX}; {again}"


def remember(repository: Repository, result: Result) -> SharingEvidence:
    """Record a test result in the namespace; return all results recorded for it."""
    if result.reason:
        _keep(repository, result)
    known = evidence.record(repository.store, result, _retries(repository))
    if result.again and known.failure is None:
        _forget(repository)
    return known


def _retries(repository: Repository) -> Retries:
    return Retries(CLAIMS, sleep=repository.lake.runtime.sleep)


def _keep(repository: Repository, failure: Result) -> None:
    fields = {
        "reason": failure.reason,
        "at": int(failure.at.timestamp()),
        "version": 2,  # earlier versions of lakecli ignore records with another version
        "namespace": repository.record.storage_namespace,
    }
    with repository.lake.kv.write() as txn:
        txn.put(Table.META, _kept_key(repository), json.dumps(fields).encode("ascii"))


def _forget(repository: Repository) -> None:
    with repository.lake.kv.write() as txn:
        txn.delete(Table.META, _kept_key(repository))


def _known(store: ObjectStore, repository: Repository | None) -> SharingEvidence:
    """Return a namespace's recorded test results, and the failure that this clone has kept."""
    known = evidence.read_evidence(store)
    if repository is None:
        return known
    with repository.lake.kv.read() as txn:
        data = txn.get(Table.META, _kept_key(repository))
    if data is None:
        return known
    fields = json.loads(data)
    at = datetime.fromtimestamp(fields["at"], UTC)
    is_known = any((each.reason, each.at) == (fields["reason"], at) for each in known.results)
    is_here = fields["namespace"] == repository.record.storage_namespace
    if fields["reason"] and is_here and not is_known:
        failure = Result(evidence.place_of(store), fields["reason"], 0, at)
        return evidence.record(store, failure, _retries(repository))
    _forget(repository)
    return known


def check_clock(ahead: timedelta) -> None:
    """Refuse to share from a machine whose clock differs too much from the store's clock.

    Args:
        ahead: how far the store's clock is ahead of this machine's.

    Raises:
        ClockOff: the clocks differ by more than `CLOCK_LIMIT`, in either direction.
    """
    if abs(ahead) > CLOCK_LIMIT:
        raise ClockOff(wrong_by(ahead), hint=CLOCK_FIX)


def _try_out(repository: Repository, place: str, wanted: int) -> Result:
    """Test a namespace, with `wanted` races of concurrent writers of each kind."""
    runtime, store = repository.lake.runtime, repository.store
    clock = runtime.clock
    scratch = checks.ScratchObjects(store, f"{layout.DOCTOR}{runtime.new_id().hex()}/")
    try:
        before = clock()
        checks.check_write(scratch)
        after = clock()
        # A store without credentials is on this machine, and has its clock.
        if not is_local(store.uri) and access_of(store) is not None:
            written = store.head(scratch.prefix + checks.OBJECT).modified_at
            check_clock(checks.distance(written, before, after))
        try:
            checks.check_read_after_write(scratch)
            conditions.check_create_only(scratch)
            conditions.check_match(scratch)
            races = conditions.run_races(scratch, wanted, runtime.elapsed)
        except BrokenPromise as error:
            return Result(place, error.message, 0, runtime.now())
        except Unsupported as error:
            what = f"{store.uri} cannot be shared: {error.message}"
            raise CannotShare(what, hint=error.hint or checks.CONDITIONS_FIX) from error
        return Result(place, "", races.won, runtime.now())
    finally:
        scratch.remove_after_failure()  # sharing needs no permission to delete


def _kept_key(repository: Repository) -> bytes:
    return b"sharing/" + repository.key


class Examiner(NamedTuple):
    """The user and the options of one run of `lakecli doctor`.

    Attributes:
        now: returns the present time in whole seconds.
        by: who runs the command.
        again: whether the whole test is repeated; a pass then cancels an earlier failure.
    """

    now: Callable[[], datetime]
    by: str = ""
    again: bool = False

    def races(self, store: ObjectStore) -> int:
        """Return how many races of concurrent writes to run; few if enough races are recorded."""
        try:
            known = evidence.read_evidence(store)
            lacking = conditions.RACES - known.races(evidence.place_of(store))
        except LakeError:
            return conditions.RACES  # `judge` reports it
        few = min(conditions.LOOK, conditions.RACES)
        if self.again:
            return conditions.RACES
        return few if known.failure is not None else max(lacking, few)

    def result(self, store: ObjectStore, *, reason: str = "", races: int = 0) -> Result:
        """Return the test result of this run."""
        return Result(evidence.place_of(store), reason, races, self.now(), self.by, self.again)


def judge(
    found: Mapping[str, Check],
    store: ObjectStore,
    examiner: Examiner,
    repository: Repository | None,
) -> Check:
    """Return the ``sharing`` check: whether several machines may write, by this and earlier tests.

    Args:
        found: the checks so far, by name.
        examiner: the run. Its result is recorded if the namespace has a repository to which this
            version may write.
        repository: the repository of this machine, or ``None``.

    Raises:
        LakeError: the recorded results cannot be read or written.
    """
    name = "sharing"
    result, because, unknown = _result_of(found, store, examiner)
    known = _recorded(found, store, result, repository)
    if known.failure is not None:
        seen = f"no: {known.failure.reason} ({known.failure.described}); push is refused"
        fix = retest_hint(store.uri if repository is None else repository.uri)
        return warning(name, seen, fix=fix, because=because or "failure")
    if because:
        seen = f"no: {found[because].seen}; push is refused"
        return warning(name, seen, fix=checks.CONDITIONS_FIX, because=because)
    if result is None:
        return skipped(name, unknown)
    clock = found["clock"]
    if clock.verdict is CheckVerdict.FAILED:  # for a directory it is a warning
        try:
            check_clock(timedelta(seconds=int(clock.details.get("seconds", "0"))))
        except LakeError as error:
            return warning(name, f"no: {error.message}", fix=error.hint or "", because="clock")
    races = max(known.races(result.place), result.races)
    shown = f"{races} races of each kind had one winner"
    if races < conditions.RACES:
        seen = f"unknown: {shown}, of {conditions.RACES} that are wanted"
        return warning(name, seen, fix="repeat the command, which goes on with the test")
    return ok(name, f"several machines may write here: {shown}", races=str(races))


def _result_of(
    found: Mapping[str, Check], store: ObjectStore, examiner: Examiner
) -> tuple[Result | None, str, str]:
    """Return a run's result, the name of a failed check, and the reason if there is no result."""
    for check in (found[promise] for promise in PROMISES):
        if check.kind is ErrorKind.REFUSED:
            reason = check.details.get(BROKEN)
            return examiner.result(store, reason=reason) if reason else None, check.name, ""
        if check.verdict in (CheckVerdict.FAILED, CheckVerdict.SKIPPED):
            return None, "", f"unknown, see {check.name}"
    return examiner.result(store, races=int(found["race"].details["races"])), "", ""


def _recorded(
    found: Mapping[str, Check],
    store: ObjectStore,
    result: Result | None,
    repository: Repository | None,
) -> SharingEvidence:
    """Record a result in the namespace if it adds information; return all recorded results."""
    claim, shared = found["claim"], found["shared"]
    if claim.verdict is not CheckVerdict.OK or "uuid" not in claim.details:
        return SharingEvidence()  # the namespace has no owner, or another one
    if shared.verdict is not CheckVerdict.OK:
        return evidence.read_evidence(store)
    if result is None or not (result.again or result.reason):
        known = _known(store, repository)
        if result is None or known.races(result.place) >= conditions.RACES:
            return known
    return evidence.record(store, result) if repository is None else remember(repository, result)
