"""Functions that format sizes, dates, paths, commits, objects and other values as text."""

import shlex
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

from lakecli.base.model import Commit, Entry
from lakecli.base.visibility import escape_hidden, is_visible

if TYPE_CHECKING:
    from lakecli.repository.reading.outside_counts import CountedPlace

_DAY: Final = 86_400
_CACHED: Final = 4_096
"""The number of days whose formatted dates are cached; formatting each time would take most of the
time of a long listing."""

_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB", "EB", "ZB")
_STEP = 1000
_ESCAPES: Final = dict(zip("\a\b\t\n\v\f\r", "abtnvfr", strict=True))
_METADATA_KEY_WIDTH = 18
_SHOWN_PLACES: Final = 20
_NO_CONTENT_TYPE: Final = "application/octet-stream"
"""The content type that is shown for an object without a content type, as in lakeFS."""

_SHORT_UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60))
_AGES: Final = (
    ("year", 365 * 86_400),
    ("month", 30 * 86_400),
    ("week", 7 * 86_400),
    ("day", 86_400),
    ("hour", 3_600),
    ("minute", 60),
    ("second", 1),
)


def human_size(size: int) -> str:
    """Return a size in bytes with an SI unit: ``999 B``, ``1.0 kB``, ``1.7 MB``."""
    if size < _STEP:
        return f"{size} B"
    amount, power = float(size), 0
    while round(amount, 1) >= _STEP:
        amount, power = amount / _STEP, power + 1
    return f"{amount:.1f} {_UNITS[power]}"


def human_seconds(seconds: float) -> str:
    """Return a duration as ``45s``, ``1m28s`` or ``3h05m``."""
    whole = int(seconds)
    if whole < 60:  # noqa: PLR2004 - seconds in a minute
        return f"{whole}s"
    minutes, whole = divmod(whole, 60)
    if minutes < 60:  # noqa: PLR2004 - minutes in an hour
        return f"{minutes}m{whole:02}s"
    return f"{minutes // 60}h{minutes % 60:02}m"


