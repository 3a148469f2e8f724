"""Presigned URLs on the command line: lifetime and warnings."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from lakecli.base.model import Entry
from lakecli.cli.context import Context
from lakecli.cli.out.text import local_date
from lakecli.repository.contract import Repository
from lakecli.repository.handoff.links import presign_entry
from lakecli.repository.reading.addresses import may_change
from lakecli.stores.presigning import PresignedUrl

_SLACK: Final = timedelta(seconds=2)
"""Signatures have whole seconds."""


def lifetime(context: Context, asked: timedelta | None) -> timedelta:
    """Return the lifetime of a URL: `asked`, else the setting."""
    return context.settings.presign_expires if asked is None else asked


def warn_of_early_end(context: Context, wanted: datetime, end: datetime, *, what: str) -> None:
    """Warn if a URL expires earlier than asked for; `what` is such as ``the URL expires``."""
    if end >= wanted - _SLACK:
        return

    context.out.warn(
        f"{what} earlier than asked for, at {local_date(end)}: the store's signatures or the "
        "credentials expire then"
    )


def warn_of_outside(context: Context, count: int, repository: str) -> None:
    """Warn that objects outside the namespace may change before they are read."""
    context.out.warn(
        f"{count} of the objects lie{'s' if count == 1 else ''} outside the storage namespace, and "
        f"may be changed or deleted there; to check them: lakecli fsck {repository} --external"
    )


def presigned(
    context: Context,
    repository: Repository,
    entry: Entry,
    path: bytes,
    asked: timedelta | None,
    *,
    inline: bool = False,
) -> PresignedUrl:
    """Return a URL of an object, and warn if it expires earlier than asked for.

    Raises:
        Unsupported: the storage namespace does not support URLs.
    """
    wanted = lifetime(context, asked)
    start = context.now()
    signed = presign_entry(repository, entry, path, expires_in=wanted, inline=inline)
    warn_of_early_end(context, start + wanted, signed.expires_at, what="the URL expires")
    if may_change(entry):
        warn_of_outside(context, 1, repository.uri)
    return signed
