"""How the values of settings are written: each function parses one kind of value."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from lakecli.base.layout import LONGEST_GRACE, SHORTEST_GRACE
from lakecli.base.uri import SCHEME, is_namespace
from lakecli.errors import UsageError

HARDLINK_ROOT: Final = "hardlink-root"
"""The value of ``local.link`` that gives hard links to root, too."""

_DURATION: Final = r"([0-9]+)\s*([smhd])"
_DURATION_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_SIZES: Final = {"": 1} | {
    f"{letter}{binary}": (1024 if binary else 1000) ** (power + 1)
    for power, letter in enumerate("kmgtp")
    for binary in ("", "i")
}
_SIZE_LETTERS: Final = "kmgtpib"
_USED: Final = r"lakefs://[a-z0-9][a-z0-9-]{2,62}(/[^/\s]+)?/?"
_MAX_DAYS = 100_000
_MAX_SIZE = 1 << 60
_MAX_COUNT = 1_000_000
_MAX_DIGITS = 18
_SHOWN = 60
_PLACE: Final = r"(((s3|gs)://[^/]|az://[^/]+/[^/]|(local|file):///[^/])|/[^/]).*"


def parse_text(text: str) -> str:
    """Return a line of text without surrounding blanks.

    Raises:
        UsageError: the text is empty or has control characters.
    """
    stripped = text.strip()
    if not stripped or not stripped.isprintable():
        raise UsageError(f"not a line of text: {_shown(text)}")
    return stripped


def parse_email(text: str) -> str:
    """Return an e-mail address as committers are recorded with it.

    Raises:
        UsageError: it has blanks, ``<`` or ``>``, or not one ``@`` with something on both sides.
    """
    address = parse_text(text)
    user, _, host = address.partition("@")
    if not user or not host or "@" in host or any(each in " <>" for each in address):
        raise UsageError(f"not an e-mail address: {_shown(text)}", hint="write ada@example.com")
    return address


def parse_duration(text: str) -> timedelta:
    """Return a duration written as ``90s``, ``30m``, ``12h`` or ``7d``.

    Raises:
        UsageError: it has another form, or is zero.
    """
    match = re.fullmatch(_DURATION, text.strip())
    if match and len(match[1]) <= len(str(_MAX_DAYS * 86400)):
        seconds = timedelta(**{_DURATION_UNITS[match[2]]: 1}).total_seconds() * int(match[1])
        if 0 < seconds <= _MAX_DAYS * 86400:
            return timedelta(seconds=seconds)
    raise UsageError(f"not a duration: {_shown(text)}", hint="write 90s, 30m, 12h or 7d")


def parse_grace(text: str) -> timedelta:
    """Return a grace period of garbage collection.

    Raises:
        UsageError: it is no duration, or not from `SHORTEST_GRACE` to `LONGEST_GRACE`.
    """
    return check_grace(parse_duration(text))


def check_grace(grace: timedelta) -> timedelta:
    """Return a grace period that is possible.

    Raises:
        UsageError: it is shorter than `SHORTEST_GRACE`, or longer than `LONGEST_GRACE`.
    """
    if grace < SHORTEST_GRACE:
        raise UsageError(
            f"the grace period is less than {SHORTEST_GRACE.total_seconds() / 3600:.0f} hours",
            hint="objects of work in progress look like garbage; the default is 14d",
        )
    if grace > LONGEST_GRACE:
        raise UsageError(
            f"the grace period is more than {LONGEST_GRACE.days} days", hint="the default is 14d"
        )
    return grace


def parse_base_uri(text: str) -> str:
    """Return what URIs begin with that are written without a scheme.

    Raises:
        UsageError: it begins neither with ``lakefs://`` nor with a storage namespace.
    """
    base = parse_text(text)
    if not base.startswith(SCHEME) and not is_namespace(base):
        raise UsageError(
            f"not the beginning of a lakefs:// URI: {_shown(text)}",
            hint="write lakefs:// or lakefs://REPOSITORY/",
        )
    return base


def parse_size(text: str) -> int:
    """Return a size in bytes written as ``500 MB``, ``10 GiB``, ``1.5GB`` or a plain number.

    Raises:
        UsageError: it has another form.
    """
    # Without a pattern: every command reads the size of the cache.
    written = text.strip().lower()
    number = written.rstrip(_SIZE_LETTERS)
    unit = _SIZES.get(written[len(number) :].removesuffix("b"))
    whole, point, fraction = number.rstrip().partition(".")
    digits = (whole, fraction) if point else (whole,)
    if unit is None or not all(each.isascii() and each.isdecimal() for each in digits):
        raise UsageError(
            f"not a size: {_shown(text)}", hint="write 500 MB, 10 GiB or a number of bytes"
        )
    size = float(f"{whole}.{fraction}") * unit
    if size > _MAX_SIZE:
        raise UsageError(f"larger than any disk: {_shown(text)}", hint="write 500 MB or 10 GiB")
    return int(size)


def parse_count(text: str) -> int:
    """Return a whole number from 1.

    Raises:
        UsageError: it is no such number.
    """
    stripped = text.strip()
    is_number = stripped.isascii() and stripped.isdecimal() and len(stripped) <= _MAX_DIGITS
    if not is_number or not 1 <= int(stripped) <= _MAX_COUNT:
        raise UsageError(f"not a whole number from 1 to {_MAX_COUNT:,}: {_shown(text)}")
    return int(stripped)


def _shown(text: str) -> str:
    """Quote a value for an error, shortened if it is long."""
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}…"


def parse_sync(text: str) -> bool:
    """Return ``True`` for ``auto`` and ``False`` for ``manual``.

    Raises:
        UsageError: the text is neither.
    """
    word = text.strip().lower()
    if word not in ("auto", "manual"):
        raise UsageError(
            f"neither auto nor manual: {text!r}",
            hint="auto fetches before and pushes after each command; manual does neither",
        )
    return word == "auto"


def parse_link(text: str) -> str:
    """Return the way in which files are linked with objects.

    Raises:
        UsageError: there is no such way.
    """
    word = text.strip().lower()
    if word not in {"auto", "reflink", "hardlink", HARDLINK_ROOT, "copy"}:
        raise UsageError(
            f"none of auto, reflink, hardlink, {HARDLINK_ROOT} and copy: {_shown(text)}",
            hint="auto shares blocks where the file system can, and copies elsewhere",
        )
    return word


def parse_used(text: str) -> str:
    """Return the URI of a repository, or of a ref.

    Raises:
        UsageError: it is no such URI.
    """
    stripped = text.strip()
    if not re.fullmatch(_USED, stripped) or not stripped.isprintable():
        raise UsageError(
            f"not a repository or ref: {_shown(text)}", hint="write lakefs://REPOSITORY[/REF]"
        )
    return stripped


def parse_profile(text: str) -> str:
    """Return the name of a profile of AWS's configuration.

    Raises:
        UsageError: it is no name.
    """
    name = parse_text(text)
    if not re.fullmatch(r"[^\[\]]{1,128}", name):
        raise UsageError(f"not a profile: {_shown(text)}", hint="a section of ~/.aws/config")
    return name


def parse_endpoint(text: str) -> str:
    """Return the URL of a server.

    Raises:
        UsageError: it is no such URL, or has credentials or a query, which may be secret.
    """
    url = text.strip()
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#@]*)?", url, re.IGNORECASE):
        raise UsageError(
            "not the URL of a server, without credentials and query",
            hint="write http[s]://HOST[:PORT]; credentials belong into a profile of ~/.aws",
        )
    return url.rstrip("/")


def parse_region(text: str) -> str:
    """Return the name of a region.

    Raises:
        UsageError: it is no such name.
    """
    name = text.strip()
    if not re.fullmatch(r"[A-Za-z0-9-]{1,63}", name):
        raise UsageError(f"not a region: {_shown(text)}", hint="write eu-central-1")
    return name


def parse_directories(text: str) -> tuple[str, ...]:
    """Return the absolute directories of a list separated by commas; ``*`` stands for all.

    Raises:
        UsageError: an item is neither.
    """
    directories = tuple(filter(None, (each.strip() for each in text.split(","))))
    for each in directories:
        if each != "*" and not each.startswith("/"):
            raise UsageError(
                f"not an absolute directory: {each!r}",
                hint="write /DIRECTORY, several with commas between them, or *",
            )
    return directories


def parse_places(text: str) -> tuple[str, ...]:
    """Return the buckets, prefixes and directories of a list separated by blanks or commas.

    A name that contains a blank or a comma cannot be listed.

    Raises:
        UsageError: an item is no bucket, prefix or directory.
    """
    places = tuple(filter(None, re.split(r"[,\s]+", text)))
    for place in places:
        if not (place.isprintable() and re.fullmatch(_PLACE, place, re.IGNORECASE)):
            raise UsageError(
                f"not a bucket, prefix or directory: {place!r}",
                hint="write s3://BUCKET, s3://BUCKET/PREFIX, gs://…, az://… or a directory; "
                "several with blanks between them",
            )
    return places