def local_date(when: datetime) -> str:
    """Return a time in the local time zone: ``2026-03-01 12:00:00 +0000 UTC``."""
    seconds = int(when.timestamp())
    before, change, after = zones_of(seconds // _DAY)
    offset, name = before if seconds < change else after
    day, second = divmod(seconds + offset, _DAY)
    return f"{_date_of(day)} {second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}{name}"


Zone: TypeAlias = tuple[int, str]
"""A time zone: its offset from UTC in seconds, and its text at the end of a date."""


@lru_cache(_CACHED)
def zones_of(day: int) -> tuple[Zone, int, Zone]:
    """Return the local time zones at the start and the end of a day, and when the zone changes.

    Args:
        day: the number of days since 1970, in UTC.

    Returns:
        The zone at the start of the day, the time of the change in seconds since 1970, and the zone
        at the end of the day. If the zone does not change on that day, both zones are equal, and
        the time is the end of the day.
    """
    start, end = day * _DAY, (day + 1) * _DAY
    before, after = _zone_at(start), _zone_at(end - 1)
    if before != after:
        end = start + bisect_left(range(start, end), 1, key=lambda at: _zone_at(at) != before)
    return before, end, after


def _zone_at(seconds: int) -> Zone:
    try:
        when = datetime.fromtimestamp(seconds, UTC).astimezone()
    except OverflowError:  # the local year would be 0 or 10000
        return 0, " +0000 UTC"
    offset = when.utcoffset() or timedelta()
    return int(offset.total_seconds()), when.strftime(" %z %Z")


@lru_cache(_CACHED)
def _date_of(day: int) -> str:
    return datetime.fromtimestamp(day * _DAY, UTC).strftime("%Y-%m-%d")


@lru_cache(256)
def rfc3339(when: datetime) -> str:
    """Return a time in UTC as RFC 3339: ``2026-03-01T12:00:00Z``.

    The texts are cached, because objects written together have the same time.
    """
    return when.astimezone(UTC).isoformat().replace("+00:00", "Z")


def quote_path(path: bytes | str) -> str:
    r"""Return a path as Git prints it: unchanged, or quoted if a terminal could misread it.

    A path is quoted if it has double quotes, backslashes, bytes that are not UTF-8, or invisible
    characters: ``"a\nb"``, ``"\377"``, ``"a\342\200\213b"``.
    """
    text = path if isinstance(path, str) else path.decode("utf-8", "surrogateescape")
    if is_visible(text) and '"' not in text and "\\" not in text:
        return text
    quoted = escape_hidden(text.replace("\\", "\\\\").replace('"', '\\"'), _escape)
    return f'"{quoted}"'


def quote_paths(paths: Sequence[bytes]) -> Sequence[str]:
    """Return many paths as `quote_path` does; fast if no path needs quotes."""
    text = b"\0".join(paths).decode("utf-8", "surrogateescape")
    is_usual = text.count("\0") == len(paths) - 1 and '"' not in text and "\\" not in text
    if is_usual and is_visible(text, besides="\0"):
        return text.split("\0")
    return list(map(quote_path, paths))


def _escape(character: str) -> str:
    letter = _ESCAPES.get(character)
    return _octal(character) if letter is None else f"\\{letter}"


def _octal(character: str) -> str:
    try:
        data = character.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a surrogate that is not an escaped byte
        data = character.encode("utf-8", "surrogatepass")
    return "".join(f"\\{byte:03o}" for byte in data)


def one_line(text: str) -> str:
    """Return a message with hidden characters escaped, so that it stays on one line."""
    return escape_hidden(text, _escape)


def harmless(text: str) -> str:
    """Return text with hidden characters escaped, except tabs and line feeds."""
    if is_visible(text, besides="\n\t"):
        return text
    return escape_hidden(text, lambda found: found if found in "\t\n" else _escape(found))


def shell_word(text: str) -> str:
    """Return a word quoted for bash or zsh, with hidden characters escaped."""
    if is_visible(text):
        if not any(character in text for character in '"$`\\!'):
            return f'"{text}"'  # as lakectl quotes
        return shlex.quote(text)
    inside = escape_hidden(text.replace("\\", "\\\\").replace("'", "\\'"), _octal)
    return f"$'{inside}'"


def metadata_lines(metadata: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of lakectl's ``Metadata:`` block, ordered by key; none without metadata."""
    if not metadata:
        return
    yield "Metadata:"
    yield "\t"
    for key in sorted(metadata):
        yield f"\t{quote_path(key):<{_METADATA_KEY_WIDTH}} = {quote_path(metadata[key])}"


def subject(commit: Commit) -> str:
    """Return the first line of a commit's message, with hidden characters escaped."""
    return one_line(commit.message.partition("\n")[0])


def _shown_message(commit: Commit) -> str:
    """Return a commit's message with hidden characters, except line breaks, escaped."""
    return "\n".join(one_line(line.expandtabs()) for line in commit.message.split("\n"))


def commit_lines(commit: Commit, *, branch: str) -> Iterator[str]:
    """Yield the lines that ``commit`` and ``cherry-pick`` print for a new commit."""
    yield f'Commit for branch "{branch}" completed.'
    yield ""
    yield f"ID: {commit.id}"
    first, *rest = _shown_message(commit).split("\n")
    yield f"Message: {first}"
    yield from rest
    yield f"Timestamp: {local_date(commit.created_at)}"
    yield f"Parents: {', '.join(commit.parents)}"
    yield ""


def log_lines(commit: Commit, *, show_metarange: bool = False) -> Iterator[str]:
    """Yield the lines that ``log`` and ``show commit`` print for a commit; the first line is empty.

    As in lakectl, every line of the metadata is followed by a line with a tab.
    """
    yield ""
    yield f"ID:            {commit.id}"
    if commit.committer:
        yield f"Author:        {one_line(commit.committer)}"
    yield f"Date:          {local_date(commit.created_at)}"
    if show_metarange:
        yield f"Meta Range ID: {commit.metarange_id}"
    if len(commit.parents) > 1:
        yield f"Merge:         {', '.join(commit.parents)}"
    yield ""
    yield from (f"\t{line}" for line in _shown_message(commit).split("\n"))
    if commit.metadata:
        yield ""
        heading, tab, *pairs = metadata_lines(commit.metadata)
        yield from (heading, tab)
        for pair in pairs:
            yield pair
            yield tab


def entry_lines(
    path: bytes, entry: Entry, *, physical_address: str, expires_at: datetime | None = None
) -> Iterator[str]:
    """Yield the lines that ``fs stat`` and ``fs upload`` print for an object."""
    yield f"Path: {quote_path(path)}"
    yield f"Modified Time: {local_date(entry.modified_at)}"
    yield f"Size: {entry.size} bytes"
    yield f"Human Size: {human_size(entry.size)}"
    yield f"Physical Address: {one_line(physical_address)}"
    if expires_at is not None:
        yield f"Physical Address Expires: {local_date(expires_at)}"
    yield f"Checksum: {entry.checksum}"
    yield f"Content-Type: {entry.content_type or _NO_CONTENT_TYPE}"
    yield from metadata_lines(entry.metadata)


def place_lines(places: "Sequence[CountedPlace]") -> Iterator[str]:
    """Yield a line for each place outside a namespace; beyond the first 20 places, only a count."""
    for place in places[:_SHOWN_PLACES]:
        allowed = "" if place.allowed else " (not allowed)"
        yield f"{one_line(place.uri)}: {place.objects} objects{allowed}"
    if len(places) > _SHOWN_PLACES:
        yield f"and {len(places) - _SHOWN_PLACES} more places"


def age(when: datetime, now: datetime) -> str:
    """Return how long ago a time was, in its largest unit: ``3 hours ago``."""
    seconds = max(0, int((now - when).total_seconds()))
    for unit, length in _AGES:
        if seconds >= length:
            count = seconds // length
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"


def short_age(when: datetime, now: datetime) -> str:
    """Return how long ago a time was, for a table: ``3m``, ``5h`` or ``12d``."""
    seconds = max(0, int((now - when).total_seconds()))
    unit, length = next((each for each in _SHORT_UNITS if seconds >= each[1]), ("s", 1))
    return f"{seconds // length}{unit}"


def cut(text: str, width: int) -> str:
    """Return a text, cut to at most `width` characters; a text that was cut ends in ``…``."""
    return text if len(text) <= width else text[: width - 1] + "…"
