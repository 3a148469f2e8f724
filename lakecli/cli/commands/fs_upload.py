"""``lakecli fs upload``: upload files to a branch."""

import os
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import BinaryIO, TypedDict, cast

from lakecli.base.model import NO_METADATA
from lakecli.base.pipes import is_pipe, open_input
from lakecli.base.uri import SCHEME, LakeUri, path_of, ref_of
from lakecli.cli import params
from lakecli.cli.commands.entries import emit_entry
from lakecli.cli.commands.names_from_file import STANDARD_INPUT, NamesOptions, bytes_of, read_names
from lakecli.cli.commands.transfers import TransferPlanJson, answer_transfer, shown_plan
from lakecli.cli.context import Context
from lakecli.cli.line import Kind, argument, flag, option
from lakecli.cli.out.records import EntryJson, FailureJson, answers
from lakecli.cli.out.text import quote_path
from lakecli.cli.parsers import check_local, read_branch_prefix
from lakecli.errors import UsageError
from lakecli.repository.contract import Repository
from lakecli.repository.upload import UploadOptions, upload_file, upload_stream


class UploadJson(TypedDict):
    """The result of a recursive upload.

    Attributes:
        excluded: number of objects left out by --include and --exclude.
        left_out: paths that were left out because Git, lakecli or the operating system reserves
            their names.
        failed: number of files that were not uploaded because of an error.
        size: total size in bytes of the uploaded and the unchanged objects.
        failures: the files that failed, with the reasons.
        uploaded: number of new or changed objects.
        unchanged: number of objects that existed already with the same contents.
        deleted: with --delete, number of objects that were deleted because the directory lacks
            them.
    """

    uploaded: int
    unchanged: int
    failed: int
    excluded: int
    left_out: Sequence[bytes | str]
    deleted: int
    size: int
    failures: Sequence[FailureJson]


