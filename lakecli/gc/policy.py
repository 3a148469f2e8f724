"""What a collection may delete: options, times, retention rules, and refusals.

The module begins with the caller's options and `Work`, the inputs of all parts of a collection.

Retention rules define how long commits keep their objects, per branch: see `roots`. The format is
lakeFS's JSON::

    {"default_retention_days": 21, "branches": [{"branch_id": "main", "retention_days": 28}]}

Rules that are not valid raise `UsageError`.

Nothing is deleted in a namespace that another program uses besides lakecli, or in which lakeFS
still writes. The functions at the end of the module check this.
"""

import json
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from lakecli.base import layout, parsing
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.engine.runner import Runner
from lakecli.errors import NotFound, Refused, UsageError
from lakecli.gc.known_refs import KnownRefs
from lakecli.remote.gc_protocol import DEFAULT_GRACE, RULES_KEY, STALE_AFTER, ObservedState, Phase
from lakecli.remote.refs import iter_refs
from lakecli.repository.contract import Repository
from lakecli.repository.lakefs.kept_dumps import CLOCKS, LastDump, TakenOver, written_at
from lakecli.stores.contract import ANY, ObjectNotFound, ObjectStore


class GcOptions(NamedTuple):
    """The options of a collection.

    Attributes:
        grace: shortest time between condemning and sweeping, and minimum age of garbage.
        dry_run: report the step that the run would take, without taking it.
        force_shared: collect garbage even if another program uses the namespace.
        lakefs_stopped: record the caller's confirmation that the lakeFS server that used the
            namespace before has stopped.
        accept_restored: accept that refs are missing, or older than when they were last seen, and
            start a new collection.
    """

    grace: timedelta = DEFAULT_GRACE
    dry_run: bool = False
    force_shared: bool = False
    lakefs_stopped: bool = False
    accept_restored: bool = False


class Times(NamedTuple):
    """The times that decide which objects are old."""

    now: datetime
    grace: timedelta

    @property
    def cutoff(self) -> datetime:
        """The time before which an object must have been written to count as garbage.

        Younger objects are kept, because a reference to an object may be written some time after
        the object, and a commit some time after its tree.
        """
        return self.now - self.grace - 2 * STALE_AFTER


class Work(NamedTuple):
    """The inputs of a collection, which its run reads at the beginning.

    Attributes:
        times: the times that decide which objects are old.
        rules: retention rules; ``None`` to keep the objects of all commits that refs reach.
        taken: the record of the take-over from lakeFS; ``None`` if the namespace was not taken
            over.
        last_dump: the time of the last refs dump written or restored; ``None`` if the namespace
            was not taken over.
        known: the refs in the bucket as they were seen before this run.
        progress: counts the finished parts of the work.
    """

    repository: Repository
    store: ObjectStore
    runner: Runner
    times: Times
    rules: "Rules | None"
    taken: TakenOver | None
    last_dump: LastDump | None
    known: KnownRefs
    seen: ObservedState
    progress: Progress = NO_PROGRESS

    @property
    def lakefs(self) -> TakenOver | None:
        """The record of the take-over if lakeFS has stopped, so that its objects may be garbage."""
        return self.taken if self.taken is not None and self.taken.stopped_at else None

    @property
    def is_idle(self) -> bool:
        """Whether no objects are condemned."""
        return self.seen.state.phase is Phase.IDLE


class NotTakenOver(UsageError):
    """A caller confirmed that lakeFS has stopped, but the namespace was never one of lakeFS."""

    def __init__(self, uri: str) -> None:
        super().__init__(
            f"{uri} was not taken over from lakeFS",
            hint="leave out the confirmation that lakeFS has stopped: `lakefs_stopped=True`",
        )


MAX_DAYS: Final = 36_500
EXAMPLE: Final = (
    '{"default_retention_days": 21, "branches": [{"branch_id": "main", "retention_days": 28}]}'
)


