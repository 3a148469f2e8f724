"""Looking at all that a repository stands on: this machine, the storage namespace, the way there.

What is tried in the namespace is `lakecli.objectstore.probe.run`'s business; here comes what lies
around it: the local store, its memory map, the cache, free disk space, whose the namespace is,
what clones share there, and what all that means for the commands.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli import layout
from lakecli.directories import make_private
from lakecli.errors import (
    ConflictError,
    ErrorKind,
    IntegrityError,
    LakeError,
    LostRace,
    NotFound,
    NothingToDo,
    OutcomeUnknown,
    PartialFailure,
    PermissionDenied,
    Refused,
    Unreachable,
    UsageError,
)
from lakecli.objectstore.base import ObjectNotFound
from lakecli.objectstore.probe import run as probe
from lakecli.objectstore.probe.check import Check, Verdict, failed, ok, skipped, warning
from lakecli.objectstore.probe.conditions import FIX
from lakecli.objectstore.registry import open_store, prepare_namespace
from lakecli.objectstore.uri import is_local, parse
from lakecli.repository.core.namespace import check_needs, describe, owner_of
from lakecli.repository.sharing import shareable

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
    from pathlib import Path

    from lakecli.kv.usage import Usage
    from lakecli.objectstore.base import ObjectStore
    from lakecli.objectstore.probe.run import Instruments
    from lakecli.repository.core.lake import Home, Lake, Repository

FAMILIES: Final[tuple[type[LakeError], ...]] = (
    Unreachable,
    NotFound,
    PermissionDenied,
    IntegrityError,
    Refused,
    UsageError,
    ConflictError,
    LostRace,
    OutcomeUnknown,
    PartialFailure,
    NothingToDo,
    LakeError,
)
"""Errors, the most serious first: what has to be mended before anything else can be told."""

LOW_SPACE: Final = 10**9
NO_SPACE: Final = 10**8
"""Bytes free on a disk: below the one it is told, below the other it is an error."""

FULL_MAP: Final = 0.8
"""Of the local store's memory map, from where on it is told."""


class Purpose(NamedTuple):
    """A group of commands, and what has to be allowed in the namespace for them.

    Attributes:
        name: of the check that says whether it is.
        needs: checks; none of them may have failed.
        commands: whose they are.
    """

    name: str
    needs: tuple[str, ...]
    commands: str


PURPOSES: Final = (
    Purpose("to-read", ("read",), "fs cat, fs download, fs ls, diff, log"),
    Purpose("to-clone", ("read", "list"), "clone, fetch, pull, reflog, fsck"),
    Purpose("to-presign", ("read", "presign"), "fs presign"),
    Purpose("to-change", ("read", "list", "write"), "fs upload, commit, merge, revert, import"),
    Purpose("to-take-in", ("read", "list", "write", "delete"), "fs stage --incoming"),
    Purpose("to-push", ("read", "list", "write", "overwrite", "sharing"), "push, undo, sync auto"),
    Purpose("to-collect", ("read", "list", "write", "overwrite", "delete", "sharing"), "gc run"),
)
"""A row for each group of commands; the last checks that are made say what may be done."""

TRAILING: Final = ("claim", "shared", "sharing", *(purpose.name for purpose in PURPOSES))
"""The checks that come after those of the probe."""

OUTSIDE: Final = "outside"
"""The last check of a repository: where its objects lie outside the namespace."""

WIDTH: Final = max(map(len, (*probe.NAMES, *TRAILING)))
"""Letters in the longest name of a check."""

_REFS_READ: Final = 8
"""How many of the refs in the bucket are read, to see that they can be."""

_RANGES_READ: Final = 8
"""How many ranges are read, to see where objects lie."""

_SHOWN: Final = 5

_NO_NAMESPACE: Final = "only the local store knows the storage namespace"


@dataclass(frozen=True, slots=True)
class Examination:
    """What is looked at, and what is found.

    Attributes:
        namespace: the storage namespace, or ``None`` where that could not be found out.
        checks: made as they are taken; close it, so that what was written is removed in time.
    """

    namespace: str | None
    checks: Generator[Check]


