"""``lakecli fs download``: download objects to files."""

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

from lakecli.base.model import Entry
from lakecli.base.pipes import is_pipe, is_stdout, open_pipe
from lakecli.base.uri import LakeUri, path_of, ref_of
from lakecli.base.validation import LATEST
from lakecli.cli import params
from lakecli.cli.commands import transfers
from lakecli.cli.commands.entries import entry_record
from lakecli.cli.commands.fs_cat import pieces_of
from lakecli.cli.commands.names_from_file import NamesOptions, read_names
from lakecli.cli.context import Context
from lakecli.cli.line import Kind, argument, flag, option
from lakecli.cli.out.records import EntryJson, FailureJson, answers
from lakecli.cli.out.text import human_size, local_date, quote_path
from lakecli.cli.parsers import check_local
from lakecli.errors import AlreadyExists, UsageError
from lakecli.repository.contract import Repository
from lakecli.repository.download import DownloadOptions, download_object
from lakecli.repository.download_tree import download_tree
from lakecli.repository.stat import stat
from lakecli.repository.transfer.ignore_patterns import IGNORE_FILE, Ignore, is_own
from lakecli.stores.capabilities import PART_SIZE


class DownloadedEntryJson(EntryJson):
    """An object that was downloaded.

    The other fields are those of `EntryJson`.

    Attributes:
        destination: absolute path of the file.
    """

    destination: Path


class DownloadJson(TypedDict):
    """The result of a recursive download.

    Attributes:
        excluded: number of objects left out by --include and --exclude.
        left_out: paths that were left out because Git, lakecli or the operating system reserves
            their names.
        failed: number of objects that were not downloaded because of an error.
        size: total size in bytes of the downloaded objects.
        failures: the objects that failed, with the reasons.
        downloaded: number of objects that were downloaded.
        unchanged: number of objects whose files existed already with the same contents.
        deleted: with --delete, number of files that were deleted because the ref lacks them.
        destination: absolute path of the directory.
    """

    downloaded: int
    unchanged: int
    deleted: int
    excluded: int
    left_out: Sequence[bytes | str]
    failed: int
    size: int
    destination: Path
    failures: Sequence[FailureJson]


@answers(DownloadedEntryJson)
@answers(DownloadJson, option="-r|--files-from")
@answers(transfers.TransferPlanJson, each=True, option="--dry-run")
def fs_download(
    context: Context,
    path: params.PrefixUri,
    destination: str = argument("DEST", default=".", kind=Kind.FILE),
    *,
    recursive: params.Recursive = False,
    delete: bool = flag(),
    max_delete: int | None = option("N", min=0),
    names: NamesOptions,
    no_clobber: bool = flag(),
    part_size: int | None = option("BYTES", min=64 << 10),
    chosen: params.SelectionOptions,
    transfer: params.TransferOptions,
    _pre_sign: params.PreSign = False,
    at_op: params.AtOp = "",
) -> None:
    """Download an object, or all objects below a path.

    Each file is verified by its checksum, gets the modification time that was recorded at its
    upload, and replaces an existing file only when it is complete. An object outside the storage
    namespace is refused if it has changed since its import. The same command continues an
    interrupted download; with -r, files that are there already are not downloaded again. Temporary
    files of a killed download are removed by the next download to the same directory.

    An object is written to DEST, or under its own name into DEST if that is a directory or ends in
    a slash. A note says if a file was replaced; --no-clobber refuses to replace one. If DEST is
    /dev/stdout or a pipe, the bytes are written as by `lakecli fs cat`. With -r, the objects below
    PATH keep their names below the directory DEST; nothing is written outside DEST, not even
    through symbolic links. If some objects fail, the others are downloaded, the failures are
    listed, and the exit code is 3. Objects below PATH with a name that Git, lakecli or the system
    reserves, such as .git, .lakefs_ref.yaml and .DS_Store, are left out and reported.

    With -r and --delete, DEST becomes a mirror of PATH: after the downloads, files that PATH lacks
    are deleted, and so are directories that become empty. Files that --include, --exclude or a
    .lakefsignore in DEST leaves out stay, and so do .git, .lakefsignore and .lakefs_ref.yaml.
    Symbolic links are deleted but never followed. If an object fails, nothing is deleted. The
    command refuses a PATH without objects, and a DEST that contains a storage namespace or files
    that were imported without --copy.

    --files-from FILE downloads the objects that FILE names, relative to PATH, as -r does.

    --dry-run lists every path with what would be done: new, changed, unchanged, excluded, deleted
    or failed. With --json it prints one object for each, and the totals in the last one. Without
    -r, it also shows the file, which would be written even if it is unchanged.

    --include and --exclude take patterns as in .gitignore, relative to PATH: * and ? do not match a
    slash, ** does; *.csv matches at any depth, /raw/ a directory at the top.

    Args:
        destination: File or directory; default: the current directory.
        delete: With -r, delete files in DEST that PATH lacks.
        max_delete: Refuse to delete more than N files.
        no_clobber: Refuse to replace a file that exists; not with -r.
        part_size: Fetch large objects of a bucket in parts of this size; default: 8388608.

    Examples:
        lakecli fs download lakefs://demo/main/reports/2026.csv
        lakecli fs download lakefs://demo/v1.0/reports/2026.csv old.csv --dry-run
        lakecli fs download -r lakefs://demo/main~3/data/ ./data
        lakecli fs download --files-from names.txt lakefs://demo/main/data/ ./data
        lakecli fs download -r lakefs://demo/main/ . --include '*.csv' --dry-run
        lakecli fs download -r lakefs://demo/main/data/ ./data --delete --max-delete 100
        lakecli fs download -r s3://my-bucket/demo@main/reports/ reports
    """
    if not destination:
        raise UsageError("DEST is empty")
    check_local(destination, hint="to copy to a bucket: lakecli export PATH DEST")
    listed = read_names(context, names)
    recursive = recursive or listed is not None
    if no_clobber and recursive:
        raise UsageError("--no-clobber is for one object, without -r and --files-from")
    if not recursive:
        path_of(path, hint="all objects: -r")
    params.check_mirror(
        delete=delete, max_delete=max_delete, recursive=recursive, is_listed=listed is not None
    )

    matching = chosen.selection(recursive=recursive, may_plan=True)
    repository = context.synced_repository(path, at_op=at_op)
    with context.out.progress("download", hidden=transfer.no_progress) as shown:
        options = DownloadOptions(
            selection=matching,
            deletes=_deletes(Path(destination)) if delete else None,
            max_delete=max_delete,
            part_size=part_size or PART_SIZE,
            parallelism=context.parallelism(repository, transfer.workers),
            progress=shown,
        )
        if not recursive:
            if is_pipe(destination) and not chosen.dry_run:
                _write_to_pipe(context, repository, path, destination)
                return
            target = _target(path, destination)
            if chosen.dry_run:
                _plan_one(context, repository, path, target)
            else:
                _download_one(context, repository, path, target, options, no_clobber=no_clobber)
            return
        target = Path(destination)
        where = (repository, ref_of(path), path.path or b"")
        if chosen.dry_run:
            hint = "all others would be downloaded"
            with transfers.shown_plan(context, verb="download", hint=hint) as plan:
                download_tree(*where, target=target, options=options, names=listed, listed=plan)
        else:
            report = download_tree(*where, target=target, options=options, names=listed)
            transfers.answer_transfer(
                context,
                "download",
                report,
                DownloadJson,
                hint="all others were downloaded",
                destination=target.absolute(),
            )


