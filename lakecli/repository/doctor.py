"""Check this machine and a storage namespace, and report which commands can work.

The package `lakecli.doctor` checks any store, with or without a repository. This module adds the
checks that need a lake: the local store, the cache and the disks, the owner of the namespace, and
the refs and packs that clones share in the namespace.
"""

import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from pathlib import Path
from shutil import disk_usage
from tempfile import TemporaryFile
from typing import Final, NamedTuple

from lakecli import errors, native
from lakecli.base import layout
from lakecli.base.directories import make_private
from lakecli.base.model import NO_METADATA, Account
from lakecli.committed.cache import kept_reads, reads_text, size_of
from lakecli.doctor import probe
from lakecli.doctor.checks import Check, CheckVerdict, failed, ok, skipped, warning
from lakecli.doctor.demands import Remedies
from lakecli.kv.lmdb_environment import SCHEMA_VERSION
from lakecli.remote.packs import list_packs, read_pack
from lakecli.remote.refs import find_ref, iter_refs
from lakecli.repository.contract import Repository
from lakecli.repository.handle.lake import Lake
from lakecli.repository.handle.namespace import describe, owner_of
from lakecli.repository.handle.shareable import Examiner, judge
from lakecli.repository.reading.addresses import bucket_of, trust_of
from lakecli.repository.reading.outside_counts import allowable, look
from lakecli.repository.runtime import Home, Runtime
from lakecli.stores.capabilities import PART_SIZE
from lakecli.stores.contract import ObjectStore, exists
from lakecli.stores.uri import is_local, parse

LOW_SPACE: Final = 10**9
"""Free bytes on a disk below which the check is a warning."""

NO_SPACE: Final = 10**8
"""Free bytes on a disk below which the check fails."""

FULL_MAP: Final = 0.8
"""The used share of the local store's memory map above which the check is a warning."""


FAMILIES: Final[tuple[type[errors.LakeError], ...]] = (
    errors.Unreachable,
    errors.NotFound,
    errors.PermissionDenied,
    errors.IntegrityError,
    errors.Refused,
    errors.UsageError,
    errors.ConflictError,
    errors.LostRace,
    errors.OutcomeUnknown,
    errors.PartialFailure,
    errors.NothingToDo,
    errors.LakeError,
)
"""Kinds of errors, the most serious first: only the most serious one is raised."""


class Purpose(NamedTuple):
    """A group of commands, and the checks that they need.

    Attributes:
        name: the name of the check that reports whether the commands can work.
        needs: the names of the checks that must not have failed.
        commands: the commands, as shown to users.
        parts: a map from the name of another check to the feature that does not work if that check
            has failed.
    """

    name: str
    needs: tuple[str, ...]
    commands: str
    parts: Mapping[str, str] = NO_METADATA


PURPOSES: Final = (
    Purpose("to-read", ("read",), "fs cat, fs download, fs ls, diff, log"),
    Purpose("to-clone", ("read", "list"), "clone, fetch, pull, reflog, fsck"),
    Purpose("to-presign", ("read", "presign"), "fs presign"),
    Purpose(
        "to-change",
        ("read", "list", "write"),
        "fs upload, commit, merge, revert, import",
        {"multipart": f"files of more than {PART_SIZE >> 20} MiB cannot be uploaded"},
    ),
    Purpose("to-take-in", ("read", "list", "write", "delete"), "fs stage --incoming"),
    Purpose("to-push", ("read", "list", "write", "overwrite", "sharing"), "push, undo, sync auto"),
    Purpose(
        "to-collect",
        ("read", "list", "write", "overwrite", "delete", "delete-matching", "sharing"),
        "gc run",
    ),
)
"""The groups of commands; each group has its own check, after all other checks."""


TRAILING: Final = ("claim", "shared", "sharing", *(purpose.name for purpose in PURPOSES))
"""The checks that come after those of the probe."""

OUTSIDE: Final = "outside"
"""The last check of a repository: its objects outside the namespace."""

WIDTH: Final = max(map(len, (*probe.NAMES, *TRAILING)))
"""Length of the longest name of a check, in characters."""

_REFS_READ: Final = 8
"""Maximum number of refs that are read from the bucket."""

_RANGES_READ: Final = 8
"""Maximum number of ranges that are read to find objects outside the namespace."""

_SHOWN: Final = 5

_NO_NAMESPACE: Final = "only the local store knows the storage namespace"


class Examination(NamedTuple):
    """The checks of one run of `lakecli doctor`.

    Attributes:
        namespace: the storage namespace, or ``None`` if unknown.
        checks: a generator; each step runs one check, and closing it removes test objects.
    """

    namespace: str | None
    checks: Generator[Check]


