"""``lakecli export``: copy committed objects to another bucket or directory."""

import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypedDict

from lakecli.base.model import CommitId
from lakecli.base.pipes import is_stdout
from lakecli.base.uri import LakeUri, parse_ref, ref_of
from lakecli.cli.commands import transfers
from lakecli.cli.commands.engine import SPARK_FROM, open_runner
from lakecli.cli.commands.output_file import check_writable, replacing
from lakecli.cli.context import Context
from lakecli.cli.line import Kind, argument, flag, option
from lakecli.cli.out.records import FailureJson, answers, fields_of, pick
from lakecli.cli.out.text import human_size
from lakecli.cli.params import DryRun, EngineOptions, PrefixUri, TransferOptions
from lakecli.errors import UsageError
from lakecli.exports import run as exporting
from lakecli.exports.manifests import check_can_write, write_manifest, write_symlinks
from lakecli.stores.uri import normalise

_COUNTED: Final = ("new", "changed", "unchanged", "deleted")


class ExportManifestJson(TypedDict):
    """A manifest that export --to-lakefs-import wrote.

    The other fields are those of `WrittenManifest`.

    Attributes:
        destination: path of the manifest.
    """

    destination: str


class ExportSymlinksJson(TypedDict):
    """The manifests that export --symlink wrote, or with --dry-run would write.

    The other fields are those of `WrittenSymlinks`.

    Attributes:
        destination: normalised URI of the destination; the manifests are below this URI in
            _symlink_format_manifest/.
        dry_run: true if nothing was written, because of --dry-run.
    """

    destination: str
    dry_run: bool


class ExportJson(TypedDict):
    """The result of an export.

    Attributes:
        commit_id: the commit that was exported.
        since_commit_id: with --since, the commit of the earlier export.
        since_was_exported: whether the destination has a report of the earlier export.
        destination: URI of the destination.
        uncommitted: whether the branch has uncommitted changes, which were not exported.
        new: number of objects that the destination lacked.
        new_size: size of the new objects in bytes.
        changed: number of objects that replaced an object of the destination.
        changed_size: size of the changed objects in bytes.
        copied_by_store: number of new and changed objects that the store copied itself.
        unchanged: number of objects that the destination had already.
        unchanged_size: size of the unchanged objects in bytes.
        deleted: number of objects that the earlier ref has and this ref lacks.
        deleted_size: size of the deleted objects in bytes.
        without_metadata: number of objects whose metadata the destination does not support.
        failed: number of objects that were not exported because of an error.
        failures: the objects that failed, at most 10000, with the reasons.
        left_out: paths that were left out because Git, lakecli or the operating system reserves
            their names.
        status: path of the report, relative to the destination; null with --dry-run.
        dry_run: true if nothing was changed, because of --dry-run.
    """

    commit_id: CommitId
    since_commit_id: CommitId | None
    since_was_exported: bool | None
    destination: str
    uncommitted: bool
    new: int
    new_size: int
    changed: int
    changed_size: int
    copied_by_store: int
    unchanged: int
    unchanged_size: int
    deleted: int
    deleted_size: int
    without_metadata: int
    failed: int
    failures: Sequence[FailureJson]
    left_out: Sequence[bytes | str]
    status: str | None
    dry_run: bool


class ExportPlanJson(transfers.PlannedStep):
    """The action of an export for one path; the last object has the totals of the export.

    Attributes:
        action: new, changed, unchanged, deleted or failed; total in the last object. Only the last
            object has the fields listed after error.
        path: path of the object; null in the last object.
        size: size in bytes.
        error: the reason of a failure.
    """