def examine_namespace(
    namespace: str, instruments: Instruments, *, free_space: Callable[[str], int]
) -> Examination:
    """Look at a storage namespace, whether a repository is there or not.

    Args:
        namespace: normalised.
        instruments: clock, IDs and a way to the web.
        free_space: bytes free on the disk of a path.

    Raises:
        UsageError: a malformed URI or an unsupported scheme.
    """
    store = open_store(namespace)

    def greet() -> ObjectStore:
        return open_store(namespace, region=prepare_namespace(namespace))

    looking = probe.Probe(
        store, instruments, root=layout.DOCTOR, greet=None if is_local(namespace) else greet
    )

    def checks() -> Generator[Check]:
        if is_local(namespace):
            yield _disk_space([parse(namespace).path], free_space)
        yield from _with_claim(looking, _claim_of_anybody, missing_fix=_made_by_create(namespace))

    return Examination(namespace, checks())


def examine_repository(
    name: str,
    open_lake: Callable[[], Lake],
    home: Home,
    instruments: Instruments,
    *,
    free_space: Callable[[str], int],
) -> Examination:
    """Look at a repository of this machine: its namespace and what it has here.

    Args:
        name: of the repository.
        open_lake: opens the local store; that may be what is wrong.
        home: where things lie.
        instruments: clock, IDs and a way to the web.
        free_space: bytes free on the disk of a path.

    Raises:
        NotFound: the local store is well and knows no such repository.
    """
    places = [str(home.store), str(home.cache)]
    try:
        lake = open_lake()
    except LakeError as error:
        return Examination(None, _without_store(error, home, places, free_space))
    repository = lake.repository(name)
    namespace = repository.record.storage_namespace
    if is_local(namespace):
        places.append(parse(namespace).path)

    def checks() -> Generator[Check]:
        usage = lake.kv.usage()
        yield ok("local-store", f"schema version {usage.schema_version}, {home.store}")
        yield _map(usage)
        yield _cache(home.cache)
        yield _disk_space(places, free_space)
        looking = probe.Probe(repository.store, instruments, root=layout.DOCTOR)
        readable = True
        for check in _with_claim(
            looking, lambda store: _claim_of(repository, store), repository=repository
        ):
            readable = readable and (
                check.name not in ("read", "claim") or check.verdict is Verdict.OK
            )
            yield check
        yield _outside(repository) if readable else skipped(OUTSIDE, "nothing can be read")

    return Examination(namespace, checks())


def verdict_of(checks: Iterable[Check]) -> Verdict:
    """Return the worst of several verdicts; what was skipped counts as well."""
    found = {check.verdict for check in checks}
    return next((v for v in (Verdict.FAILED, Verdict.WARNING) if v in found), Verdict.OK)


def problem_of(checks: Sequence[Check]) -> LakeError | None:
    """Return the error that failed checks amount to: one of the most serious family of `FAMILIES`.

    Its hint is the fix of the first check of that family.
    """
    problems = [check for check in checks if check.verdict is Verdict.FAILED]
    for family in FAMILIES:
        for check in problems:
            if check.kind == family.kind:
                names = ", ".join(problem.name for problem in problems)
                message = f"{len(problems)} of {len(checks)} checks failed: {names}"
                return family(message, hint=check.fix or None)
    return None


# -- this machine ----------------------------------------------------------------------------


def _without_store(
    error: LakeError, home: Home, places: list[str], free_space: Callable[[str], int]
) -> Generator[Check]:
    yield failed("local-store", error)
    yield skipped("map", "the local store does not open")
    yield _cache(home.cache)
    yield _disk_space(places, free_space)
    for name in (*probe.NAMES, *TRAILING, OUTSIDE):
        yield skipped(name, _NO_NAMESPACE)