def examine_namespace(namespace: str, runtime: Runtime, examiner: Examiner) -> Examination:
    """Check a storage namespace, with or without a repository in it.

    Args:
        namespace: the normalised URI of the namespace.
        runtime: opens the store, and has the clock and the random IDs that the checks use.

    Raises:
        UsageError: a malformed URI or an unsupported scheme.
    """
    runtime = runtime.for_repository(namespace)
    store = runtime.open_store(namespace, "")
    greet = None if is_local(namespace) else lambda: runtime.find_store(namespace)[0]
    looking = _probe(store, runtime, namespace, namespace, examiner, greet=greet)

    def checks() -> Generator[Check]:
        if is_local(namespace):
            yield disk_space([parse(namespace).path])
        yield from _with_claim(looking, None, examiner)

    return Examination(namespace, checks())


def examine_repository(
    name: str, open_lake: Callable[[], Lake], home: Home, runtime: Runtime, examiner: Examiner
) -> Examination:
    """Check a repository of this machine: its namespace and its local state.

    Args:
        open_lake: opens the local store, which may fail.
        runtime: has the clock and the random IDs that the checks use.

    Raises:
        NotFound: the local store opens and has no such repository.
    """
    places = [str(home.store), str(home.cache)]
    try:
        lake = open_lake()
    except errors.LakeError as error:
        return Examination(None, _without_store(error, home, places))
    repository = lake.repository(name)
    namespace = repository.record.storage_namespace
    if is_local(namespace):
        places.append(parse(namespace).path)

    def checks() -> Generator[Check]:
        used, size = lake.kv.usage()
        yield compiled_core()
        yield ok("local-store", f"schema version {SCHEMA_VERSION}, {home.store}")
        yield memory_map(used, size)
        used_by = "" if is_local(namespace) else repository.record.uuid
        yield cache(Path(home.cache), used_by=used_by, limit=home.cache_size)
        yield disk_space(places)
        looking = _probe(repository.store, runtime, repository.name, namespace, examiner)
        verdicts: dict[str, CheckVerdict] = {}
        for check in _with_claim(looking, repository, examiner):
            verdicts[check.name] = check.verdict
            yield check
        is_readable = verdicts["read"] is verdicts["claim"] is CheckVerdict.OK
        yield _outside(repository) if is_readable else skipped(OUTSIDE, "nothing can be read")

    return Examination(namespace, checks())


def _probe(
    store: ObjectStore,
    runtime: Runtime,
    name: str,
    namespace: str,
    examiner: Examiner,
    *,
    greet: Callable[[], ObjectStore] | None = None,
) -> probe.Probe:
    """Return a probe that checks a store with the account of a repository or namespace."""

    def reopen(account: Account) -> ObjectStore:
        trying = runtime._replace(account=lambda _: account).for_repository(name)
        return trying.find_store(namespace)[0]

    account = runtime.account(name)
    return probe.Probe(
        store,
        runtime.clock,
        runtime.new_id,
        fetch=partial(probe.fetch, access=account),
        greet=greet,
        remedies=Remedies(bucket_of(namespace), account, reopen),
        races=examiner.races,
    )


def _without_store(error: errors.LakeError, home: Home, places: list[str]) -> Generator[Check]:
    yield compiled_core()
    yield failed("local-store", error)
    yield skipped("map", "the local store does not open")
    yield cache(Path(home.cache))
    yield disk_space(places)
    for name in (*probe.NAMES, *TRAILING, OUTSIDE):
        yield skipped(name, _NO_NAMESPACE)


def compiled_core() -> Check:
    """Check whether the compiled core is used for bulk work."""
    name, problem = "compiled-core", native.problem()
    if not problem:
        return ok(name, "used")
    if problem == native.MISSING:
        return ok(name, f"not used: {problem}; bulk work takes longer, with the same results")
    return warning(name, f"not used: {problem}", fix="install this version of lakecli again")


def memory_map(used: int, size: int) -> Check:
    """Check how full the memory map of the local store is."""
    seen = f"{_shown(used)} of {_shown(size)} used"
    details = {"used": str(used), "size": str(size)}
    if used < size * FULL_MAP:
        return ok("map", seen, **details)
    return warning("map", seen, fix="raise the limit of address space (ulimit -v)", **details)