@answers(ExportJson)
@answers(ExportPlanJson, each=True, option="--dry-run", also=ExportJson)
@answers(ExportManifestJson, option="--to-lakefs-import")
@answers(ExportSymlinksJson, option="--symlink")
def export(
    context: Context,
    path: PrefixUri,
    destination: str = argument("DEST", kind=Kind.DIRECTORY),
    *,
    since: str = option("REF", kind=Kind.NOTHING),
    dry_run: DryRun = False,
    no_success: bool = flag(),
    no_verify: bool = flag(),
    to_lakefs_import: bool = flag(),
    symlink: bool = flag(),
    transfer: TransferOptions,
    engine: EngineOptions,
) -> None:
    """Copy the committed objects of a ref to another bucket or directory.

    Objects below PATH keep their names below DEST, so partitioned tables stay partitioned. The
    bytes of each object are compared with its checksum; content type, Content-Encoding and metadata
    are kept if DEST supports them. For an object that was imported without copying, a HEAD request
    to its store reads content type and Content-Encoding. If DEST is in the same store, large
    objects are read once to verify them and then copied by the store itself; --no-verify skips the
    reading and compares sizes only. Objects outside the storage namespace are compared with the
    size and ETag that were recorded at their import; a changed object fails.

    Objects that are at DEST already are not copied again, so the same command continues an
    interrupted export. Nothing at DEST is deleted, except with --since REF, which names the ref of
    an earlier export to DEST: only objects that differ from REF are copied, and objects that are in
    REF but not in PATH are deleted at DEST unless somebody has changed them there. If DEST has no
    report of an export of REF, a warning says so.

    After copying to a bucket, export lists the bucket again. An object that is missing from the
    list has failed, and so has an object that another one has replaced: some servers treat x//y and
    x/y as the same name.

    Objects named _SUCCESS are copied last; then an empty _SUCCESS is written, and a report named
    _lakecli_export_COMMIT_TIME_SUCCESS.json or …_FAILURE.json. If some objects fail, the others are
    copied, the failures are listed, no _SUCCESS is written, and the exit code is 3. The _SUCCESS of
    an earlier export is deleted first.

    --dry-run lists every path with what would be done: new, changed, unchanged, deleted or failed.
    With --json it prints one object for each, and the totals in the last one.

    With --to-lakefs-import, no object is copied. A Parquet manifest, sorted by path, is written to
    DEST, a file of this machine. Its columns are path (relative to PATH), physical_address (a full
    URI), size, checksum, mtime, content_type and metadata. `lakecli import` and any reader of
    Parquet can read it. `lakectl import` reads only prefixes; lakeFS's import API accepts each
    address as a source of type object. Writing the manifest needs pyarrow.

    With --symlink, no object is copied either. PATH is the directory of a table. The addresses of
    its objects are written to _symlink_format_manifest/ below DEST, in a file named manifest, or in
    one such file for each directory column=value. Trino, Athena and Hive read these files as a
    table of the format SymlinkTextInputFormat; lakecli-import(7) has the statement. The same
    command for a later commit replaces the manifests one by one, and deletes those of partitions
    that are gone. Garbage collection ignores manifests, so export a tag. A table is refused if
    Hadoop would read a wrong object, or none, at an address: one that has * ? [ { : or a backslash,
    two slashes in a row, . or .. between slashes, or whose last name begins with . or _.

    Args:
        destination: s3://…, gs://…, az://… or a directory.
        since: Only what differs from this ref, which was exported before.
        no_success: Write no _SUCCESS at the end.
        no_verify: Let the store copy objects unverified; compare sizes only.
        to_lakefs_import: Copy nothing: write a Parquet manifest of paths and addresses to the file
            DEST.
        symlink: Copy nothing: write manifests of addresses for Trino, Athena and Hive.

    Examples:
        lakecli export lakefs://demo/v1.0/ s3://published/demo
        lakecli export lakefs://demo/main/tables/orders/ ./orders --dry-run
        lakecli export lakefs://demo/v1.1/ s3://published/demo --since v1.0
        lakecli export lakefs://demo/v1.0/ paths.parquet --to-lakefs-import
        lakecli export lakefs://demo/v1.0/orders/ s3://published/orders --symlink
    """
    if symlink:
        if since or no_success or no_verify or to_lakefs_import:
            raise UsageError(
                "--symlink copies nothing: --since, --no-success, --no-verify and "
                "--to-lakefs-import do not apply",
                hint="leave them out",
            )
        _write_symlinks(context, path, destination, dry=dry_run, hidden=transfer.no_progress)
        return
    if to_lakefs_import:
        if since or dry_run or no_success or no_verify:
            raise UsageError(
                "--to-lakefs-import copies nothing: --since, --dry-run, --no-success and "
                "--no-verify do not apply",
                hint="leave them out",
            )
        _write_manifest(context, path, destination, hidden=transfer.no_progress)
        return

    target = _destination(destination)
    repository = context.synced_repository(path)
    ref, prefix, since = ref_of(path), path.path or b"", _since(context, path, since)
    size = exporting.count_exported(repository, ref, prefix, since=since, check_from=SPARK_FROM)
    with (
        open_runner(context, engine, repository=repository, size=size) as runner,
        context.out.progress("export", hidden=transfer.no_progress or dry_run) as shown,
    ):
        options = exporting.ExportOptions(
            since=since,
            dry_run=dry_run,
            success=not no_success,
            verify=not no_verify,
            threads=context.parallelism(repository, transfer.workers),
            progress=shown,
            on_steps=partial(transfers.show_steps, context),
        )
        report = exporting.export(repository, ref, prefix, target, runner=runner, options=options)
    transfers.note_left_out(context, report.outcome.left_out)
    if report.uncommitted:
        context.out.note(f"uncommitted changes of {ref_of(path)} are not exported")
    if report.since_was_exported is False:
        context.out.warn(
            f"{report.destination} has no report of an export of {since}; objects that did "
            "not change since are assumed to be there"
        )
    record = dict(_record(report, dry_run=dry_run))
    if dry_run:
        record = {"action": "total", "path": None, **record}
    context.out.emit(record, text=lambda: _lines(report, dry_run=dry_run))
    failures = [(each.path, each.why) for each in report.outcome.failures]
    problem = exporting.summarise(report)
    if problem is not None:
        count, hint = report.outcome.failed, problem.hint or ""
        transfers.raise_failures(context, failures, verb="export", hint=hint, count=count)


