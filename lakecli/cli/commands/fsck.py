"""``lakecli fsck``: check that all objects of a repository exist and are undamaged."""

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Final, Required, TypedDict

from lakecli.base.model import CommitId
from lakecli.cli.commands.engine import open_runner_of
from lakecli.cli.context import Context
from lakecli.cli.hints import as_commands
from lakecli.cli.line import flag, option
from lakecli.cli.out.records import answers, fields_of
from lakecli.cli.out.text import human_size, one_line, place_lines, quote_path
from lakecli.cli.params import DryRun, EngineOptions, RepositoryUri
from lakecli.errors import UsageError
from lakecli.fsck import check as checking
from lakecli.fsck.findings import Finding, FsckCounts, RepairCounts, Unrecoverable
from lakecli.fsck.repair import repair as repair_defects
from lakecli.repository.reading.outside_counts import places_in
from lakecli.repository.stored_objects import Repaired, repair_cache

SHOWN_PATHS: Final = 10


class CheckedJson(TypedDict, total=False):
    """A finding, a repair, a loss, or the summary at the end.

    Attributes:
        type: finding; repaired (always for files in the cache, otherwise with --repair); with
            --repair also repairable or lost; summary in the last object.
        kind: repository, ref, commit, pack, metarange, range, entry, data, external, or cache.
        name: name of the branch or tag, commit ID, or key of the object.
        what: the problem.
        path: an affected path.
        ref: an affected branch or tag.
        commit_id: commit of the path; null if it is uncommitted.
        how: how the problem was repaired, or can be repaired.
        hurt_refs: branches and tags that need a lost object.
        hurt_paths: paths that need a lost object, at most 100.
        hurt_path_count: number of paths that need a lost object, as far as known.
        advice: what to do about a lost object.
    """

    type: Required[str]
    kind: str
    name: str
    what: str
    path: bytes | str | None
    ref: str | None
    commit_id: CommitId | None
    how: str
    hurt_refs: Sequence[str]
    hurt_paths: Sequence[bytes]
    hurt_path_count: int
    advice: str


def read_part(text: str, _context: Context) -> float:
    """Parse a fraction such as ``1%`` or ``0.01``.

    Raises:
        UsageError: the text is not a number greater than 0 and at most 1 (100%).
    """
    try:
        part = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        part = 0.0
    if not 0 < part <= 1:
        raise UsageError(f"not a part of a whole: {text!r}", hint="such as 1% or 0.01")
    return part


@answers(CheckedJson, each=True, also=FsckCounts)
def fsck(
    context: Context,
    repository: RepositoryUri,
    *,
    data: bool = flag(),
    sample: float | None = option("PART", read=read_part),
    external: bool = flag(),
    repair: bool = flag(),
    places: Sequence[str] = option("PLACE", "--from"),
    dry_run: DryRun = False,
    engine: EngineOptions,
) -> None:
    """Check that everything a repository refers to exists and is undamaged.

    fsck checks every branch and tag, every commit that they reach, the lists of paths of these
    commits (ranges and metaranges), and the name and size of every data object in these lists. In
    the storage namespace, it also checks the shared branches, tags and commits. It reads the
    storage namespace, not the cache; damaged files in the cache are listed and deleted, and fetched
    again when they are needed. The contents of data objects are read and verified only with --data
    or --sample. Each problem is listed with the affected paths, branches and tags, and the exit
    code is 8. Nothing else is changed.

    Old commits whose objects garbage collection deleted by retention rules are only counted. In a
    namespace of lakeFS, so are missing objects that only earlier commits need: lakeFS's garbage
    collection deletes such objects and keeps the commits. Missing objects of the head of a branch,
    or of a tag, are always a problem.

    If the bytes of an object match the checksum that lakeFS recorded, they are right. If not, only
    the size of the object can be verified, and the object is counted: the checksum of an upload in
    parts depends on the size of the parts, which lakeFS does not record.

    Objects outside the storage namespace are counted by place. --external sends one request for
    each of these objects that may be read, and compares its size and checksum with the recorded
    ones. If its time differs and its store reports no such checksum, the object is read. Changed,
    missing and unverifiable objects are problems.

    --repair restores what it can: unreadable objects are read again; lost data objects are uploaded
    from files of more than 1 MiB that were uploaded from this machine and have not changed, or from
    any file below --from; lists of paths come from the cache; and all of them from a copy of the
    namespace, if --from gives its URI. Commits that are missing on this machine come from the
    bucket, and the other way round. Then everything is checked again. Unrecoverable objects are
    listed with the affected branches, tags and paths, and with advice. The exit code is 0 if
    everything was repaired.

    --engine spark reads and verifies on Spark, with the same findings.

    Args:
        data: Read and verify the contents of every data object.
        sample: As --data, for a random sample such as 1%.
        external: Check the objects outside the storage namespace, too.
        repair: Repair what can be repaired, and list what is lost.
        places: With --repair, also look in this directory or copy of the namespace.

    Examples:
        lakecli fsck lakefs://demo
        lakecli fsck lakefs://demo --data
        lakecli fsck lakefs://demo --sample 1%
        lakecli fsck lakefs://demo --data --repair --from ./originals --dry-run
    """
    if repair and external:
        raise UsageError(
            "--repair and --external exclude each other",
            hint="import objects that changed outside the namespace again",
        )
    if not repair and (places or dry_run):
        raise UsageError("--from and --dry-run need --repair", hint="add --repair")
    opened = context.synced_repository(repository)
    with open_runner_of(context, engine, opened) as runner, context.out.progress("fsck") as shown:
        checked = partial(
            checking.fsck,
            opened,
            hash_data=data or sample is not None,
            sample=1.0 if data or sample is None else sample,
            external=external,
            runner=runner,
            progress=shown,
        )
        repairs = RepairCounts()
        items: Iterable[Finding | Repaired | Unrecoverable]
        if repair:
            items = repair_defects(
                opened,
                lambda fresh: checked(counts=fresh),
                places=[place if "://" in place else os.path.abspath(place) for place in places],  # noqa: PTH100
                dry_run=dry_run,
                counts=repairs,
            )
        else:
            items = chain(repair_cache(opened, dry_run=False), checked(counts=repairs.checked))
        context.out.stream(
            items, record=partial(_record, dry_run=dry_run), text=partial(_text, dry_run=dry_run)
        )
        counts = repairs.checked
    counts.outside = places_in(opened, counts.places)
    summary = fields_of(counts) | {"damaged_refs": sorted(counts.damaged_refs)}
    context.out.emit({"type": "summary", **summary}, text=lambda: _lines(counts))
    problem = checking.summarise(counts)
    if problem is not None:
        if repair:
            problem.hint = (
                "nothing was changed; to repair, leave out --dry-run"
                if dry_run
                else "each lost object above is followed by advice"
            )
        raise problem


