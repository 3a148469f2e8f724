"""The state of garbage collection and its garbage, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator

from lakecli.cli.out.answers import pick
from lakecli.cli.out.answers.collection import (
    AcceptedRef,
    Collection,
    CollectionState,
    GarbageSummary,
    KeptDump,
    RefGarbage,
)
from lakecli.cli.out.text import human_size, local_date
from lakecli.gc.report import Summary
from lakecli.gc.run import Action, GcReport, GcStatus
from lakecli.remote.collection import Phase
from lakecli.repository.lakefs.dump import manifest_fields


def status_record(status: GcStatus) -> CollectionState:
    """Return the JSON answer about a state."""
    dumps = [pick(KeptDump, each, **manifest_fields(each.manifest)) for each in status.dumps]
    return pick(
        CollectionState,
        status,
        grace_seconds=int(status.grace.total_seconds()),
        dumps=dumps,
        summary=_summary_record(status.summary),
    )


def _summary_record(summary: Summary | None) -> GarbageSummary | None:
    if summary is None:
        return None
    return pick(GarbageSummary, summary, refs=[pick(RefGarbage, each) for each in summary.refs])


def report_record(report: GcReport, *, dry_run: bool) -> Collection:
    """Return the JSON answer about a run."""
    return pick(
        Collection,
        report,
        **{**status_record(report.status), "summary": _summary_record(report.summary)},
        dry_run=dry_run,
        objects=sum(each.objects for each in report.garbage),
        size=sum(each.size for each in report.garbage),
        garbage=[each.fields() for each in report.garbage],
        accepted=[pick(AcceptedRef, each) for each in report.accepted],
    )


def status_lines(status: GcStatus, uri: str) -> Iterator[str]:
    """Yield the lines about a state."""
    if status.phase is Phase.IDLE:
        yield "Nothing is condemned." if status.epoch else "Garbage was never collected."
    elif status.phase is Phase.CONDEMNED:
        assert status.since is not None
        assert status.sweep_at is not None
        yield f"Garbage was condemned at {local_date(status.since)}; nothing has been deleted yet."
        yield from _summary_lines(status.summary)
        yield f"To delete it from {local_date(status.sweep_at)} on: lakecli gc run {uri}"
        yield f"To cancel before that: lakecli gc undo {uri}"
    else:
        assert status.resume_at is not None
        at = local_date(status.resume_at)
        yield "A sweep is running or was interrupted. Until it ends, other commands cannot write."
        yield from _summary_lines(status.summary)
        yield f"If it is no longer running, finish it from {at} on: lakecli gc run {uri}"
        yield f"or end it without deleting more: lakecli gc undo --force {uri}"
    for each in status.dumps:
        yield (
            f"Kept until {local_date(each.until)}: the refs dump of {local_date(each.since)}, "
            f"commits {each.manifest.commits}"
        )


def _summary_lines(summary: Summary | None) -> Iterator[str]:
    if summary is not None:
        yield f"By branch: {summary}"


def report_lines(report: GcReport, uri: str, *, dry_run: bool) -> Iterator[str]:
    """Yield the lines about a run."""
    for each in report.accepted:
        yield f"{'Would accept' if dry_run else 'Accepted'}: {each}"
    if report.commits or report.action in (Action.CONDEMNED, Action.FOUND_NOTHING):
        yield (
            f"In use: {_count(report.commits, 'commit')}, {_count(report.ranges, 'range')}, "
            f"{_count(report.entries, 'entry', 'entries')}"
        )
    if report.lost:
        yield (
            f"Unpushed commits have lost {_count(len(report.lost), 'range or metarange')}; "
            "a push lists them"
        )
    yield from _garbage_lines(report, dry_run=dry_run)
    if dry_run or report.action is Action.SWEPT:  # otherwise the state has it
        yield from _summary_lines(report.summary)
    if report.spared:
        yield f"Spared because it is in use again: {_count(report.spared, 'object')}"
    if dry_run:
        yield from _next_lines(report, uri)
    else:
        yield from status_lines(report.status, uri)


def _next_lines(report: GcReport, uri: str) -> Iterator[str]:
    """Yield the lines about the next step after a dry run."""
    if report.action is Action.CONDEMNED:
        yield f"Nothing was changed; to condemn it: lakecli gc run {uri}"
    elif report.action is Action.SWEPT:
        at = report.status.sweep_at
        when = "" if at is None else f" from {local_date(at)} on"
        yield f"Nothing was changed; to sweep it{when}: lakecli gc run {uri}"


def _count(number: int, one: str, several: str = "") -> str:
    return f"{number} {one if number == 1 else several or f'{one}s'}"


def _garbage_lines(report: GcReport, *, dry_run: bool) -> Iterator[str]:

    if report.action is Action.WAITS:
        return
    if not report.garbage:
        yield "No garbage." if report.action is not Action.SWEPT else "Nothing to delete."
        return
    verb = {Action.CONDEMNED: "Condemned", Action.SWEPT: "Deleted"}[report.action]
    if dry_run:
        verb = {"Condemned": "Would condemn", "Deleted": "Would delete"}[verb]
    size = human_size(sum(each.size for each in report.garbage))
    yield f"{verb}: {_count(sum(each.objects for each in report.garbage), 'object')}, {size}"
    rows = [
        (each.prefix, each.kind, str(each.objects), human_size(each.size), each.why)
        for each in report.garbage
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for prefix, kind, objects, amount, why in rows:
        yield (
            f"  {prefix:{widths[0]}}  {kind:{widths[1]}}  {objects:>{widths[2]}}  "
            f"{amount:>{widths[3]}}  {why}"
        )