class Rules(NamedTuple):
    """How many days a commit keeps its objects after another commit replaced it as a branch's head.

    Attributes:
        default_days: days for branches without a rule.
    """

    default_days: int
    branches: Mapping[str, int]

    def days_of(self, branch: str) -> int:
        """Return the number of days for a branch."""
        return self.branches.get(branch, self.default_days)


def parse_rules(text: str) -> Rules:
    """Parse rules in lakeFS's JSON format; raise `UsageError` if they are not valid."""
    try:
        fields = parsing.parse_json(text, max_size=layout.MAX_RULES_SIZE)
        default = _days(fields["default_retention_days"])
        branches: dict[str, int] = {}
        for each in fields.get("branches") or []:
            name = each["branch_id"]
            if not isinstance(name, str) or not name:
                raise ValueError(f"no name of a branch: {name!r}")  # noqa: TRY301
            if name in branches:
                raise ValueError(f"two rules for branch {name!r}")  # noqa: TRY301
            branches[name] = _days(each["retention_days"])
    except (KeyError, TypeError, ValueError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"no retention rules: {what}", hint=f"such as {EXAMPLE}") from error
    return Rules(default, branches)


def rules_fields(rules: Rules) -> dict[str, Any]:
    """Return rules as a JSON object in lakeFS's format, with the branches sorted by name."""
    by_name = sorted(rules.branches.items())
    branches = [{"branch_id": name, "retention_days": days} for name, days in by_name]
    return {"default_retention_days": rules.default_days, "branches": branches}


def find_rules(store: ObjectStore) -> Rules | None:
    """Return the rules of a namespace; ``None`` without rules: all reachable commits are kept.

    Raises:
        UsageError: the rules are not valid.
    """
    try:
        data = store.get(RULES_KEY, start=0, length=layout.MAX_RULES_SIZE + 1)
    except ObjectNotFound:
        return None
    try:
        return parse_rules(data.decode("utf-8", "surrogateescape"))
    except UsageError as error:
        error.hint = "replace them by valid rules: `gc set-config lakefs://REPOSITORY -f FILE`"
        raise


def get_rules(store: ObjectStore) -> Rules:
    """Return the rules of a namespace.

    Raises:
        NotFound: the namespace has no rules.
    """
    rules = find_rules(store)
    if rules is None:
        raise NotFound(
            "there are no retention rules: everything that branches and tags reach is kept",
            hint="set some: `gc set-config lakefs://REPOSITORY -f FILE`",
        )
    return rules


def put_rules(store: ObjectStore, rules: Rules) -> None:
    """Write the rules of a namespace, replacing its present rules.

    Raises:
        UsageError: the rules are larger than `find_rules` reads.
    """
    body = json.dumps(rules_fields(rules), indent=2).encode() + b"\n"
    if len(body) > layout.MAX_RULES_SIZE:
        size = f"{len(body):,} bytes, at most {layout.MAX_RULES_SIZE:,} are read"
        hint = f"leave out the branches with {rules.default_days} days, the default"
        raise UsageError(f"the retention rules take {size}", hint=hint)
    store.put(RULES_KEY, body, ANY)


def delete_rules(store: ObjectStore) -> None:
    """Delete the rules of a namespace; raise `NotFound` if it has none."""
    get_rules(store)
    store.delete([RULES_KEY])


def _days(value: object) -> int:
    if type(value) is not int or not 1 <= value <= MAX_DAYS:
        raise ValueError(f"no number of days from 1 to {MAX_DAYS}: {value!r}")
    return value


class SharedNamespace(Refused):
    """Another program uses the storage namespace, and may refer to objects of lakecli."""


class NotConfirmed(SharedNamespace):
    """The namespace was taken over from lakeFS; nobody has confirmed that lakeFS has stopped."""


