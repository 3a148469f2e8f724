"""How ``lakecli gc`` tells where a collection stands, and what is garbage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakecli.cli.text import human_size, local_date

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.pipeline.gc.run import GcReport, GcStatus


def status_record(status: GcStatus) -> dict[str, Any]:
    """Return the JSON fields of a state."""
    return {
        "phase": status.phase,
        "epoch": status.epoch,
        "grace_seconds": int(status.grace.total_seconds()),
        "since": status.since,
        "sweep_at": status.sweep_at,
        "resume_at": status.resume_at,
    }


def report_record(report: GcReport, *, dry_run: bool) -> dict[str, Any]:
    """Return the JSON fields of what a run did."""
    return {
        "action": report.action,
        "dry_run": dry_run,
        **status_record(report.status),
        "objects": sum(each.objects for each in report.garbage),
        "size": sum(each.size for each in report.garbage),
        "spared": report.spared,
        "garbage": [each.fields() for each in report.garbage],
        "commits": report.commits,
        "ranges": report.ranges,
        "entries": report.entries,
        "lost": list(report.lost),
    }


def status_lines(status: GcStatus, uri: str) -> Iterator[str]:
    """Yield the lines about a state."""
    from lakecli.remote.collection import Phase

    if status.phase is Phase.IDLE:
        yield "Nothing is condemned." if status.epoch else "Garbage was never collected here."
    elif status.phase is Phase.CONDEMNED:
        assert status.since is not None
        assert status.sweep_at is not None
        yield f"Garbage is condemned since {local_date(status.since)}; nothing is deleted yet."
        yield f"It can be swept from {local_date(status.sweep_at)} on: lakecli gc run {uri}"
        yield f"Until a sweep begins it can be taken back: lakecli gc undo {uri}"
    else:
        assert status.resume_at is not None
        at = local_date(status.resume_at)
        yield "A sweep is under way or was interrupted. Until it ends, nobody else can write."
        yield f"If it is not under way any more, finish it from {at} on: lakecli gc run {uri}"
        yield f"or end it from then on, and delete nothing more: lakecli gc undo --force {uri}"


def report_lines(report: GcReport, uri: str, *, dry_run: bool) -> Iterator[str]:
    """Yield the lines about what a run did."""
    from lakecli.pipeline.gc.run import Action

    if report.commits or report.action in (Action.CONDEMNED, Action.FOUND_NOTHING):
        yield (
            f"In use: {_count(report.commits, 'commit')}, {_count(report.ranges, 'range')}, "
            f"{_count(report.entries, 'entry', 'entries')}"
        )
    if report.lost:
        yield (
            f"Unpushed work has lost {_count(len(report.lost), 'range or metarange')}; "
            "pushing it says which"
        )
    yield from _garbage_lines(report, dry_run=dry_run)
    if report.spared:
        yield f"Spared, for it is in use again: {_count(report.spared, 'object')}"
    if dry_run:
        yield from _next_lines(report, uri)
    else:
        yield from status_lines(report.status, uri)


def _next_lines(report: GcReport, uri: str) -> Iterator[str]:
    """Yield what comes after a dry run."""
    from lakecli.pipeline.gc.run import Action

    if report.action is Action.CONDEMNED:
        yield f"Nothing is changed; condemn it: lakecli gc run {uri}"
    elif report.action is Action.SWEPT:
        at = report.status.sweep_at
        when = "" if at is None else f" from {local_date(at)} on"
        yield f"Nothing is changed; it can be swept{when}: lakecli gc run {uri}"


def _count(number: int, one: str, several: str = "") -> str:
    return f"{number} {one if number == 1 else several or f'{one}s'}"


def _garbage_lines(report: GcReport, *, dry_run: bool) -> Iterator[str]:
    from lakecli.pipeline.gc.run import Action

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
