"""Presigned URLs on the command line: for how long, and what to say about their end."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lakecli.cli.context import Context
    from lakecli.model import Entry
    from lakecli.objectstore.base import PresignedUrl
    from lakecli.repository.lake import Repository

_SLACK: Final = timedelta(seconds=2)
"""Signatures count in whole seconds."""


def presigned(
    context: Context,
    repository: Repository,
    entry: Entry,
    path: bytes,
    asked: timedelta | None,
) -> PresignedUrl:
    """Return a URL of an object, and warn where it ends earlier than asked for.

    Raises:
        Unsupported: the storage namespace has no URLs.
    """
    from lakecli.cli.text import local_date
    from lakecli.repository.objects import presign_entry

    wanted = context.settings.presign_expires if asked is None else asked
    start = context.now()
    signed = presign_entry(repository, entry, path, expires_in=wanted)
    if signed.expires_at < start + wanted - _SLACK:
        context.out.warn(
            f"the URL ends earlier than asked for, at {local_date(signed.expires_at)}: the "
            "store's signatures or the credentials last no longer"
        )
    return signed
