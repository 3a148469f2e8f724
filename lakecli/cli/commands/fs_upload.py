"""``lakecli fs upload``."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from lakecli.cli.answers import pick
from lakecli.cli.answers.objects import Upload
from lakecli.cli.context import Context
from lakecli.cli.declare import Argument, Option
from lakecli.cli.params import ContentType, LinkOptions, Metadata, SelectionOptions, TransferOptions
from lakecli.cli.reading import NO_METADATA, Completion, Kind, read_branch_prefix
from lakecli.cli.records import entry_record
from lakecli.cli.text import entry_lines, quote_path
from lakecli.cli.transfers import (
    PreSign,
    check_local,
    failure_records,
    link_policy,
    note_rest,
    parallelism,
    plan_lines,
    plan_record,
    progress,
    raise_failures,
    selection,
    summary_lines,
)
from lakecli.errors import UsageError
from lakecli.uri import LakeUri, path_of, ref_of

if TYPE_CHECKING:
    from lakecli.repository.core.lake import Repository
    from lakecli.repository.transfer.selection import Plan
    from lakecli.repository.upload import UploadOptions
    from lakecli.repository.upload_tree import UploadReport

STANDARD_INPUT = "-"


def fs_upload(
    context: Context,
    source: Annotated[
        str,
        Argument(metavar="SRC", help="File, directory (with -r), or - for standard input"),
        Completion(Kind.FILE),
    ],
    path: Annotated[
        str | None,
        Argument(metavar="PATH", help="lakefs://REPOSITORY/BRANCH/[PATH]"),
        Completion(Kind.PATH),
    ] = None,
    *,
    source_option: Annotated[
        str | None,
        Option(
            "--source",
            "-s",
            metavar="SRC",
            help="SRC as an option; PATH is then the only argument, and the whole path of a file",
        ),
        Completion(Kind.FILE),
    ] = None,
    recursive: Annotated[
        bool, Option("--recursive", "-r", help="All files below the directory SRC")
    ] = False,
    content_type: ContentType = None,
    metadata: Metadata = NO_METADATA,
    links: LinkOptions,
    chosen: SelectionOptions,
    transfer: TransferOptions,
    pre_sign: PreSign = False,
) -> None:
    """Upload a file, a directory or standard input to a branch.

    Uploads are uncommitted changes of the branch. Uploading the same contents with the same type
    and metadata again changes nothing, and bytes that the repository has already are not sent. An
    object that lakeFS uploaded is recognised by its MD5, and keeps type and metadata unless others
    are given.

    If PATH is a whole branch or ends in a slash, a file keeps its own name below PATH; with -s, as
    in lakectl, PATH is the path of the object, even if it ends in a slash. With -r, the
    files of the directory SRC keep their names below PATH, and nothing on the branch is deleted; a
    SRC that is a file is uploaded as without -r.

    Below a directory, symbolic links and special files fail unless --follow or --skip is given. If
    some files fail, the others are uploaded, the failures are listed, and the exit code is 3.

    Examples:
        lakecli fs upload report.csv lakefs://demo/main/reports/
        lakecli fs upload -r ./data lakefs://demo/main/data/ --meta source=crm
        lakecli fs upload -r . lakefs://demo/main/ --include '*.parquet' --exclude '/tmp/' --dry-run
        gzip -c dump.sql | lakecli fs upload - lakefs://demo/main/dump.sql.gz
        lakecli fs upload -s report.csv lakefs://demo/main/reports/2026.csv
    """
    del pre_sign
    if source_option is not None:
        if path is not None:
            raise UsageError("SRC was given twice", hint="lakecli fs upload [-s] SRC PATH")
        source, path = source_option, source
    elif path is None:
        raise UsageError("PATH is missing", hint="lakecli fs upload SRC PATH")
    if not source:
        raise UsageError("SRC is empty")
    check_local(source, hint="for objects in a bucket: lakecli import --from URI --to PATH --copy")
    target = read_branch_prefix(path, context)
    policy = link_policy(links)
    if source == STANDARD_INPUT and recursive:
        raise UsageError("standard input is not a directory", hint="leave out -r")
    from lakecli.repository.upload import UploadOptions

    matching = selection(chosen, recursive=recursive)
    repository = context.synced_repository(target)
    with progress(context, "upload", hidden=transfer.no_progress) as shown:
        options = UploadOptions(
            selection=matching,
            content_type=content_type,
            metadata=metadata,
            links=policy,
            parallelism=parallelism(context, repository, transfer.workers),
            progress=shown,
        )
        if chosen.dry_run:
            plan = _plan(repository, target, source, options)
        elif recursive and Path(source).is_dir():
            report = _upload_tree(context, repository, target, source, options)
        else:
            is_whole = source_option is not None and not recursive
            _upload_one(context, repository, target, source, options, is_whole=is_whole)
            return
    if chosen.dry_run:
        context.out.emit(plan_record(plan), text=lambda: plan_lines(plan))
        raise_failures(context, plan.failures, verb="upload", hint="all others would be staged")
        return
    failures = failure_records(report.failures)
    context.out.emit(
        pick(Upload, report, failed=len(failures), failures=failures),
        text=lambda: summary_lines("Upload", uploaded=report.uploaded),
    )
    note_rest(
        context,
        report.size,
        unchanged=report.unchanged,
        excluded=report.excluded,
        failed=len(failures),
    )
    raise_failures(
        context,
        report.failures,
        verb="upload",
        hint="the others are staged; fix these and repeat the upload, or see --follow and --skip",
    )


def _plan(repository: Repository, target: LakeUri, source: str, options: UploadOptions) -> Plan:
    from lakecli.repository.upload_tree import plan_upload

    branch, prefix = ref_of(target), target.path or b""
    return plan_upload(repository, branch, prefix, source=Path(source), options=options)


def _upload_one(
    context: Context,
    repository: Repository,
    target: LakeUri,
    source: str,
    options: UploadOptions,
    *,
    is_whole: bool,
) -> None:
    from lakecli.repository.core.address import full_address
    from lakecli.repository.upload import upload_file, upload_stream

    branch = ref_of(target)
    if source in (STANDARD_INPUT, os.devnull):
        path = path_of(target, hint=f"{source} has no name; give the whole PATH")
        stream = context.stdin.buffer if source == STANDARD_INPUT else BytesIO()
        entry = upload_stream(repository, branch, path, source=stream, options=options)
    else:
        path = target.path or b""
        if is_whole:
            path = path_of(target)
        elif not path or path.endswith(b"/"):
            path += os.fsencode(Path(source).name)
        entry = upload_file(repository, branch, path, source=Path(source), options=options)
    address = full_address(repository, entry)
    context.out.emit(
        entry_record(path, entry, physical_address=address),
        text=lambda: entry_lines(path, entry, physical_address=address),
    )


def _upload_tree(
    context: Context,
    repository: Repository,
    target: LakeUri,
    source: str,
    options: UploadOptions,
) -> UploadReport:
    from lakecli.repository.upload_tree import UploadReport, upload_tree

    report = UploadReport()
    directory = source if source.endswith("/") else f"{source}/"
    context.out.say(
        "", f"diff 'local://{quote_path(directory)}' <--> '{quote_path(str(target))}'..."
    )
    try:
        return upload_tree(
            repository,
            ref_of(target),
            target.path or b"",
            source=Path(source),
            options=options,
            report=report,
        )
    except BaseException:
        if report.uploaded or report.unchanged:
            done = report.uploaded + report.unchanged
            context.out.note(f"{done} objects are staged; run the same command to continue")
        raise