def cache(directory: Path, *, used_by: str = "", limit: int = 0) -> Check:
    """Check that the cache directory is writable, and report how a repository uses it.

    Args:
        directory: the directory with the caches of all repositories.
        used_by: the UUID of the repository; ``""`` if it caches nothing.
        limit: bytes that the repository may use.
    """
    try:
        make_private(directory)
        with TemporaryFile(dir=directory) as file:
            file.write(b"can be written")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        seen = f"{reason}: {directory}; nothing is cached, so each read goes to the namespace"
        fix = "make the directory writable, or set LAKECLI_HOME to one that is"
        return warning("cache", seen, fix=fix)
    if not used_by:
        return ok("cache", str(directory))

    used, reads = size_of(directory / used_by), kept_reads(directory / used_by)
    room = f"{_shown(used)} of {_shown(limit)} used"
    seen = f"{directory}, {room}; reads of trees: {reads_text(reads)}"
    details = {"used": str(used), "limit": str(limit)}
    details |= {tier: str(count) for tier, count in reads.items()}
    return ok("cache", seen, **details)


def disk_space(places: Iterable[str]) -> Check:
    """Check the disks of several directories; report the disk with the fewest free bytes."""
    measured = []
    for place in places:
        with suppress(OSError):
            measured.append((free_space(_existing(place)), place))
    if not measured:
        return skipped("disk-space", "the free space is unknown")
    free, place = min(measured)
    seen = f"{_shown(free)} free on the disk of {place}"
    fix = "free some space there"
    if free < NO_SPACE:
        return failed("disk-space", errors.Unreachable(f"only {seen}", hint=fix), free=str(free))
    if free < LOW_SPACE:
        return warning("disk-space", f"only {seen}", fix=fix, free=str(free))
    return ok("disk-space", seen, free=str(free))


def free_space(directory: str) -> int:
    """Return the number of free bytes on the disk of a directory; tests replace this function."""
    return disk_usage(directory).free


def _existing(place: str) -> str:
    """Return a directory if it exists, or else the nearest existing directory above it."""
    while not os.path.isdir(place) and place != "/":  # noqa: PTH112 - namespaces are text
        place = os.path.dirname(place)  # noqa: PTH120 - as above
    return place


def _shown(size: int) -> str:
    return f"{size / 10**9:,.1f} GB" if size >= 10**9 else f"{size / 10**6:.1f} MB"


def _with_claim(
    looking: probe.Probe, repository: Repository | None, examiner: Examiner
) -> Generator[Check]:
    """Yield the checks of a store, then of its owner, its refs, sharing, and groups of commands.

    Args:
        repository: the expected owner of the namespace. ``None``: the namespace may have no owner,
            and a directory that `lakecli repo create` would make may be missing.
        examiner: the run of `lakecli doctor`. The result of the sharing check is recorded in the
            namespace if the namespace has a repository to which this version may write.
    """
    claim = _claim_of_anybody if repository is None else partial(_claim_of, repository)
    missing_fix = _made_by_create(looking.store.uri) if repository is None else ""
    found: dict[str, Check] = {}
    for check in looking.run():
        if missing_fix and check.name == "reachable" and check.kind is errors.ErrorKind.NOT_FOUND:
            check = check._replace(fix=missing_fix)  # noqa: PLW2901 - the same check with a better fix
        found[check.name] = check
        yield check
    obstacle = "" if found["read"].verdict is CheckVerdict.OK else "nothing can be read"
    for name, try_it in (("claim", claim), ("shared", _shared)):
        try:
            found[name] = skipped(name, obstacle) if obstacle else try_it(looking.store)
        except errors.LakeError as error:
            found[name] = failed(name, error)
            obstacle = "it needs a check that failed: claim"
        yield found[name]
    try:
        found["sharing"] = judge(found, looking.store, examiner, repository)
    except errors.LakeError as error:
        found["sharing"] = failed("sharing", error)
    yield found["sharing"]
    for purpose in PURPOSES:
        yield check_purpose(purpose, found)


def _claim_of_anybody(store: ObjectStore) -> Check:
    owner = owner_of(store)
    if owner is not None:
        return ok("claim", f"belongs to repository {owner}", uuid=owner)
    if not exists(store, layout.LAKEFS_MARKER):
        return ok("claim", "free: `lakecli repo create` may take it")
    fix = "use another prefix; `lakecli repo create` refuses this one"
    return warning("claim", f"a lakeFS lives here (found {layout.LAKEFS_MARKER})", fix=fix)


def _made_by_create(namespace: str) -> str:
    how = f"`lakecli repo create lakefs://NAME {namespace}` makes the directory"
    hint = f"{how}; if it should be there already, mount the disk that holds it"
    return hint if is_local(namespace) else ""