def _record(item: Finding | Repaired | Unrecoverable, *, dry_run: bool) -> CheckedJson:
    common = CheckedJson(type="finding", kind=item.kind, name=item.name)
    if isinstance(item, Repaired):
        kind = "repairable" if dry_run else "repaired"
        return {**common, "type": kind, "how": item.how}
    common["what"] = item.what
    if isinstance(item, Finding):
        return {**common, "path": item.path, "ref": item.ref or None, "commit_id": item.commit_id}
    return {
        **common,
        "type": "lost",
        "hurt_refs": item.refs,
        "hurt_paths": item.paths,
        "hurt_path_count": item.path_count,
        "advice": as_commands(item.advice, None),
    }


def _text(item: Finding | Repaired | Unrecoverable, *, dry_run: bool) -> str:
    if isinstance(item, Repaired):
        verb = "can be repaired" if dry_run else "repaired"
        return f"{verb}: {item.kind} {one_line(item.name)}: {one_line(item.how)}"
    if isinstance(item, Unrecoverable):
        return "\n".join(_lost_lines(item))
    return _finding_line(item)


def _lost_lines(lost: Unrecoverable) -> Iterator[str]:
    yield f"lost: {lost.kind} {one_line(lost.name)}: {one_line(lost.what)}"
    if lost.refs:
        yield f"  affects {', '.join(lost.refs)}"
    if lost.paths:
        yield from (f"  path {quote_path(path)}" for path in lost.paths[:SHOWN_PATHS])
        if len(lost.paths) > SHOWN_PATHS:
            yield f"  and {lost.path_count - SHOWN_PATHS} more paths"
    elif lost.path_count:
        yield f"  with {lost.path_count} paths"
    yield f"  {one_line(as_commands(lost.advice, None))}"


def _finding_line(finding: Finding) -> str:
    parts = [f"{finding.kind} {one_line(finding.name)}: {one_line(finding.what)}"]
    if finding.path is not None:
        parts.append(f"path {quote_path(finding.path)}")
    if finding.ref:
        parts.append(f"on {finding.ref}")
        commit = finding.commit_id
        parts.append("uncommitted" if commit is None else f"commit {commit}")
    return ", ".join(parts)


def _lines(counts: FsckCounts) -> Iterator[str]:
    hashed = f", {human_size(counts.bytes_hashed)} read" if counts.bytes_hashed else ""
    yield (
        f"Checked: {counts.refs} refs, {counts.commits} commits, {counts.metaranges} metaranges, "
        f"{counts.ranges} ranges, {counts.entries} entries, {counts.objects} data objects{hashed}"
    )
    if counts.external:
        asked, left = counts.external_asked, counts.external - counts.external_asked
        if asked:
            yield f"Checked outside the namespace: {asked} objects"
        if counts.external_archived:
            yield f"Archived, to be restored before they are read: {counts.external_archived}"
        if left:
            yield f"Not checked: {left} objects outside the namespace"
        yield from (f"  {line}" for line in place_lines(counts.outside))
    if counts.expired:
        yield f"Trees of old commits that retention rules let go: {counts.expired}"
    if counts.collected:
        yield f"Missing objects that only earlier commits need: {counts.collected}"
    if counts.unverified:
        yield f"Objects of lakeFS that cannot be verified: {counts.unverified}"
    yield f"Problems: {counts.findings}"