def _deletes(target: Path) -> Callable[[bytes], bool]:
    """Return a function that returns whether ``--delete`` may delete a file below the directory.

    Ignored files, and the ``.lakefsignore`` files themselves, are never deleted.
    """
    ignore = Ignore(os.fsencode(target))
    return lambda name: IGNORE_FILE not in name.split(b"/") and not ignore.ignores(name)


def _target(uri: LakeUri, destination: str) -> Path:
    """Return the path of the file to which one object is downloaded."""
    name = os.fsdecode(path_of(uri).rpartition(b"/")[2])
    target = Path(destination)
    if destination.endswith("/") or target.is_dir():
        if not name:
            raise UsageError(
                f"{uri} has no file name", hint="all objects below it: -r; or name a file as DEST"
            )
        if name in (".", "..") or is_own(os.fsencode(name)):
            raise UsageError(
                f"the name of {uri} is not a valid file name", hint="name a file as DEST"
            )
        target /= name
    return target


def _write_to_pipe(
    context: Context, repository: Repository, uri: LakeUri, destination: str
) -> None:
    """Write an object to a pipe or to an open file descriptor, verified as by ``fs cat``."""
    path = path_of(uri)
    entry = stat(repository, ref_of(uri), path)
    with open_pipe(destination) as file:
        for piece in pieces_of(repository, entry, verify=False):
            file.write(piece)
    if not is_stdout(destination):
        _answer_one(context, repository, uri, entry, Path(destination))


def _answer_one(
    context: Context, repository: Repository, uri: LakeUri, entry: Entry, place: Path
) -> None:
    context.out.emit(
        {**entry_record(repository, path_of(uri), entry), "destination": place},
        text=lambda: [f"download: {quote_path(str(uri))} to {quote_path(str(place))}"],
    )


def _plan_one(context: Context, repository: Repository, uri: LakeUri, target: Path) -> None:
    context.out.note(f"the file is {quote_path(str(target.absolute()))}")
    with transfers.shown_plan(
        context, verb="download", hint="", destination=target.absolute()
    ) as plan:
        download_object(repository, ref_of(uri), path_of(uri), target=target, listed=plan)


def _download_one(
    context: Context,
    repository: Repository,
    uri: LakeUri,
    target: Path,
    options: DownloadOptions,
    *,
    no_clobber: bool,
) -> None:
    path = path_of(uri)
    replaced = target.stat() if target.is_file() else None
    if replaced is not None and no_clobber:
        raise AlreadyExists(
            f"the file {target} exists", hint="without --no-clobber the download replaces it"
        )
    entry = download_object(repository, ref_of(uri), path, target=target, options=options)
    place = target.absolute()
    _answer_one(context, repository, uri, entry, place)
    if replaced is not None:
        seconds = max(0, min(replaced.st_mtime, LATEST.timestamp()))  # a file may have any time
        of = local_date(datetime.fromtimestamp(seconds, UTC))
        context.out.note(f"replaced the old file ({human_size(replaced.st_size)}, of {of})")