def _outside(repository: Repository) -> Check:
    """Say which places outside the namespace its entries name; a few ranges are read."""
    from lakecli.repository.core.outside import allowable, look
    from lakecli.repository.core.places import trust_of

    try:
        found = look(repository, ranges=_RANGES_READ)
    except LakeError:
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
    return warning(
        OUTSIDE,
        f"{seen}, {part}; not all of them may be read",
        fix=trust.allowing(*wanted) if wanted else "such addresses are never followed",
        **details,
    )


def _map(usage: Usage) -> Check:
    seen = f"{_shown(usage.used)} of {_shown(usage.map_size)} used"
    details = {"used": str(usage.used), "size": str(usage.map_size)}
    if usage.used < usage.map_size * FULL_MAP:
        return ok("map", seen, **details)
    return warning("map", seen, fix="raise the limit of address space (ulimit -v)", **details)


def _cache(directory: Path) -> Check:
    from tempfile import TemporaryFile

    try:
        make_private(directory)
        with TemporaryFile(dir=directory) as file:
            file.write(b"can be written")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        return warning(
            "cache",
            f"{reason}: {directory}; everything is read from the namespace again and again",
            fix="make the directory writable, or set LAKECLI_HOME to one that is",
        )
    return ok("cache", str(directory))


def _disk_space(places: Iterable[str], free_space: Callable[[str], int]) -> Check:
    """Look at the disk with the least space among those of several directories."""
    measured = []
    for place in places:
        with suppress(OSError):
            measured.append((free_space(_existing(place)), place))
    if not measured:
        return skipped("disk-space", "no disk tells")
    free, place = min(measured)
    seen = f"{_shown(free)} free on the disk of {place}"
    fix = "free some space there"
    if free < NO_SPACE:
        return failed("disk-space", Unreachable(f"only {seen}", hint=fix), free=str(free))
    if free < LOW_SPACE:
        return warning("disk-space", f"only {seen}", fix=fix, free=str(free))
    return ok("disk-space", seen, free=str(free))


def _existing(place: str) -> str:
    """Return the directory itself, or the nearest one above it that is there."""
    while not os.path.isdir(place) and place != "/":  # noqa: PTH112 - namespaces are text
        place = os.path.dirname(place)  # noqa: PTH120 - as above
    return place


def _shown(size: int) -> str:
    return f"{size / 10**9:,.1f} GB" if size >= 10**9 else f"{size / 10**6:.1f} MB"


# -- whose the namespace is ------------------------------------------------------------------


def _with_claim(
    looking: probe.Probe,
    claim: Callable[[ObjectStore], Check],
    *,
    missing_fix: str = "",
    repository: Repository | None = None,
) -> Generator[Check]:
    """Yield what a probe finds, whose the namespace is, and what all that means for commands.

    Args:
        looking: at the store.
        claim: looks for the owner.
        missing_fix: what to do where the bucket or directory is missing, if the store's own advice
            is not enough.
        repository: that the namespace should be of; whether it can be shared is remembered.
    """
    found: dict[str, Check] = {}
    for check in looking.run():
        if missing_fix and check.name == "reachable" and check.kind is ErrorKind.NOT_FOUND:
            check = replace(check, fix=missing_fix)  # noqa: PLW2901 - the same check, better told
        found[check.name] = check
        yield check
    obstacle = "" if found["read"].verdict is Verdict.OK else "nothing can be read"
    for name, look in (("claim", claim), ("shared", _shared)):
        if obstacle:
            yield skipped(name, obstacle)
            continue
        try:
            yield look(looking.store)
        except LakeError as error:
            yield failed(name, error)
            obstacle = "it needs what failed: claim"
    found["sharing"] = _sharing(found, repository)
    yield found["sharing"]
    for purpose in PURPOSES:
        yield _purpose(purpose, found)