class LakeFsWrites(SharedNamespace):
    """lakeFS still writes to a namespace although somebody confirmed that it has stopped."""

    def __init__(self, work: Work, key: str, stopped_at: datetime) -> None:
        super().__init__(
            f"lakeFS has written to {work.store.uri} since it was confirmed on "
            f"{stopped_at:%Y-%m-%d} that it has stopped: {key}",
            hint="stop lakeFS's server and its garbage collection on this namespace, then confirm "
            f"it again: `gc run --lakefs-stopped {work.repository.uri}`",
        )


class LakeFsAhead(SharedNamespace):
    """lakeFS has written to a namespace since the last refs dump, so its commits are unknown."""

    def __init__(self, work: Work, key: str, last: LastDump) -> None:
        uri = work.store.uri
        what = f"lakeFS has written to {uri}"
        if last.is_copy:
            what = f"the dates in {uri} are those of a copy, so lakeFS may have written there"
        super().__init__(
            f"{what} since the last refs dump that lakecli wrote or restored, of "
            f"{last.at:%Y-%m-%dT%H:%M:%SZ}: {key}",
            hint="bring its commits into this repository by a new dump of lakeFS: lakectl "
            f"refs-dump lakefs://REPOSITORY | `refs-restore --update {work.repository.uri}`",
        )


_FOREIGN: Final = {
    "table": "ranges or metaranges of lakeFS",
    "file": "other files below _lakefs/",
    "object": "objects below data/ with names that lakecli does not use",
}
"""The objects that lakecli never writes, by kind."""


def find_sharing(work: Work, foreign: Counter[str]) -> SharedNamespace | None:
    """Return the error for a namespace with objects that lakecli never writes.

    Args:
        foreign: the number of such objects, by kind.

    Returns:
        The error; ``None`` if there are no such objects, or if lakeFS wrote them and somebody has
        confirmed that it has stopped.
    """
    uri, taken = work.store.uri, work.taken
    found = [f"{foreign[kind]} {words}" for kind, words in _FOREIGN.items() if foreign[kind]]
    if not found or work.lakefs is not None:
        return None
    if taken is not None:
        return NotConfirmed(
            f"{uri} was taken over from lakeFS on {taken.dump.since:%Y-%m-%d} and has objects of "
            f"lakeFS: {', '.join(found)}",
            hint="stop lakeFS's server and its garbage collection on this namespace, then confirm "
            f"it, once: `gc run --lakefs-stopped {work.repository.uri}`",
        )
    return SharedNamespace(
        f"{uri} has objects that lakecli did not write: {', '.join(found)}",
        hint="lakeFS may use the namespace and refer to objects that look like garbage here; "
        "if it does not, force the collection: `force_shared=True`",
    )


def check_published(work: Work) -> None:
    """Refuse to treat lakeFS's objects as garbage before any branch is in the bucket.

    Raises:
        SharedNamespace: lakeFS has stopped, but no branch is in the bucket: only the clone that
            took the namespace over knows the branches of lakeFS.
    """
    if work.lakefs is None or next(iter_refs(work.store), None) is not None:
        return
    raise SharedNamespace(
        f"{work.store.uri} was taken over from lakeFS, and no branch of it was pushed, so "
        "everything of lakeFS looks like garbage",
        hint=f"push all branches in the clone that took over: `push --all {work.repository.uri}`",
    )


def check_stopped(work: Work, key: str) -> None:
    """Refuse to delete objects of lakeFS if a data object shows that lakeFS still writes.

    Args:
        key: the key of the object with the latest time in its name; ``""`` if there is none.

    Raises:
        LakeFsWrites: the object was written after lakeFS was confirmed to have stopped.
    """
    name = layout.lakefs_object(key)
    at = None if name is None else written_at(name)
    if at is not None:
        check_not_newer(work, key, at)


def check_not_newer(work: Work, key: str, at: datetime) -> None:
    """Refuse to delete objects of lakeFS if one was written after lakeFS's confirmed stop."""
    stopped_at = None if work.lakefs is None else work.lakefs.stopped_at
    if stopped_at is not None and at > stopped_at + CLOCKS:
        raise LakeFsWrites(work, key, stopped_at)
