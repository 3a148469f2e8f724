"""Reports of a collection: the kinds of garbage, totals, a summary by branch, and its status.

The summary counts the objects that are about to be deleted, by branch and tag, so that a person
notices mistakes::

    _lakecli/gc/marks/<epoch>-<id>/summary    written with the lists, read by `gc status` anywhere

A metarange that is garbage is the tree of a commit that retention rules no longer keep or that no
ref reaches any more. The metarange counts for the first ref that reaches the commit now. If no ref
reaches the commit, the metarange counts for the first ref that reached the commit before the ref
was deleted or moved elsewhere. The default branch comes first and is always listed, then the other
branches, then tags. Anybody who can write to the bucket can write a summary; nothing is deleted or
kept because of a summary.

Each step writes a report to the bucket with `write_report`. From the last report, the next
collection reads how many tables were left::

    _lakecli/gc/reports/<epoch>-condemned.json, <epoch>-sweeping.json, <epoch>-swept.json
"""

import json
from collections import Counter
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple

from lakecli.base import layout, parsing
from lakecli.base.model import RefKind
from lakecli.base.validation import Invalid, Record, boolean, choice, list_of, text, whole
from lakecli.gc.known_refs import LostRef
from lakecli.refs.names import is_ref_name
from lakecli.remote.gc_protocol import Phase
from lakecli.repository.lakefs.kept_dumps import DUMPS, KeptDump
from lakecli.stores.contract import ANY, ObjectNotFound, ObjectStore, TooLarge, Version, get_bounded

KINDS: Final = {
    "data": (
        layout.DATA,
        "no retained commit, recent table or staged change of this clone refers to it",
    ),
    "lakefs": (layout.DATA, "written by lakeFS, and nothing that is in use refers to it"),
    "range": (layout.SSTABLES, "in no retained tree, and in no recent one"),
    "metarange": (layout.SSTABLES, "the tree of no retained commit"),
    "pack": (layout.COMMITS, "another commit pack has all of its commits"),
    "dump": (DUMPS, "the record of a refs dump that is no longer kept"),
    "reflog": (layout.REFLOG, "moves that are older than the reflog goes back"),
    "statement": (layout.ATTESTATIONS, "about a tree that nothing retains"),
    "incoming": (layout.INCOMING, "came by a link and was never staged"),
    "doctor": (layout.DOCTOR, "left over from lakecli doctor"),
    "scratch": (layout.SCRATCH, "left over from a job on Spark"),
    "upload": (layout.DATA, "an upload in parts that was abandoned"),
}
"""For each kind of garbage, the prefix of its keys, and why such objects are garbage."""

MAX_SUMMARY_SIZE: Final = 1 << 20
"""Maximum size of a summary in bytes."""

REPORTS: Final = layout.GC + "reports/"

MAX_REPORT_SIZE: Final = 1 << 20
"""Maximum size of a report in bytes."""

MOST_REFS: Final = 1_000
_MOST: Final = 1 << 60
_NAMED: Final = 5


class Doomed(NamedTuple):
    """A condemned object that is not a data object.

    Attributes:
        size: the size in bytes.
        kind: one of `KINDS`.
        version: version in the listing; ``""`` if unknown. The lists do not record the version.
    """

    key: str
    size: int
    kind: str
    version: Version | Literal[""] = ""


class GarbageTotal(NamedTuple):
    """The number and the size of the garbage objects of one kind.

    Attributes:
        kind: data, lakefs, range, metarange, pack, dump, reflog, statement, incoming, doctor or
            upload.
        objects: number of objects.
        size: total size of the objects in bytes.
    """

    kind: str
    objects: int
    size: int

    @property
    def prefix(self) -> str:
        """The prefix of the objects' keys."""
        return KINDS[self.kind][0]

    @property
    def why(self) -> str:
        """The reason why the objects are garbage."""
        return KINDS[self.kind][1]

    def fields(self) -> dict[str, str | int]:
        """Return the total as a JSON object, for reports."""
        return {"kind": self.kind, "prefix": self.prefix, "why": self.why, **self._asdict()}


