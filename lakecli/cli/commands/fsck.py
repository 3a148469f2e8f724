"""``lakecli fsck``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lakecli.cli.context import Context
from lakecli.cli.engine import open_runner
from lakecli.cli.outside import place_lines, place_records
from lakecli.cli.params import (
    NO_CONF,
    Conf,
    DryRun,
    Engine,
    EngineName,
    Master,
    Parser,
    RepositoryUri,
    read_texts,
)
from lakecli.cli.text import human_size, one_line, quote_path
from lakecli.cli.transfers import parallelism, progress
from lakecli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.repository.check.thoroughness import Thoroughness
    from lakecli.repository.core.findings import Finding, FsckCounts
    from lakecli.repository.core.lake import Repository
    from lakecli.repository.core.outside import Place
    from lakecli.repository.repair.records import Lost, Repaired

SHOWN_PATHS: Final = 10


def fsck(
    context: Context,
    repository: RepositoryUri,
    *,
    data: Annotated[
        bool, typer.Option("--data", help="Read every data object and compare it with its name")
    ] = False,
    sample: Annotated[
        float | None,
        typer.Option(
            "--sample", metavar="PART", help="As --data, for a random part of them, such as 1%"
        ),
        Parser(read_part),
    ] = None,
    external: Annotated[
        bool,
        typer.Option(
            "--external", help="Ask for every object outside the namespace whether it changed"
        ),
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Heal what can be healed, and say what is lost")
    ] = False,
    places: Annotated[
        Sequence[str],
        typer.Option(
            "--from",
            metavar="PLACE",
            help="Look for lost objects in this directory or copy of the namespace too; may be "
            "repeated",
        ),
        Parser(read_texts, repeatable=True),
    ] = (),
    dry_run: DryRun = False,
    engine: Engine = EngineName.AUTO,
    master: Master = "",
    conf: Conf = NO_CONF,
) -> None:
    """Check that everything a repository refers to is there and is what it should be.

    Every branch and tag, every commit they reach, its tree, and every data object in it: of the
    right name, size and checksum; and in the storage namespace the shared refs and the commit
    packs. The storage namespace is read, not the cache. Without --data the contents of data
    objects are taken on trust. What is wrong is told line by line, with the paths and refs that
    it hurts, and the exit code is 8. Nothing is changed.

    Objects outside the storage namespace are counted by place. With --external each of them that
    may be read is asked for, one request each, and compared with what was recorded: size and ETag,
    or for files size, time and BLAKE3. What changed or is gone is a problem.

    With --repair, what can be healed is: objects that could not be read are read again, lost data
    objects are uploaded again from files of more than 1 MiB that were uploaded from this machine
    and still are what they were, or from any file below --from; ranges and metaranges come from
    the cache; all of them from a copy of the namespace that --from names by its URI. Commits that
    are missing here come from the commit packs, and missing packs are written from the commits
    that are here. Damaged files in the cache are dropped. Then everything is checked again. What
    is lost is told with the branches, tags and paths that it hurts, and with what to do. The exit
    code is 0 where all was healed.

    With --engine spark, data is hashed and ranges are read by Spark, with the same findings.

    Examples:
        lakecli fsck lakefs://demo
        lakecli fsck lakefs://demo --data
        lakecli fsck lakefs://demo --sample 1%
        lakecli fsck lakefs://demo --data --repair --from ./originals --dry-run
    """
    from lakecli.repository.check.fsck import count_entries, summarise
    from lakecli.repository.check.fsck import fsck as check
    from lakecli.repository.check.thoroughness import Thoroughness
    from lakecli.repository.core.findings import FsckCounts
    from lakecli.repository.core.outside import places_in

    if repair and external:
        raise UsageError(
            "--repair and --external exclude each other",
            hint="what changed outside the namespace can only be imported again",
        )
    if not repair and (places or dry_run):
        raise UsageError("--from and --dry-run are about repairing", hint="add --repair")
    opened = context.synced_repository(repository)
    reads = data or sample is not None
    with (
        open_runner(
            context,
            engine=engine,
            master=master,
            conf=conf,
            size=count_entries(opened) if engine is EngineName.AUTO else None,
            parallelism=parallelism(context, opened, None),
        ) as runner,
        progress(context, "fsck", hidden=not reads) as shown,
    ):
        bulk = None
        if reads or runner.name != "local":
            from lakecli.pipeline.fsck import RunnerBulk

            bulk = RunnerBulk(
                opened,
                runner,
                progress=shown,
                reads_ranges=runner.name != "local",
            )
        part = 1.0 if data or sample is None else sample
        how = Thoroughness(reads, part, bulk, external=external)
        if repair:
            counts = _repair(context, opened, how, places, dry_run=dry_run)
        else:
            counts = FsckCounts()
            findings = check(opened, counts=counts, thoroughness=how)
            context.out.stream(findings, record=_finding_record, text=_finding_line)
    outside = places_in(opened, counts.places)
    context.out.stream(
        [counts],
        record=lambda found: {**_counts_record(found), "outside": place_records(outside)},
        text=lambda found: "\n".join(_lines(found, outside)),
    )
    problem = summarise(counts)
    if problem is not None:
        if repair:
            problem.hint = (
                "nothing was changed; without --dry-run what can be repaired is"
                if dry_run
                else "what is told as lost above says what to do"
            )
        raise problem


def _repair(
    context: Context,
    repository: Repository,
    how: Thoroughness,
    places: Sequence[str],
    *,
    dry_run: bool,
) -> FsckCounts:
    """Repair, tell everything, and return what the last check found."""
    from lakecli.repository.check.fsck import fsck as check
    from lakecli.repository.repair.records import RepairCounts
    from lakecli.repository.repair.run import repair

    counts = RepairCounts()
    told = repair(
        repository,
        lambda fresh: check(repository, counts=fresh, thoroughness=how),
        places=[place if "://" in place else os.path.abspath(place) for place in places],  # noqa: PTH100
        dry_run=dry_run,
        counts=counts,
    )
    context.out.stream(
        told,
        record=lambda item: _record(item, dry_run=dry_run),
        text=lambda item: _text(item, dry_run=dry_run),
    )
    return counts.checked


def read_part(text: str, _context: Context) -> float:
    """Read ``1%`` or ``0.01``.

    Raises:
        UsageError: it is no part of a whole.
    """
    try:
        part = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        part = 0.0
    if not 0 < part <= 1:
        raise UsageError(f"no part of a whole: {text!r}", hint="such as 1% or 0.01")
    return part


def _record(item: Finding | Repaired | Lost, *, dry_run: bool) -> dict[str, object]:
    from lakecli.repository.repair.records import Lost, Repaired

    if isinstance(item, Repaired):
        kind = "repairable" if dry_run else "repaired"
        return {"type": kind, "kind": item.kind, "name": item.name, "how": item.how}
    if isinstance(item, Lost):
        return {
            "type": "lost",
            "kind": item.kind,
            "name": item.name,
            "what": item.what,
            "hurt_refs": list(item.refs),
            "hurt_paths": list(item.paths),
            "hurt_path_count": item.path_count,
            "advice": item.advice,
        }
    return _finding_record(item)


def _text(item: Finding | Repaired | Lost, *, dry_run: bool) -> str:
    from lakecli.repository.repair.records import Lost, Repaired

    if isinstance(item, Repaired):
        verb = "can be repaired" if dry_run else "repaired"
        return f"{verb}: {item.kind} {one_line(item.name)}: {one_line(item.how)}"
    if isinstance(item, Lost):
        return "\n".join(_lost_lines(item))
    return _finding_line(item)


def _lost_lines(lost: Lost) -> Iterator[str]:
    yield f"lost: {lost.kind} {one_line(lost.name)}: {one_line(lost.what)}"
    if lost.refs:
        yield f"  hurts {', '.join(lost.refs)}"
    if lost.paths:
        yield from (f"  path {quote_path(path)}" for path in lost.paths[:SHOWN_PATHS])
        if len(lost.paths) > SHOWN_PATHS:
            yield f"  and {lost.path_count - SHOWN_PATHS} more paths"
    elif lost.path_count:
        yield f"  with {lost.path_count} paths"
    yield f"  {one_line(lost.advice)}"


def _finding_line(finding: Finding) -> str:
    parts = [f"{finding.kind} {one_line(finding.name)}: {one_line(finding.what)}"]
    if finding.path is not None:
        parts.append(f"path {quote_path(finding.path)}")
    if finding.ref:
        parts.append(f"on {finding.ref}")
        commit = finding.commit_id
        parts.append("uncommitted" if commit is None else f"commit {commit}")
    return ", ".join(parts)


def _finding_record(finding: Finding) -> dict[str, object]:
    return {
        "type": "finding",
        "kind": finding.kind,
        "name": finding.name,
        "what": finding.what,
        "path": finding.path,
        "ref": finding.ref or None,
        "commit_id": finding.commit_id,
    }


def _counts_record(counts: FsckCounts) -> dict[str, object]:
    return {
        "type": "summary",
        "refs": counts.refs,
        "commits": counts.commits,
        "metaranges": counts.metaranges,
        "ranges": counts.ranges,
        "entries": counts.entries,
        "objects": counts.objects,
        "bytes_hashed": counts.bytes_hashed,
        "external": counts.external,
        "external_asked": counts.external_asked,
        "findings": counts.findings,
        "damaged_refs": sorted(counts.damaged_refs),
    }


def _lines(counts: FsckCounts, outside: Sequence[Place]) -> Iterator[str]:
    hashed = f", {human_size(counts.bytes_hashed)} read" if counts.bytes_hashed else ""
    yield (
        f"Checked: {counts.refs} refs, {counts.commits} commits, {counts.metaranges} metaranges, "
        f"{counts.ranges} ranges, {counts.entries} entries, {counts.objects} data objects{hashed}"
    )
    if counts.external:
        asked, left = counts.external_asked, counts.external - counts.external_asked
        if asked:
            yield f"Asked for: {asked} objects outside of the namespace"
        if left:
            yield f"Not checked: {left} entries whose bytes lie outside of the namespace"
        yield from (f"  {line}" for line in place_lines(outside))
    yield f"Problems: {counts.findings}"
