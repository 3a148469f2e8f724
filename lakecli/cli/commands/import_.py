"""``lakecli import``: import existing objects in one commit."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TypedDict

from lakecli.base.model import NO_METADATA, Commit
from lakecli.base.uri import LakeUri, ref_of
from lakecli.cli import params
from lakecli.cli.commands import transfers
from lakecli.cli.commands.engine import open_runner
from lakecli.cli.commands.moved_refs import bring_along
from lakecli.cli.context import Context
from lakecli.cli.line import Kind, flag, option
from lakecli.cli.out.records import FailureJson, answers, pick
from lakecli.cli.out.text import human_size, local_date, one_line
from lakecli.cli.parsers import check_message, read_branch_prefix
from lakecli.errors import UsageError
from lakecli.imports import job
from lakecli.imports.address_checks import COPY_IT, Verify
from lakecli.imports.bucket import BucketSource
from lakecli.imports.manifest import Manifest
from lakecli.imports.report import ImportOptions, ImportReport
from lakecli.imports.sources import DirectorySource, open_source, roots_of
from lakecli.stores.uri import is_local

SHOWN_FAILURES = 100
COUNTED = ("added", "changed", "removed", "unchanged")


class ImportedJson(TypedDict):
    """The result of an import.

    Attributes:
        objects: number of objects of the source.
        size: total size of the objects in bytes.
        added: number of paths that are new on the branch.
        changed: number of paths whose object was replaced.
        removed: number of paths that were removed because the source lacks them.
        unchanged: number of unchanged paths.
        archived: number of objects that were found in an archive tier, and must be restored before
            they can be read.
        verified: number of objects of a manifest that were found at their addresses.
        left_out: names that were left out because Git, lakecli or the operating system reserves
            them.
        failed: number of objects that failed; if any failed, nothing is committed.
        failures: the first objects that failed, with the reasons.
        commit: the new commit; null with --dry-run or if objects failed.
    """

    objects: int
    size: int
    added: int
    changed: int
    removed: int
    unchanged: int
    archived: int
    verified: int
    left_out: Sequence[bytes | str]
    failed: int
    failures: Sequence[FailureJson]
    commit: Commit | None


class ImportPlanJson(transfers.PlannedStep):
    """The action of an import for one path; the last object has the totals of the import.

    Attributes:
        action: new, changed, unchanged, deleted or failed; total in the last object. Only the last
            object has the fields listed after error.
        path: path of the object; null in the total.
        size: size in bytes; in the total, size of all objects of the source.
        error: the reason of a failure.
    """


class Mode(StrEnum):
    """Whether an import removes or keeps objects below the destination that the source lacks."""

    REPLACE = "replace"
    MERGE = "merge"


@answers(ImportedJson)
@answers(ImportPlanJson, each=True, option="--dry-run", also=ImportedJson)
def import_(
    context: Context,
    *,
    source: str = option("URI", "--from", kind=Kind.DIRECTORY),
    target: LakeUri | None = option("PATH", "--to", read=read_branch_prefix),
    mode: Mode = option(None, default=Mode.REPLACE),
    copy: bool = flag(),
    manifest: bool = flag(),
    pin_versions: bool | None = option(None, "--pin-versions/--no-pin-versions"),
    verify: Verify = option(None, default=Verify.SAMPLE),
    links: params.LinkOptions,
    allow_empty: bool = flag(),
    message: params.Message = "Import objects",
    allow_empty_message: params.AllowEmptyMessage = True,
    metadata: params.Metadata = NO_METADATA,
    allow_empty_commit: bool = flag(),
    dry_run: params.DryRun = False,
    engine: params.EngineOptions,
    transfer: params.TransferOptions,
    merge: bool = flag(hidden=True),
) -> None:
    """Import existing objects in one commit, without copying them.

    Usage: --from URI --to PATH [OPTIONS]

    Everything below PREFIX is replaced by the objects of the source, which keep their names;
    without a PREFIX, everything on the branch is replaced. PREFIX is a whole directory: `data` does
    not include `database/`. With --mode merge, paths that the source lacks are kept. An empty
    directory or prefix is refused, because an unmounted disk looks like one, unless --allow-empty
    is given. If a directory or prefix lacks more than a tenth of the objects that PREFIX has, it is
    listed again. If the two listings differ, nothing is committed.

    The branch refers to the objects where they are, with the checksum of the source (files of a
    directory are read once to compute it). If an object is deleted or overwritten there, it is lost
    here too. --copy copies the bytes into the repository. It also asks for the content type and the
    Content-Encoding of each object in a bucket, by a HEAD request; the latter becomes the metadata
    content-encoding. Without --copy, the response of a presigned URL has the values of the object
    itself.

    With --pin-versions each entry names the object's current version (`URI?versionId=ID`), and
    reading, presigning and `fsck --external` use that version. Overwriting the object then changes
    nothing here; deleting that version does, as lifecycle rules may. The bucket on S3 or Google
    Cloud Storage, or the Azure storage account, must have versioning enabled; `lakecli help import`
    lists the permissions. The listing includes old versions on S3 and Azure, a thousand per
    request. An object with another version counts as changed even if its bytes are the same. lakeFS
    may not find objects at such addresses. If PREFIX has such entries, an import of a prefix or
    bucket pins versions again, and says so; --no-pin-versions prevents that.

    A source is a directory; a prefix of a bucket; a manifest, which is a Parquet, CSV or JSON lines
    file with the columns path, physical_address, size and checksum, and optionally mtime and
    content_type; or the manifest.json of an S3 Inventory. A manifest is recognised by its suffix
    (.parquet, .csv, .jsonl or .ndjson, the last three also with .gz), or by --manifest.

    Objects that a manifest lists are verified by HEAD requests in parallel. --verify sample, the
    default, checks about 1,000 objects, chosen at random; --verify all checks every one, and
    --verify none checks none. If an object is missing or has another size, nothing is committed.
    The number of checked objects is shown, and is `verified` in JSON. --copy reads every object
    instead.

    --dry-run lists every path with what would be done: new, changed, unchanged, failed, or deleted
    because PREFIX is replaced. With --json it prints one object for each path, and a last one with
    the totals.

    The branch must have no uncommitted changes. If two objects have the same path, or one cannot be
    read, nothing is committed. The same command continues an interrupted import. Files of a
    directory with a name that Git, lakecli or the system reserves, such as .git, .lakefs_ref.yaml
    and .DS_Store, are left out and reported.

    If the source has not changed since the last import, there is nothing to import: nothing is
    committed, and the exit code is 11. In a script, `|| [ $? = 11 ]` after the command accepts this
    exit code; --allow-empty-commit makes a commit.

    Args:
        source: Directory, prefix of a bucket, manifest or S3 Inventory; must be given.
        target: lakefs://REPOSITORY/BRANCH/[PREFIX]; must be given.
        mode: Replace everything below PREFIX, or merge into it.
        copy: Copy the bytes into the repository's namespace.
        manifest: URI is a manifest, whatever its suffix.
        pin_versions: Record the current version of each object [default: as the destination has
            it].
        verify: Check which objects of a manifest exist with the listed size.
        allow_empty: Allow an empty directory or prefix.
        allow_empty_commit: Commit even if nothing changes.

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
    params.refuse_several({"--copy": copy, "--pin-versions": bool(pin_versions)})
    policy = links.policy()
    check_message(message, allow_empty=allow_empty_message)

    repository = context.synced_repository(target)
    opened = open_source(
        repository, source, is_manifest=manifest, links=policy, may_be_empty=allow_empty
    )
    # Parts that never wait for a bucket gain nothing from threads: Python runs one at a time.
    is_busy = (
        transfer.workers is None
        and isinstance(opened, Manifest)
        and all(is_local(file.uri) for file in opened.files)
        and verify is Verify.NONE
        and not copy
        and is_local(repository.record.storage_namespace)
    )
    with (
        open_runner(
            context,
            engine,
            repository=repository,
            others=[opened.uri] if isinstance(opened, BucketSource) else roots_of(opened),
            size=opened.estimate() if isinstance(opened, Manifest) else None,
            parallelism=1 if is_busy else context.parallelism(repository, transfer.workers),
        ) as runner,
        context.out.progress("import", hidden=transfer.no_progress) as shown,
    ):
        options = ImportOptions(
            replaces=mode is Mode.REPLACE and not merge,
            copies=copy,
            pins=pin_versions,
            verify=verify,
            message=message,
            metadata=metadata,
            allow_empty=allow_empty_commit,
            progress=shown,
        )
        where = (repository, ref_of(target), target.path)
        if dry_run:
            with job.preview(*where, source=opened, runner=runner, options=options) as planned:
                report, steps = planned
                transfers.show_steps(context, steps)
        else:
            report = job.import_objects(
                *where, source=opened, runner=runner, committer=context.committer(), options=options
            )
    left_out = sorted(opened.left_out) if isinstance(opened, DirectorySource) else []
    record = dict(_record(report, left_out))
    if dry_run:
        record = {"action": "total", "path": None, **record}
    context.out.emit(record, text=lambda: _lines(context, report, target, is_dry=dry_run))
    transfers.note_left_out(context, left_out)
    if report.commit is not None and not context.out.stdout_terminal:
        tally = report.tally
        counts = ", ".join(f"{getattr(tally, name)} {name}" for name in COUNTED)
        context.out.note(f"{human_size(tally.size)}: {counts}")
    if report.commit is not None:
        bring_along(context, repository, ref_of(target))
    if report.tally.archived and not copy:
        context.out.note(
            f"{report.tally.archived:,} objects are archived: the store has to restore each before "
            "it can be read"
        )
    if report.verified:
        share = f"{report.verified:,} of {report.tally.objects + report.failed:,}"
        context.out.note(f"asked for {share} objects of the manifest where they are")
    _raise_failures(context, report)


