"""``lakecli fs stat``: show the size, checksum and metadata of objects."""

from datetime import datetime
from itertools import chain
from typing import TypedDict

from lakecli.base.uri import LakeUri, path_of, ref_of
from lakecli.cli.commands.entries import emit_entry, entry_record
from lakecli.cli.commands.names_from_file import NamesOptions, answer, are_given, iter_found
from lakecli.cli.context import Context
from lakecli.cli.line import flag
from lakecli.cli.out.records import EntryJson, answers
from lakecli.cli.out.text import entry_lines, quote_path
from lakecli.cli.params import AtOp, Expires, PathOrDirectoryUri
from lakecli.errors import UsageError
from lakecli.repository.contract import Repository
from lakecli.repository.stat import stat


class AskedEntryJson(TypedDict):
    """The object at one requested path; if there is none, only ``path`` and ``missing``.

    Attributes:
        missing: true if no object exists at the path.
    """

    path: bytes | str
    missing: bool


class PresignedEntryJson(EntryJson):
    """An object with a presigned URL.

    The other fields are those of `EntryJson`.

    Attributes:
        url: URL that reads the object; keep it secret.
        expires_at: time when the URL expires.
    """

    url: str
    expires_at: datetime


@answers(EntryJson)
@answers(PresignedEntryJson, option="--pre-sign")
@answers(AskedEntryJson, each=True, option="--files-from", also=EntryJson)
def fs_stat(
    context: Context,
    path: PathOrDirectoryUri,
    *,
    pre_sign: bool = flag(),
    expires: Expires = None,
    names: NamesOptions,
    at_op: AtOp = "",
) -> None:
    """Show size, checksum, times and metadata of an object.

    The physical address is the URI of the bytes, which needs credentials. With --pre-sign a
    presigned URL is shown instead, with its expiry time; anyone who has it can read the object.

    With --files-from, one command shows many objects, in the order of their names in FILE and in
    their state at the start. Each object is shown as soon as its name is read, so a program can
    write a name, read the result and write the next name. A path without an object is reported as
    missing; the exit code is then 3. Empty lines are skipped.

    Args:
        pre_sign: Show a URL that reads the object without credentials.

    Examples:
        lakecli fs stat lakefs://demo/main/reports/2026.csv
        lakecli fs stat lakefs://demo/dev~3/reports/2026.csv
        lakecli fs stat --pre-sign --expires 2h lakefs://demo/main/reports/2026.csv
        lakecli fs stat lakefs://demo/main/reports/ --files-from names.txt --json
        lakecli fs stat s3://my-bucket/demo@main/reports/2026.csv
    """
    if expires is not None and not pre_sign:
        raise UsageError("--expires needs --pre-sign")
    if are_given(names) and pre_sign:
        raise UsageError("--files-from and --pre-sign exclude each other", hint="use fs presign -r")

    repository = context.synced_repository(path, at_op=at_op)
    if are_given(names):
        _answer_many(context, repository, path, names)
        return
    name = path_of(path)
    entry = stat(repository, ref_of(path), name)
    if not pre_sign:
        emit_entry(context, repository, name, entry)
        return
    from lakecli.cli.commands.presigned_links import presigned

    signed = presigned(context, repository, entry, name, expires)
    context.out.emit(
        {
            **entry_record(repository, name, entry),
            "url": signed.url,
            "expires_at": signed.expires_at,
        },
        text=lambda: entry_lines(
            name, entry, physical_address=signed.url, expires_at=signed.expires_at
        ),
    )


def _answer_many(
    context: Context, repository: Repository, root: LakeUri, names: NamesOptions
) -> None:
    for name, entry in iter_found(context, repository, root, names):
        if entry is None:
            missing = [f"Path: {quote_path(name)}", "Missing: true", ""]
            answer(context, AskedEntryJson(path=name, missing=True), missing)
            continue
        record = {**entry_record(repository, name, entry), "missing": False}
        lines = entry_lines(name, entry, physical_address=str(record["physical_address"]))
        answer(context, record, chain(lines, [""]))