@answers(EntryJson)
@answers(UploadJson, option="-r|--files-from|SRC SRC")
@answers(TransferPlanJson, each=True, option="--dry-run")
def fs_upload(
    context: Context,
    source: str = argument("SRC", default="", kind=Kind.FILE),
    more: list[str] = argument("PATH", default=[]),
    *,
    source_option: str | None = option("SRC", "--source", "-s", kind=Kind.FILE),
    recursive: bool = flag("--recursive", "-r"),
    delete: bool = flag(),
    max_delete: int | None = option("N", min=0),
    names: NamesOptions,
    content_type: params.ContentType = None,
    metadata: params.Metadata = NO_METADATA,
    links: params.LinkOptions,
    chosen: params.SelectionOptions,
    transfer: params.TransferOptions,
    _pre_sign: params.PreSign = False,
) -> None:
    """Upload files, a directory or standard input to a branch.

    Usage: SRC... PATH [OPTIONS]

    Uploads are uncommitted changes of the branch. Uploading the same contents with the same type
    and metadata again changes nothing. Bytes that the repository has already are not sent. If
    lakeFS uploaded the object, uploading the same bytes changes nothing unless a type or metadata
    are given.

    If PATH is a whole branch or ends in a slash, a file keeps its own name below PATH. (With -s, as
    in lakectl, PATH is the path of the object, even if it ends in a slash.) Several files keep
    their names below PATH. With -r, the files of the directory SRC keep their names below PATH, and
    nothing on the branch is deleted; if SRC is a file, -r has no effect. --files-from FILE uploads
    the files that FILE names, relative to the directory SRC, or to the current directory if SRC is
    not given.

    With -r and --delete, PATH becomes a mirror of SRC, in one operation: objects that SRC lacks are
    removed from the branch. Objects that --include and --exclude leave out stay. With --skip, an
    object also stays if SRC has a symbolic link or special file of the same name. If a file fails,
    nothing is removed. A SRC without files is refused. If SRC lacks more than a tenth of the
    objects below PATH, it is read again, and a note says so; if the two lists of files differ,
    nothing is uploaded and the exit code is 7.

    --dry-run lists every path with what would be done: new, changed, unchanged, excluded, deleted
    or failed. With --json it prints one object for each path, and a last one with the totals.

    Permissions of files are not recorded; `lakecli local commit` records the executable bit.

    In a directory, files with names that Git, lakecli or the system reserves, such as .git,
    .lakefs_ref.yaml and .DS_Store, are left out and reported. Symbolic links and special files in a
    directory fail unless --follow or --skip is given. If some files fail, the others are uploaded,
    the failures are listed, and the exit code is 3.

    Args:
        source: A file, a pipe, a directory (with -r), or - for standard input.
        more: More files, if any, and last the destination: lakefs://REPOSITORY/BRANCH/[PATH].
        source_option: SRC as an option; PATH is then the only argument, and the whole path of a
            file.
        recursive: All files below the directory SRC.
        delete: With -r, remove objects below PATH that SRC lacks.
        max_delete: Refuse to remove more than N objects.

    Examples:
        lakecli fs upload report.csv lakefs://demo/main/reports/
        lakecli fs upload *.csv lakefs://demo/main/reports/
        lakecli fs upload -r ./data lakefs://demo/main/data/ --meta source=crm
        lakecli fs upload -r ./data lakefs://demo/main/data/ --delete --max-delete 100
        lakecli fs upload -r . lakefs://demo/main/ --include '*.parquet' --exclude '/tmp/' --dry-run
        find . -newer last -print0 | lakecli fs upload --files-from - -z lakefs://demo/main/
        gzip -c dump.sql | lakecli fs upload - lakefs://demo/main/dump.sql.gz
        lakecli fs upload -s report.csv lakefs://demo/main/reports/2026.csv
    """
    sources, path = _arguments(source_option, source, more, is_listed=names.files_from is not None)
    for each in sources:
        check_local(
            each, hint="for objects in a bucket: lakecli import --from URI --to PATH --copy"
        )
    target = read_branch_prefix(path, context)
    policy = links.policy()
    listed = read_names(context, names)
    _check_sources(sources, recursive=recursive, is_listed=listed is not None)

    params.check_mirror(
        delete=delete, max_delete=max_delete, recursive=recursive, is_listed=listed is not None
    )
    is_tree = listed is not None or (recursive and os.path.isdir(sources[0]))
    is_many = is_tree or len(sources) > 1
    if delete and not is_tree and os.path.exists(os.path.realpath(sources[0])):
        raise UsageError(f"--delete needs a directory as SRC: {sources[0]} is a file")
    may_plan = is_many or recursive or not (_is_stream(sources[0]) or sources[0] == os.devnull)
    matching = chosen.selection(recursive=is_many or recursive, may_plan=may_plan)
    is_whole = source_option is not None and not recursive
    repository = context.synced_repository(target)
    with context.out.progress("upload", hidden=transfer.no_progress) as shown:
        options = UploadOptions(
            selection=matching,
            content_type=content_type,
            metadata=metadata,
            links=policy,
            parallelism=context.parallelism(repository, transfer.workers),
            progress=shown,
        )
        if not (is_many or chosen.dry_run):
            _upload_one(context, repository, target, sources[0], options, is_whole=is_whole)
            return
        from pathlib import Path

        from lakecli.repository.upload_tree import plan_file, upload_tree

        branch, files = ref_of(target), [Path(each) for each in sources]
        where = (repository, branch, target.path or b"")
        source_files = files if len(files) > 1 else files[0]
        upload_all = partial(
            upload_tree,
            *where,
            source=source_files,
            options=options,
            names=listed,
            delete=delete and is_tree,
        )
        if chosen.dry_run:
            with shown_plan(context, verb="upload", hint="all others would be staged") as plan:
                if is_many:
                    upload_all(listed=plan)
                else:
                    own = _path_for(target, sources[0], is_whole=is_whole)
                    plan_file(
                        repository, branch, own, source=files[0], options=options, listed=plan
                    )
            return
        if is_tree:
            tell_directory(context, sources[0], target)
        report = upload_all(max_delete=max_delete)
    answer_transfer(
        context,
        "upload",
        report,
        UploadJson,
        hint="the others are staged; fix these and repeat the upload, or see --follow and --skip",
    )


