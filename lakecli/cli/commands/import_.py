"""``lakecli import``."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from lakecli.cli.context import Context
from lakecli.cli.engine import open_runner
from lakecli.cli.messages import check_message
from lakecli.cli.params import (
    NO_CONF,
    NO_METADATA,
    Completion,
    Conf,
    DryRun,
    Engine,
    EngineName,
    Kind,
    Master,
    Message,
    Metadata,
    Parallelism,
    Parser,
    read_branch_prefix,
)
from lakecli.cli.records import commit_record
from lakecli.cli.text import human_size, local_date, one_line
from lakecli.cli.transfers import (
    NoProgress,
    failure_records,
    parallelism,
    progress,
    raise_failures,
)
from lakecli.errors import UsageError
from lakecli.uri import LakeUri, ref_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.pipeline.imports.job import ImportReport
    from lakecli.pipeline.imports.rows import Failure

SHOWN_FAILURES = 100


class Mode(StrEnum):
    """What becomes of objects below the destination that the source lacks."""

    REPLACE = "replace"
    MERGE = "merge"


def import_(
    context: Context,
    *,
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="URI",
            help="A directory, a prefix of a bucket, a manifest or an S3 Inventory",
        ),
        Completion(Kind.DIRECTORY),
    ] = "",
    target: Annotated[
        LakeUri | None,
        typer.Option("--to", metavar="PATH", help="lakefs://REPOSITORY/BRANCH/[PREFIX]"),
        Parser(read_branch_prefix),
        Completion(Kind.PATH),
    ] = None,
    mode: Annotated[
        Mode,
        typer.Option(
            "--mode", metavar="MODE", help="What is below PREFIX: replace it, or merge into it"
        ),
    ] = Mode.REPLACE,
    copy: Annotated[
        bool, typer.Option("--copy", help="Copy the bytes into the repository's namespace")
    ] = False,
    manifest: Annotated[
        bool, typer.Option("--manifest", help="URI is a list of objects, whatever it is called")
    ] = False,
    pin_versions: Annotated[
        bool,
        typer.Option("--pin-versions", help="Record the current version of each object (S3)"),
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Import what symbolic links in a directory point to")
    ] = False,
    skip: Annotated[
        bool, typer.Option("--skip", help="Leave out symbolic links and special files")
    ] = False,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="Import an empty directory or prefix")
    ] = False,
    message: Message = "Import objects",
    allow_empty_message: Annotated[
        bool, typer.Option("--allow-empty-message", help="Commit without a message")
    ] = True,
    metadata: Metadata = NO_METADATA,
    allow_empty_commit: Annotated[
        bool, typer.Option("--allow-empty-commit", help="Commit even if nothing changes")
    ] = False,
    dry_run: DryRun = False,
    engine: Engine = EngineName.AUTO,
    master: Master = "",
    conf: Conf = NO_CONF,
    workers: Parallelism = None,
    no_progress: NoProgress = False,
    merge: Annotated[
        bool, typer.Option("--merge", hidden=True, help="lakectl's old name of --mode merge")
    ] = False,
) -> None:
    """Import objects that lie elsewhere, in one commit.

    Everything below PREFIX is replaced by what the source lists, under the names that it has
    there; without a PREFIX, everything on the branch. PREFIX means whole path components: `data`
    is not the beginning of `database/`. With --mode merge, what the source lacks stays. A
    directory or prefix without any object is refused, since a disk that is not mounted looks like
    one; --allow-empty insists.

    Bytes are not moved: entries point to where the objects are, with the source's own checksum
    (the files of a directory are read once, to have one). Objects that are deleted or overwritten
    there are lost here too; --copy takes the bytes into the repository.

    With --pin-versions each entry's address names the version that the object has now
    (`s3://BUCKET/KEY?versionId=ID`), and reading, presigning and `fsck --external` use that
    version: overwriting the object changes nothing here, only deleting the version does (lifecycle
    rules may). This needs an S3 bucket with versioning enabled; other stores, directories,
    manifests and buckets without versioning are refused. The import needs the permissions
    s3:GetBucketVersioning and s3:ListBucketVersions, and whoever reads s3:GetObjectVersion.
    Objects and versions are listed a thousand per request each, old versions and deletion markers
    included.
    The address is part of an entry's identity, so an object with another version counts as changed
    even if its bytes are the same. The form is lakecli's own: lakeFS may not find these objects.

    A source is a directory; a prefix of a bucket; a manifest, which is a file of Parquet, CSV or
    JSON lines with the columns path, physical_address, size and checksum, and perhaps mtime and
    content_type; or the manifest.json of an S3 Inventory. A manifest is known by its suffix
    (.parquet, .csv, .jsonl, .ndjson, and .gz after the last three), or by --manifest.

    The branch must have no uncommitted changes. Two objects for one path, or one that cannot be
    read, and nothing is committed. The same command after an interruption goes on where it was.

    Examples:
        lakecli import --from s3://bucket/raw/ --to lakefs://demo/main/raw/
        lakecli import --from ./export --to lakefs://demo/main/export --dry-run
        lakecli import --from s3://bucket/new/ --to lakefs://demo/main/raw/ --mode merge --copy
        lakecli import --from s3://bucket/raw/ --to lakefs://demo/main/raw/ --pin-versions
        lakecli import --from listing.parquet --to lakefs://demo/main/ -m "All of it"
        lakecli import --from s3://inv/b/daily/2026-03-01T01-00Z/manifest.json --to \