def _claim_of(repository: Repository, store: ObjectStore) -> Check:
    owner = owner_of(store)
    if owner == repository.record.uuid:
        return ok("claim", "belongs to this repository", uuid=owner)
    if owner is None:
        hint = f"restore it from a backup; see what else is missing: `fsck {repository.uri}`"
        raise errors.IntegrityError(f"{store.uri}/{layout.REPOSITORY} is missing", hint=hint)
    hint = "write nothing there; another repository has replaced this one"
    raise errors.Refused(f"belongs to another repository: {owner}", hint=hint)


def _shared(store: ObjectStore) -> Check:
    """Read some refs and a pack, as a fetch would."""
    description = describe(store)
    if description is None:
        return skipped("shared", "no repository is here")
    refs = list(iter_refs(store))
    for each in refs[:_REFS_READ]:
        find_ref(store, each.kind, each.name)
    packs = sorted(list_packs(store), key=attrgetter("size", "id"))
    for pack in packs[:1]:
        read_pack(store, pack.id)
    details = {"refs": str(len(refs)), "packs": str(len(packs))}
    seen = f"can be read; refs: {len(refs)}, packs of commits: {len(packs)}"
    if needs := ", ".join(description.needs_write):
        seen = f"can be read, but not written to: it needs {needs}"
        return warning("shared", seen, fix="upgrade lakecli", **details)
    return ok("shared", seen if refs or packs else "nothing has been pushed yet", **details)


def check_purpose(purpose: Purpose, found: Mapping[str, Check]) -> Check:
    """Report whether a group of commands can work, according to the checks so far."""
    needed = ", ".join(purpose.needs)
    failures = {name for name, check in found.items() if check.verdict is CheckVerdict.FAILED}
    lacking = [
        need for need in purpose.needs if need in failures or found[need].details.get("because")
    ]
    unknown = [need for need in purpose.needs if found[need].verdict is CheckVerdict.SKIPPED]
    details = {"needs": needed, "lacks": ", ".join(lacking), "commands": purpose.commands}
    if lacking:
        fix = next(filter(None, (found[need].fix for need in lacking)), "see these checks")
        seen = f"{purpose.commands}: not allowed, missing: {details['lacks']}"
        return warning(purpose.name, seen, fix=fix, **details)
    for need, text in purpose.parts.items():
        if need in failures:
            seen = f"{purpose.commands}: allowed, but {text}"
            return warning(purpose.name, seen, fix=found[need].fix or f"see {need}", **details)
    if unknown:
        return skipped(purpose.name, f"{purpose.commands}: unknown, see {unknown[0]}")
    return ok(purpose.name, f"{purpose.commands}: allowed; required: {needed}", **details)


def _outside(repository: Repository) -> Check:
    """Check whether objects outside the namespace may be read; only a few ranges are examined."""
    try:
        found = look(repository, ranges=_RANGES_READ)
    except errors.LakeError:
        return skipped(OUTSIDE, "the newest tree of the default branch cannot be read")
    part = f"in {found.ranges_read} of {found.ranges} ranges of the default branch"
    if not found.places:
        return ok(OUTSIDE, f"no object lies outside the namespace, {part}")
    shown = ", ".join(f"{place.uri} ({place.objects} objects)" for place in found.places[:_SHOWN])
    more = len(found.places) - _SHOWN
    seen = f"objects lie outside the namespace: {shown}{f' and {more} more' if more > 0 else ''}"
    details = {place.uri: str(place.objects) for place in found.places}
    if all(place.allowed for place in found.places):
        return ok(OUTSIDE, f"{seen}, {part}", **details)
    trust = trust_of(repository)
    wanted = allowable(found.places, trust)
    fix = trust.allowing(*wanted) if wanted else "such addresses are never followed"
    return warning(OUTSIDE, f"{seen}, {part}; not all of them may be read", fix=fix, **details)


def verdict_of(checks: Iterable[Check]) -> CheckVerdict:
    """Return the worst verdict of some checks; a skipped check counts as OK."""
    found = {check.verdict for check in checks}
    worst = (CheckVerdict.FAILED, CheckVerdict.WARNING)
    return next((verdict for verdict in worst if verdict in found), CheckVerdict.OK)


def problem_of(checks: Sequence[Check]) -> errors.LakeError | None:
    """Return an error of the most serious kind among the failed checks, or ``None``.

    The hint of the error is the fix of the first check of that kind.
    """
    problems = [check for check in checks if check.verdict is CheckVerdict.FAILED]
    for family in FAMILIES:
        for check in problems:
            if check.kind == family.kind:
                names = ", ".join(problem.name for problem in problems)
                message = f"{len(problems)} of {len(checks)} checks failed: {names}"
                return family(message, hint=check.fix or None)
    return None
