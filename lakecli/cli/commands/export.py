"""``lakecli export``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from lakecli.cli.context import Context
from lakecli.cli.engine import open_runner
from lakecli.cli.params import (
    NO_CONF,
    Completion,
    Conf,
    DryRun,
    Engine,
    EngineName,
    Kind,
    Master,
    Parallelism,
    PrefixUri,
)
from lakecli.cli.text import human_size
from lakecli.cli.transfers import (
    NoProgress,
    failure_records,
    parallelism,
    progress,
    raise_failures,
)
from lakecli.errors import UsageError
from lakecli.uri import parse_ref, ref_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.pipeline.exports.records import ExportReport
    from lakecli.uri import LakeUri


def export(
    context: Context,
    path: PrefixUri,
    destination: Annotated[
        str,
        typer.Argument(metavar="DEST", help="s3://…, gs://…, az://… or a directory"),
        Completion(Kind.DIRECTORY),
    ],
    *,
    since: Annotated[
        str,
        typer.Option("--since", metavar="REF", help="Only what has changed since this ref"),
    ] = "",
    dry_run: DryRun = False,
    no_success: Annotated[
        bool, typer.Option("--no-success", help="Write no _SUCCESS in the end")
    ] = False,
    no_verify: Annotated[
        bool,
        typer.Option("--no-verify", help="Let the store copy objects without reading them"),
    ] = False,
    workers: Parallelism = None,
    no_progress: NoProgress = False,
    engine: Engine = EngineName.AUTO,
    master: Master = "",
    conf: Conf = NO_CONF,
) -> None:
    """Copy the committed objects of a ref to another bucket or directory, under their names.

    The objects below PATH keep their names below DEST, so that tables partitioned by directories
    stay such tables. Every object is compared with its checksum on its way, and carries its
    content type and metadata where DEST can hold them. Large objects are copied by the store
    where DEST lies in the same store, after they were read once to compare them; --no-verify
    leaves that out and compares sizes only. Objects outside of the repository's storage
    namespace are compared with the size and the ETag that were recorded when they were imported.

    What is at DEST already and the same is not copied again, so the same command goes on where it
    was cut off. Nothing at DEST is deleted, except with --since: REF is what an earlier export
    has brought there, only what differs from it is copied, and what REF had and PATH has not is
    deleted, unless somebody has changed it. You are warned where DEST has no report of that.

    Objects named _SUCCESS are copied after all others, and an empty _SUCCESS is written last. A
    report, _lakecli_export_COMMIT_TIME_SUCCESS.json or …_FAILURE.json, is left beside it. Where
    some objects fail, the others are copied, the failures are listed, there is no _SUCCESS, and
    the exit code is 3.

    Examples:
        lakecli export lakefs://demo/v1.0/ s3://published/demo
        lakecli export lakefs://demo/main/tables/orders/ ./orders --dry-run
        lakecli export lakefs://demo/v1.1/ s3://published/demo --since v1.0
    """
    from lakecli.pipeline.exports.records import ExportOptions
    from lakecli.pipeline.exports.run import count_entries, summarise
    from lakecli.pipeline.exports.run import export as run

    target = _destination(destination)
    repository = context.synced_repository(path)
    ref, prefix, since = ref_of(path), path.path or b"", _since(context, path, since)
    size = count_entries(repository, ref, prefix, since=since)
    with (
        open_runner(context, engine=engine, master=master, conf=conf, size=size) as runner,
        progress(context, "export", hidden=no_progress or dry_run) as shown,
    ):
        options = ExportOptions(
            since=since,
            dry_run=dry_run,
            success=not no_success,
            verify=not no_verify,
            threads=parallelism(context, repository, workers),
            progress=shown,
        )
        report = run(repository, ref, prefix, target, runner=runner, options=options)
    if report.uncommitted:
        context.out.note(f"uncommitted changes of {ref_of(path)} are not exported")
    if report.since_was_exported is False:
        context.out.warn(
            f"{report.destination} has no report of an export of {since}: what has not changed "
            "since is taken to be there"
        )
    context.out.emit(_record(report, dry_run=dry_run), text=lambda: _lines(report, dry_run=dry_run))
    failures = [(each.path, each.why) for each in report.outcome.failures]
    problem = summarise(report)
    if problem is not None:
        raise_failures(context, failures, verb="export", hint=problem.hint or "")


def _destination(text: str) -> str:
    """Return what was typed with a relative directory made absolute."""
    if not text:
        raise UsageError("the name of DEST is empty")
    return text if "://" in text else os.path.abspath(text)  # noqa: PTH100 - links stay as typed


def _since(context: Context, path: LakeUri, text: str) -> str:
    """Return the ref of ``--since``, which may be typed as a URI."""
    if "://" not in text:
        return text
    uri = parse_ref(text, base=context.base_uri)
    if uri.repository != path.repository:
        raise UsageError(f"not of the same repository: {path} and {uri}")
    return ref_of(uri)


def _record(report: ExportReport, *, dry_run: bool) -> dict[str, object]:
    outcome = report.outcome
    failures = [(each.path, each.why) for each in outcome.failures]
    return {
        "commit_id": report.commit_id,
        "since_commit_id": report.since_commit_id,
        "since_was_exported": report.since_was_exported,
        "destination": report.destination,
        "uncommitted": report.uncommitted,
        "new": outcome.new.count,
        "new_size": outcome.new.size,
        "changed": outcome.changed.count,
        "changed_size": outcome.changed.size,
        "copied_by_store": outcome.by_store.count,
        "unchanged": outcome.unchanged.count,
        "unchanged_size": outcome.unchanged.size,
        "deleted": outcome.deleted.count,
        "deleted_size": outcome.deleted.size,
        "without_metadata": outcome.bare,
        "failed": outcome.failed,
        "failures": failure_records(failures),
        "status": report.status or None,
        "dry_run": dry_run,
    }


def _lines(report: ExportReport, *, dry_run: bool) -> Iterator[str]:
    outcome = report.outcome
    yield "Dry run, nothing was written:" if dry_run else "Export Summary:"
    yield ""
    yield f"Commit ID: {report.commit_id}"
    yield f"Destination: {report.destination}"
    for name, tally in (
        ("New", outcome.new),
        ("Changed", outcome.changed),
        ("Unchanged", outcome.unchanged),
        ("Deleted", outcome.deleted),
    ):
        yield f"{name}: {tally.count} ({human_size(tally.size)})"
    if outcome.by_store.count:
        yield f"Copied by the store: {outcome.by_store.count}"
    if outcome.bare:
        yield f"Without their metadata, which the destination cannot hold: {outcome.bare}"
    yield f"Failing: {outcome.failed}" if dry_run else f"Failed: {outcome.failed}"
    if report.status:
        yield f"Status report: {report.status}"