class GarbageCounter:
    """Counts objects and bytes of garbage, by kind."""

    def __init__(self) -> None:
        self._objects: Counter[str] = Counter()
        self._sizes: Counter[str] = Counter()

    def add(self, kind: str, size: int = 0, *, objects: int = 1) -> None:
        """Count objects of one kind.

        Args:
            kind: one of `KINDS`.
            size: the total size of the objects in bytes.
            objects: the number of objects.
        """
        self._objects[kind] += objects
        self._sizes[kind] += size

    def objects(self, *kinds: str) -> int:
        """Return how many objects of the given kinds were counted."""
        return sum(self._objects[kind] for kind in kinds)

    def totals(self) -> tuple[GarbageTotal, ...]:
        """Return the totals of the kinds with at least one object."""
        return tuple(
            GarbageTotal(kind, self._objects[kind], self._sizes[kind])
            for kind in KINDS
            if self._objects[kind]
        )


class RefGarbage(NamedTuple):
    """The garbage of one branch or tag.

    Attributes:
        kind: branch or tag.
        name: name of the branch or tag.
        deleted: whether the branch or tag is deleted.
        trees: number of trees of old commits that the ref reaches, expired by retention rules.
        former_trees: number of trees that the ref no longer reaches, because it was moved or
            deleted.
    """

    kind: RefKind
    name: str
    deleted: bool
    trees: int
    former_trees: int

    def __str__(self) -> str:
        """Return the name and the counts as text, such as "dev (deleted): 2 former trees"."""
        counts = (self.trees, "old tree"), (self.former_trees, "former tree")
        said = ", ".join(_count(number, what) for number, what in counts if number) or "0"
        name = self.name if self.kind is RefKind.BRANCH else f"tag {self.name}"
        return f"{name}{' (deleted)' if self.deleted else ''}: {said}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


class GarbageSummary(NamedTuple):
    """A summary of the objects that garbage collection will delete.

    Attributes:
        refs: the garbage of the default branch, then of other branches and tags with garbage.
        other_trees: number of trees that no branch or tag ever reached.
        objects: number of data objects that no branch or tag reaches.
    """

    refs: tuple[RefGarbage, ...] = ()
    other_trees: int = 0
    objects: int = 0

    def __str__(self) -> str:
        """Return one line: "main: 0; dev: 12 old trees; 3,400 objects that no ref reaches"."""
        said = [str(each) for each in self.refs[:_NAMED]]
        if self.refs[_NAMED:]:
            said.append(_count(len(self.refs) - _NAMED, "more ref"))
        if self.other_trees:
            said.append(f"{_count(self.other_trees, 'tree')} that no ref had")
        said.append(f"{_count(self.objects, 'object')} that no ref reaches")
        return "; ".join(said)


_REF: Final = Record(
    {
        "kind": choice(*RefKind),
        "name": text(1 << 10),
        "deleted": boolean,
        "trees": whole(0, _MOST),
        "former_trees": whole(0, _MOST),
    }
)


def _read_ref(value: object) -> RefGarbage:
    found = RefGarbage(**_REF.read(value))
    if not is_ref_name(found.kind, found.name):
        raise Invalid(f"not the name of a {found.kind}: {found.name!r}")
    return found


_SUMMARY: Final = Record(
    {
        "refs": list_of(_read_ref, MOST_REFS),
        "other_trees": whole(0, _MOST),
        "objects": whole(0, _MOST),
    }
)


def fields_of(summary: GarbageSummary) -> dict[str, Any]:
    """Return a summary as a JSON object."""
    return {**summary._asdict(), "refs": [each._asdict() for each in summary.refs]}


def dump_summary(summary: GarbageSummary) -> bytes:
    """Encode a summary as one line of JSON."""
    return json.dumps(fields_of(summary)).encode("ascii") + b"\n"


def parse_summary(data: bytes) -> GarbageSummary | None:
    """Parse a summary; return ``None`` if it is not valid."""
    try:
        fields = _SUMMARY.read(parsing.parse_json_object(data, max_size=MAX_SUMMARY_SIZE))
    except (Invalid, parsing.Unparsable):
        return None
    return GarbageSummary(**{**fields, "refs": tuple(fields["refs"])})


class Action(StrEnum):
    """The result of a run; in a dry run, the result that a run would have."""

    CONDEMNED = "condemned"
    FOUND_NOTHING = "found nothing"
    WAITS = "waits"
    SWEPT = "swept"


