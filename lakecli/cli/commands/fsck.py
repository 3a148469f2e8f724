"""``lakecli fsck``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakecli.cli.context import Context
from lakecli.cli.params import RepositoryUri
from lakecli.cli.text import human_size, one_line, quote_path
from lakecli.cli.transfers import progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.repository.fsck import Finding, FsckCounts


def fsck(
    context: Context,
    repository: RepositoryUri,
    *,
    data: Annotated[
        bool, typer.Option("--data", help="Read every data object and compare it with its name")
    ] = False,
) -> None:
    """Check that everything a repository refers to is there and is what it should be.

    Every branch and tag, every commit they reach, its tree, and every data object in it: of the
    right name, size and checksum. The storage namespace is read, not the cache. Without --data
    the contents of data objects are taken on trust. What is wrong is told line by line, with the
    paths and refs that it hurts, and the exit code is 8. Nothing is changed.

    Examples:
        lakecli fsck lakefs://demo
        lakecli fsck lakefs://demo --data
    """
    from lakecli.repository.fsck import FsckCounts, summarise
    from lakecli.repository.fsck import fsck as check

    counts = FsckCounts()
    opened = context.repository(repository)
    with progress(context, "fsck", hidden=not data) as shown:
        findings = check(
            opened,
            hash_data=data,
            counts=counts,
            on_bytes=lambda size: shown.advance(size=size),
            on_object=lambda: shown.advance(items=1),
        )
        context.out.stream(findings, record=_finding_record, text=_finding_line)
    context.out.stream([counts], record=_counts_record, text=lambda found: "\n".join(_lines(found)))
    problem = summarise(counts)
    if problem is not None:
        raise problem


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
        "findings": counts.findings,
        "damaged_refs": sorted(counts.damaged_refs),
    }


def _lines(counts: FsckCounts) -> Iterator[str]:
    hashed = f", {human_size(counts.bytes_hashed)} read" if counts.bytes_hashed else ""
    yield (
        f"Checked: {counts.refs} refs, {counts.commits} commits, {counts.metaranges} metaranges, "
        f"{counts.ranges} ranges, {counts.entries} entries, {counts.objects} data objects{hashed}"
    )
    if counts.external:
        yield f"Not checked: {counts.external} entries whose bytes lie outside of the namespace"
    yield f"Problems: {counts.findings}"
