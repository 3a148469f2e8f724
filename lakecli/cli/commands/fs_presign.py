"""``lakecli fs presign``."""

from __future__ import annotations

from lakecli.cli.context import Context
from lakecli.cli.params import Expires, PathUri
from lakecli.cli.text import local_date
from lakecli.uri import path_of, ref_of


def fs_presign(context: Context, path: PathUri, *, expires: Expires = None) -> None:
    """Print a URL that reads an object without credentials, for a while.

    Everybody who has the URL can read the object until it ends: at the time asked for, or earlier
    where the store's signatures (S3: seven days) or the credentials end. It is signed on this
    machine; nothing is sent.

    Examples:
        lakecli fs presign lakefs://demo/main/reports/2026.csv --expires 12h
        curl -O -J "$(lakecli fs presign -q lakefs://demo/v1.0/reports/2026.csv)"
    """
    from lakecli.cli.presigned import presigned
    from lakecli.repository.objects import stat

    repository = context.repository(path)
    name = path_of(path)
    entry = stat(repository, ref_of(path), name)
    signed = presigned(context, repository, entry, name, expires)
    context.out.emit(
        {"path": name, "url": signed.url, "expires_at": signed.expires_at},
        text=lambda: [signed.url],
    )
    if not context.out.json:
        context.out.note(f"works until {local_date(signed.expires_at)}")