class GcStatus(NamedTuple):
    """The state of garbage collection.

    Attributes:
        phase: idle, condemned or sweeping.
        epoch: number of condemnations so far.
        grace: grace period of this epoch.
        since: time when the phase began, by the store's clock; null before the first collection.
        sweep_at: time from which garbage can be deleted; null if nothing is condemned.
        resume_at: time from which an interrupted sweep can be finished or ended; null if no sweep
            was interrupted.
        dumps: refs dumps that garbage collection keeps, oldest first.
        lakefs_stopped: if the namespace was taken over from lakeFS, time when a user confirmed that
            lakeFS has stopped.
        summary: the condemned objects, by branch and tag; null if nothing is condemned, or if the
            summary is missing.
    """

    phase: Phase
    epoch: int
    grace: timedelta
    since: datetime | None
    sweep_at: datetime | None
    resume_at: datetime | None = None
    dumps: tuple[KeptDump, ...] = ()
    lakefs_stopped: datetime | None = None
    summary: GarbageSummary | None = None

    @property
    def grace_seconds(self) -> int:
        """Grace period in seconds."""
        return int(self.grace.total_seconds())

    def with_grace(self, grace: timedelta) -> "GcStatus":
        """Return the status for a grace period, which delays the sweep if it is longer."""
        if self.sweep_at is None:
            return self
        return self._replace(sweep_at=self.sweep_at + max(grace - self.grace, timedelta()))


class GcReport(NamedTuple):
    """The result of a run.

    Attributes:
        action: condemned, found nothing, waits or swept; in a dry run, what it would do.
        status: the state afterwards.
        garbage: garbage objects by kind.
        spared: number of condemned objects that are in use again.
        commits: number of commits whose objects are kept; 0 if the run did not search for garbage.
        entries: number of entries in the ranges of the commits whose objects are kept.
        ranges: number of distinct ranges of the commits whose objects are kept.
        objects: number of data objects in the namespace.
        size: total size of these data objects in bytes.
        lost: missing ranges and metaranges that unpushed commits need.
        tables: number of ranges and metaranges that are left; 0: unknown.
        summary: the garbage by branch and tag; null if there is no garbage.
        accepted: missing or outdated branches and tags that --accept-restored accepted.
    """

    action: Action
    status: GcStatus
    garbage: tuple[GarbageTotal, ...] = ()
    spared: int = 0
    commits: int = 0
    entries: int = 0
    ranges: int = 0
    objects: int = 0
    size: int = 0
    lost: tuple[str, ...] = ()
    tables: int = 0
    summary: GarbageSummary | None = None
    accepted: tuple[LostRef, ...] = ()


def write_report(store: ObjectStore, epoch: int, report: GcReport, now: datetime) -> None:
    """Write the report of a run to the bucket."""
    fields = {name: getattr(report, name) for name in ("action", "spared", "tables")}
    fields["garbage"] = [each.fields() for each in report.garbage]
    fields["summary"] = None if report.summary is None else fields_of(report.summary)
    write_fields(store, epoch, str(report.action), fields, now)


def write_fields(
    store: ObjectStore, epoch: int, name: str, fields: dict[str, Any], now: datetime
) -> None:
    """Write fields to the bucket as the report `name` of an epoch."""
    fields = {"epoch": epoch, "at": now.isoformat(), **fields}
    store.put(_report_key(epoch, name), json.dumps(fields, indent=2).encode("ascii") + b"\n", ANY)


def tables_left(store: ObjectStore, epoch: int) -> int:
    """Return how many ranges and metaranges garbage collection `epoch` kept; 0 if unknown."""
    for action in (Action.SWEPT, Action.CONDEMNED):
        try:
            report = get_bounded(store, _report_key(epoch, action), MAX_REPORT_SIZE)
            fields = parsing.parse_json_object(report, max_size=MAX_REPORT_SIZE)
            return whole(0, _MOST)(fields.get("tables"))
        except (ObjectNotFound, TooLarge, parsing.Unparsable, Invalid):
            continue
    return 0


def _report_key(epoch: int, name: str) -> str:
    return f"{REPORTS}{epoch}-{name}.json"