def _write_manifest(context: Context, path: LakeUri, destination: str, *, hidden: bool) -> None:
    check_can_write()
    if not destination or "://" in destination:
        raise UsageError(
            f"DEST has to be a file of this machine with --to-lakefs-import: {destination!r}",
            hint="write the manifest here, then copy it",
        )
    check_writable(target := Path(destination))
    repository, ref = context.synced_repository(path), ref_of(path)
    with context.out.progress("export", hidden=hidden) as shown, replacing(target) as file:
        written = write_manifest(repository, ref, path.path or b"", file, progress=shown)
    if written.uncommitted:
        context.out.note(f"uncommitted changes of {ref} are not exported")
    if is_stdout(target):
        return
    context.out.emit(
        fields_of(written) | {"destination": destination},
        text=lambda: [
            f"Commit: {written.commit_id}",
            f"Manifest: {destination}",
            f"objects: {written.objects}, {human_size(written.size)}",
        ],
    )


def _write_symlinks(
    context: Context, path: LakeUri, destination: str, *, dry: bool, hidden: bool
) -> None:
    target = _destination(destination)
    repository, ref = context.synced_repository(path), ref_of(path)
    with context.out.progress("export", hidden=hidden or dry) as shown:
        written = write_symlinks(
            repository, ref, path.path or b"", target, dry_run=dry, progress=shown
        )
    if written.uncommitted:
        context.out.note(f"uncommitted changes of {ref} are not exported")
    uri = normalise(target)
    context.out.emit(
        fields_of(written) | {"destination": uri, "dry_run": dry},
        text=lambda: [
            *(["Dry run, nothing was written:", ""] if dry else []),
            f"Commit: {written.commit_id}",
            f"Destination: {uri}",
            f"manifests: {written.manifests}, {written.removed} removed",
            f"objects: {written.objects}, {human_size(written.size)}",
        ],
    )


def _destination(text: str) -> str:
    """Return the destination of an export; a relative directory is made absolute."""
    if not text:
        raise UsageError("DEST is empty")
    return text if "://" in text else os.path.abspath(text)  # noqa: PTH100 - links stay as typed


def _since(context: Context, path: LakeUri, text: str) -> str:
    """Return the ref that ``--since`` names: a ref, or the URI of a ref in the same repository."""
    if "://" not in text:
        return text
    uri = parse_ref(text, base=context.base_uri)
    if uri.repository != path.repository:
        raise UsageError(f"not of the same repository: {path} and {uri}")
    return ref_of(uri)


def _record(report: exporting.ExportReport, *, dry_run: bool) -> ExportJson:
    outcome = report.outcome
    counts = {name: getattr(outcome, name) for name in _COUNTED}
    return pick(
        ExportJson,
        report,
        outcome,
        **{name: tally.count for name, tally in counts.items()},
        **{f"{name}_size": tally.size for name, tally in counts.items()},
        copied_by_store=outcome.by_store.count,
        without_metadata=outcome.bare,
        failures=transfers.failure_records([(each.path, each.why) for each in outcome.failures]),
        status=report.status or None,
        dry_run=dry_run,
    )


def _lines(report: exporting.ExportReport, *, dry_run: bool) -> Iterator[str]:
    outcome = report.outcome
    if dry_run:
        yield ""
    yield "Dry run, nothing was written:" if dry_run else "Export Summary:"
    yield ""
    yield f"Commit ID: {report.commit_id}"
    yield f"Destination: {report.destination}"
    for name in _COUNTED:
        tally = getattr(outcome, name)
        yield f"{name.capitalize()}: {tally.count} ({human_size(tally.size)})"
    if outcome.by_store.count:
        yield f"Copied by the store: {outcome.by_store.count}"
    if outcome.bare:
        yield f"Without metadata, which the destination does not support: {outcome.bare}"
    yield f"Failing: {outcome.failed}" if dry_run else f"Failed: {outcome.failed}"
    if report.status:
        yield f"Status report: {report.status}"