def _raise_failures(context: Context, report: ImportReport) -> None:
    failures = [(failure.path, failure.why) for failure in report.failures[:SHOWN_FAILURES]]
    whys = [why for _, why in failures]
    hint = "nothing was committed; fix these and repeat the import"
    if any(why.startswith(("a symbolic link", "a special file")) for why in whys):
        hint += ", or see --follow and --skip"
    if any(why.endswith(COPY_IT) for why in whys):
        hint += ", or see --copy"
    if report.verified:
        hint += ", or see --verify"
    transfers.raise_failures(context, failures, verb="import", hint=hint, count=report.failed)


def _record(report: ImportReport, left_out: list[bytes]) -> ImportedJson:
    return pick(
        ImportedJson,
        report,
        report.tally,
        left_out=left_out,
        failures=transfers.failure_records(
            [(failure.path, failure.why) for failure in report.failures]
        ),
    )


def _lines(
    context: Context, report: ImportReport, target: LakeUri, *, is_dry: bool
) -> Iterator[str]:
    tally = report.tally
    if is_dry:
        yield ""
        yield "Dry run, nothing was imported:"
        yield ""
        yield f"Objects: {tally.objects} ({human_size(tally.size)})"
        for name in COUNTED:
            yield f"{name.capitalize()}: {getattr(tally, name)}"
        if report.failed:
            yield f"Failed: {report.failed}"
    commit = report.commit
    if commit is not None and context.out.stdout_terminal:
        counts = {name: getattr(tally, name) for name in COUNTED}
        yield transfers.sentence(context, "Imported", tally.objects, tally.size, **counts)
        yield f"Commit {commit.id} on {ref_of(target)}: {one_line(commit.message)}"
    elif commit is not None:
        yield f'Import of {tally.objects} object(s) into "{ref_of(target)}" completed.'
        yield f"MetaRange ID: {commit.metarange_id}"
        yield f"Commit ID: {commit.id}"
        yield f"Message: {one_line(commit.message)}"
        yield f"Timestamp: {local_date(commit.created_at)}"
        yield f"Parents: {', '.join(commit.parents)}"
