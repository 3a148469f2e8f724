"""``lakecli fs stat``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from lakecli.cli.context import Context
from lakecli.cli.declare import Option
from lakecli.cli.params import AtOp, Expires, PathUri
from lakecli.cli.records import entry_record
from lakecli.cli.text import entry_lines
from lakecli.errors import UsageError
from lakecli.uri import path_of, ref_of

if TYPE_CHECKING:
    from lakecli.cli.answers.objects import Entry


def fs_stat(
    context: Context,
    path: PathUri,
    *,
    pre_sign: Annotated[
        bool,
        Option("--pre-sign", help="Show a URL that reads the object without credentials"),
    ] = False,
    expires: Expires = None,
    at_op: AtOp = "",
) -> None:
    """Show size, checksum, times and metadata of an object.

    The physical address is the URI of the bytes, which needs credentials. With --pre-sign a
    presigned URL is shown instead, with its expiry time; anyone who has it can read the object.

    Examples:
        lakecli fs stat lakefs://demo/main/reports/2026.csv
        lakecli fs stat lakefs://demo/dev~3/reports/2026.csv
        lakecli fs stat --pre-sign --expires 2h lakefs://demo/main/reports/2026.csv
    """
    if expires is not None and not pre_sign:
        raise UsageError("--expires needs --pre-sign")
    from lakecli.repository.core.address import full_address
    from lakecli.repository.stat import stat

    repository = context.synced_repository(path, at_op=at_op)
    name = path_of(path)
    entry = stat(repository, ref_of(path), name)
    address = full_address(repository, entry)

    def record() -> Entry:
        return entry_record(name, entry, physical_address=address)

    if not pre_sign:
        context.out.emit(record, text=lambda: entry_lines(name, entry, physical_address=address))
        return
    from lakecli.cli.presigned import presigned

    signed = presigned(context, repository, entry, name, expires)
    context.out.emit(
        {**record(), "url": signed.url, "expires_at": signed.expires_at},
        text=lambda: entry_lines(
            name, entry, physical_address=signed.url, expires_at=signed.expires_at
        ),
    )
