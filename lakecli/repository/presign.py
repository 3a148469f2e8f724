"""Create presigned URLs of objects."""

from __future__ import annotations

from datetime import timedelta

from lakecli.base.model import Entry
from lakecli.repository.contract import Repository
from lakecli.repository.reading.presigner import Presigner
from lakecli.repository.stat import stat
from lakecli.stores.presigning import PresignedUrl


def presign(
    repository: Repository, ref: str, path: bytes, *, expires_in: timedelta
) -> tuple[Entry, PresignedUrl]:
    """Return an entry and a URL that reads its bytes without credentials.

    The response has the entry's content type and file name, since one data object may serve many
    paths.

    Raises:
        NotFound: no such ref or path.
        Unsupported: the store has no presigned URLs.
    """
    entry = stat(repository, ref, path)
    return entry, presign_entry(repository, entry, path, expires_in=expires_in)


def presign_entry(
    repository: Repository,
    entry: Entry,
    path: bytes,
    *,
    expires_in: timedelta,
    inline: bool = False,
) -> PresignedUrl:
    """Return a URL that reads an entry's bytes without credentials.

    Browsers save content that they would run, unless `inline` makes them show it.

    Raises:
        Unsupported: the store has no presigned URLs.
    """
    now = repository.lake.runtime.clock()
    signer = Presigner(repository, now=now, expires_in=expires_in, inline=inline)
    return signer.presign(path, entry)