def _shared(store: ObjectStore) -> Check:
    """Read a little of everything that clones share."""
    from lakecli.remote.packs import list_packs, read_pack
    from lakecli.remote.refs import iter_refs, read_refs

    description = describe(store)
    if description is None:
        return skipped("shared", "no repository is here")
    check_needs(store, description, writing=False)
    refs = list(iter_refs(store))
    for _ in read_refs(store, refs[:_REFS_READ]):
        pass
    packs = sorted(list_packs(store), key=attrgetter("size", "id"))
    for pack in packs[:1]:
        read_pack(store, pack.id)
    details = {"refs": str(len(refs)), "packs": str(len(packs))}
    seen = f"can be read; refs: {len(refs)}, packs of commits: {len(packs)}"
    if description.needs_write:
        return warning(
            "shared",
            f"can be read, but not written to: it needs {', '.join(description.needs_write)}",
            fix="upgrade lakecli",
            **details,
        )
    return ok("shared", seen if refs or packs else "nothing has been pushed yet", **details)


def _sharing(found: Mapping[str, Check], repository: Repository | None) -> Check:
    """Say whether several machines may write here, from what the probe found."""
    name = "sharing"
    for check in (found[promise] for promise in shareable.PROMISES):
        if check.kind is ErrorKind.REFUSED:
            if repository is not None:
                shareable.remember(repository, check.seen)
            return warning(name, f"no: {check.seen}; push is refused", fix=FIX, because=check.name)
        if check.verdict in (Verdict.FAILED, Verdict.SKIPPED):
            return skipped(name, f"it could not be found out, see {check.name}")
    if repository is not None:
        shareable.remember(repository, "")
    clock = found["clock"]
    if clock.verdict is Verdict.FAILED:  # a directory's is only told of
        try:
            shareable.check_clock(timedelta(seconds=int(clock.details.get("seconds", "0"))))
        except LakeError as error:
            return warning(name, f"no: {error.message}", fix=error.hint or "", because="clock")
    return ok(name, "several machines may write here")


def _purpose(purpose: Purpose, found: Mapping[str, Check]) -> Check:
    """Say whether a group of commands has what it needs, from what the probe found."""
    needed = ", ".join(purpose.needs)
    lacking = [
        need
        for need in purpose.needs
        if found[need].verdict is Verdict.FAILED or found[need].details.get("because")
    ]
    unknown = [need for need in purpose.needs if found[need].verdict is Verdict.SKIPPED]
    details = {"needs": needed, "lacks": ", ".join(lacking), "commands": purpose.commands}
    if lacking:
        fixes = (found[need].fix for need in lacking)
        return warning(
            purpose.name,
            f"{purpose.commands}: no, for lack of {details['lacks']}",
            fix=next(filter(None, fixes), "see those checks"),
            **details,
        )
    if unknown:
        return skipped(purpose.name, f"{purpose.commands}: not known, see {unknown[0]}")
    return ok(purpose.name, f"{purpose.commands}: allowed; they need {needed}", **details)


def _claim_of_anybody(store: ObjectStore) -> Check:
    owner = owner_of(store)
    if owner is not None:
        return ok("claim", f"belongs to repository {owner}", uuid=owner)
    try:
        store.head(layout.LAKEFS_MARKER)
    except ObjectNotFound:
        return ok("claim", "free: `lakecli repo create` may take it")
    return warning(
        "claim",
        f"a lakeFS lives here (found {layout.LAKEFS_MARKER})",
        fix="use another prefix; `lakecli repo create` refuses this one",
    )


def _claim_of(repository: Repository, store: ObjectStore) -> Check:
    owner = owner_of(store)
    if owner == repository.record.uuid:
        return ok("claim", "belongs to this repository", uuid=owner)
    if owner is None:
        raise IntegrityError(
            f"{store.uri}/{layout.REPOSITORY} is missing",
            hint=f"see what else is, by `lakecli fsck {repository.uri}`, and restore it from a "
            "backup",
        )
    raise Refused(
        f"belongs to another repository: {owner}",
        hint="write nothing there; somebody replaced what this repository had there",
    )


def _made_by_create(namespace: str) -> str:
    if not is_local(namespace):
        return ""
    return (
        f"`lakecli repo create lakefs://NAME {namespace}` makes the directory; if it should be "
        "there already, mount the disk that holds it"
    )
