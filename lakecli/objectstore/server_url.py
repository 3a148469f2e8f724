"""Takes the URLs of servers apart; the usual ones without `urllib`, which takes 2 ms to load."""

from __future__ import annotations

import re

from lakecli.errors import UsageError
from lakecli.named_tuple import NamedTuple
from lakecli.typed import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from urllib.parse import SplitResult

_USUAL: Final = re.compile(
    r"(https?)://(([a-z0-9][a-z0-9.-]*)(?::([0-5]?[0-9]{1,4}))?)(/[A-Za-z0-9._~/-]*)?", re.ASCII
)
"""Neither users nor queries, and no port that may be too large."""


class UsualUrl(NamedTuple):
    """The parts of a URL, named and spelled as in `urllib.parse.SplitResult`."""

    scheme: str
    netloc: str
    hostname: str
    port: int | None
    path: str
    query: str


def split_url(url: str) -> UsualUrl | SplitResult:
    """Return the parts of a URL.

    Raises:
        ValueError: it is malformed.
    """
    usual = _USUAL.fullmatch(url)
    if usual is None:
        from urllib.parse import urlsplit

        return urlsplit(url)
    scheme, netloc, host, port, path = usual.groups()
    return UsualUrl(scheme, netloc, host, int(port) if port else None, path or "", "")


def has_credentials(what: str) -> UsageError:
    """Return the error of a server's URL with a user or a password, which it does not repeat.

    Args:
        what: the setting that the URL comes from.
    """
    return UsageError(
        f"a user name or a password in {what}",
        hint="leave them out, http[s]://HOST[:PORT]; credentials have settings of their own, see "
        "`lakecli help clouds`",
    )