def _arguments(
    option: str | None, first: str, more: list[str], *, is_listed: bool
) -> tuple[list[str], str]:
    """Return the sources and the path; with `is_listed`, the default source is the directory ``.``.

    Raises:
        UsageError: there are too many sources, or the sources or the path are missing.
    """
    if not first and option is not None:
        if option.startswith(SCHEME):
            raise UsageError(
                f"-s takes a local file, not {option}", hint=f"lakecli fs upload -s FILE {option}"
            )
        raise UsageError("PATH is missing", hint=f"lakecli fs upload -s {option} PATH")
    if not first and is_listed:
        raise UsageError("PATH is missing", hint="lakecli fs upload --files-from FILE PATH")
    if option is not None:
        if more:
            raise UsageError("SRC was given twice", hint="lakecli fs upload [-s] SRC PATH")
        sources, path = [option], first
    elif not more and is_listed:
        sources, path = ["."], first
    elif not more:
        what = "PATH is missing" if first else "SRC and PATH are missing"
        raise UsageError(what, hint="lakecli fs upload SRC PATH")
    else:
        sources, path = [first, *more[:-1]], more[-1]
    if "" in sources:
        raise UsageError("SRC is empty")
    return sources, path


def _check_sources(sources: list[str], *, recursive: bool, is_listed: bool) -> None:
    """Refuse sources that cannot be combined."""
    streams = [_named(source) for source in sources if _is_stream(source)]
    if streams and (recursive or is_listed):
        raise UsageError(f"{streams[0]} is not a directory", hint="leave out -r")
    if len(sources) > 1:
        if streams:
            raise UsageError(f"{streams[0]} has no name", hint="upload it by itself")
        if recursive or is_listed:
            raise UsageError(
                "-r and --files-from take one directory", hint="run one command for each"
            )


def _is_stream(source: str) -> bool:
    """Return whether a source can be read only once: standard input or a pipe."""
    return source == STANDARD_INPUT or is_pipe(source)


def _named(source: str) -> str:
    return "standard input" if source == STANDARD_INPUT else source


def _upload_one(
    context: Context,
    repository: Repository,
    target: LakeUri,
    source: str,
    options: UploadOptions,
    *,
    is_whole: bool,
) -> None:
    branch = ref_of(target)
    if source == os.devnull or _is_stream(source):
        path = path_of(target, hint=f"{source} has no name; give the whole PATH")
        own = cast("BinaryIO", bytes_of(context))
        with nullcontext(own) if source == STANDARD_INPUT else open_input(source) as stream:
            entry = upload_stream(repository, branch, path, source=stream, options=options)
    else:
        path = _path_for(target, source, is_whole=is_whole)
        entry = upload_file(repository, branch, path, source=source, options=options)
    emit_entry(context, repository, path, entry)


def _path_for(target: LakeUri, source: str, *, is_whole: bool) -> bytes:
    """Return the path of the object that is uploaded from a file.

    Args:
        target: the path on the command line; if it is a directory, the name of the file is
            appended.
        is_whole: whether `target` is the path of the object even if it ends with a slash.
    """
    path = target.path or b""
    if is_whole:
        return path_of(target)
    if not path or path.endswith(b"/"):
        return path + os.fsencode(os.path.basename(os.path.normpath(source)))
    return path


def tell_directory(context: Context, source: str, target: LakeUri) -> None:
    """Print the line that lakectl prints before comparing a directory with the branch."""
    if context.out.stdout_terminal:
        return
    directory = source if source.endswith("/") else f"{source}/"
    context.out.say(
        "", f"diff 'local://{quote_path(directory)}' <--> '{quote_path(str(target))}'..."
    )