lakefs://demo/main/
    """
    if not source or target is None:
        missing = "--to" if source else "--from"
        raise UsageError(f"{missing} is missing", hint="lakecli import --from URI --to PATH")
    if copy and pin_versions:
        raise UsageError("--copy and --pin-versions exclude each other", hint="give one of them")
    if follow and skip:
        raise UsageError("--follow and --skip exclude each other", hint="give one of them")
    check_message(message, allow_empty=allow_empty_message)
    from lakecli.pipeline.imports import job
    from lakecli.pipeline.imports.sources import open_source
    from lakecli.repository.core.walk import LinkPolicy

    repository = context.synced_repository(target)
    links = LinkPolicy.FOLLOW if follow else LinkPolicy.SKIP if skip else LinkPolicy.FAIL
    opened = open_source(
        repository, source, is_manifest=manifest, links=links, may_be_empty=allow_empty
    )
    with (
        open_runner(
            context,
            engine=engine,
            master=master,
            conf=conf,
            size=opened.estimate(),
            parallelism=parallelism(context, repository, workers),
        ) as runner,
        progress(context, "import", hidden=no_progress) as shown,
    ):
        options = job.ImportOptions(
            replaces=mode is Mode.REPLACE and not merge,
            copies=copy,
            pins=pin_versions,
            message=message,
            metadata=metadata,
            allow_empty=allow_empty_commit,
            progress=shown,
        )
        where = (repository, ref_of(target), target.path)
        if dry_run:
            report = job.preview(*where, source=opened, runner=runner, options=options)
        else:
            report = job.import_objects(
                *where,
                source=opened,
                runner=runner,
                committer=context.committer(),
                options=options,
            )
    context.out.emit(_record(report), text=lambda: _lines(report, target, is_dry=dry_run))
    _raise_failures(context, report)


def _raise_failures(context: Context, report: ImportReport) -> None:
    failures = report.failures[:SHOWN_FAILURES]
    raise_failures(
        context,
        [(failure.path, failure.why) for failure in failures],
        verb="import",
        hint="nothing was committed; repeat the import once these are fixed"
        + (", or see --follow and --skip" if _has_links(failures) else ""),
        count=report.failed,
    )


def _has_links(failures: list[Failure]) -> bool:
    """Whether files are among them that --follow or --skip is about."""
    return any(
        failure.why.startswith(("a symbolic link", "a special file")) for failure in failures
    )


def _record(report: ImportReport) -> dict[str, object]:
    tally = report.tally
    return {
        "objects": tally.objects,
        "size": tally.size,
        "added": tally.added,
        "changed": tally.changed,
        "removed": tally.removed,
        "unchanged": tally.unchanged,
        "failed": report.failed,
        "failures": failure_records([(failure.path, failure.why) for failure in report.failures]),
        "commit": None if report.commit is None else commit_record(report.commit),
    }


def _lines(report: ImportReport, target: LakeUri, *, is_dry: bool) -> Iterator[str]:
    tally = report.tally
    if is_dry:
        yield "Dry run, nothing was imported:"
        yield ""
    elif report.commit is not None:
        yield f'Import of {tally.objects} object(s) into "{ref_of(target)}" completed.'
    yield f"Objects: {tally.objects} ({human_size(tally.size)})"
    for name in ("added", "changed", "removed", "unchanged"):
        yield f"{name.capitalize()}: {getattr(tally, name)}"
    if report.failed:
        yield f"Failed: {report.failed}"
    if report.commit is not None:
        commit = report.commit
        yield f"MetaRange ID: {commit.metarange_id}"
        yield f"Commit ID: {commit.id}"
        yield f"Message: {one_line(commit.message)}"
        yield f"Timestamp: {local_date(commit.created_at)}"
        yield f"Parents: {', '.join(commit.parents)}"
