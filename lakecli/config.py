"""Settings: what may be set, how a value is read, and which of several places wins.

A setting comes from a flag, else from the environment (``user.name`` as ``LAKECLI_USER_NAME``),
else from the configuration file (TOML, ``name`` in the table ``[user]``), else from its default.
Every place is handed in; nothing here looks at the environment.
"""

from __future__ import annotations

import re
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

ENVIRONMENT_PREFIX: Final = "LAKECLI_"
SYNC: Final = "sync"
TRUST: Final = "trust.addresses"

_DURATION: Final = r"([0-9]+)\s*([smhd])"
_DURATION_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_SIZE: Final = r"([0-9]+(?:\.[0-9]+)?)\s*(?:([kmgtp])(i?))?b?"
_SIZE_STEPS: Final = "kmgtp"
_MAX_DAYS = 100_000
_MAX_SIZE = 1 << 60
_MAX_COUNT = 1_000_000
_MAX_DIGITS = 18
_SHOWN = 60
_PLACE: Final = r"(((s3|gs)://[^/]|az://[^/]+/[^/]|(local|file):///[^/])|/[^/]).*"


def parse_text(text: str) -> str:
    """Return a one-line text without surrounding blanks.

    Raises:
        UsageError: it is empty or has control characters.
    """
    stripped = text.strip()
    if not stripped or not stripped.isprintable():
        raise UsageError(f"not a line of text: {_shown(text)}")
    return stripped


def parse_duration(text: str) -> timedelta:
    """Return a duration written as ``90s``, ``30m``, ``12h`` or ``7d``.

    Raises:
        UsageError: it is none of these, or not longer than nothing.
    """
    match = re.fullmatch(_DURATION, text.strip())
    if match and len(match[1]) <= len(str(_MAX_DAYS * 86400)):
        seconds = timedelta(**{_DURATION_UNITS[match[2]]: 1}).total_seconds() * int(match[1])
        if 0 < seconds <= _MAX_DAYS * 86400:
            return timedelta(seconds=seconds)
    raise UsageError(f"not a duration: {_shown(text)}", hint="write 90s, 30m, 12h or 7d")


def parse_size(text: str) -> int:
    """Return a size in bytes written as ``500 MB``, ``10 GiB``, ``1.5GB`` or a plain number.

    Raises:
        UsageError: it is none of these.
    """
    match = re.fullmatch(_SIZE, text.strip(), re.IGNORECASE)
    if not match:
        raise UsageError(f"not a size: {_shown(text)}", hint="write 500 MB, 10 GiB or bytes")
    step = 1024 if match[3] else 1000
    power = _SIZE_STEPS.index(match[2].lower()) + 1 if match[2] else 0
    size = float(match[1]) * step**power
    if size > _MAX_SIZE:
        raise UsageError(f"larger than any disk: {_shown(text)}", hint="write 500 MB or 10 GiB")
    return int(size)


def parse_count(text: str) -> int:
    """Return a whole number from 1.

    Raises:
        UsageError: it is none.
    """
    stripped = text.strip()
    is_number = stripped.isascii() and stripped.isdecimal() and len(stripped) <= _MAX_DIGITS
    if not is_number or not 1 <= int(stripped) <= _MAX_COUNT:
        raise UsageError(f"not a whole number from 1 to {_MAX_COUNT:,}: {_shown(text)}")
    return int(stripped)


def _shown(text: str) -> str:
    """Return a value as an error quotes it, however long it is."""
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}…"


def parse_sync(text: str) -> bool:
    """Return whether ``auto`` is asked for, and not ``manual``.

    Raises:
        UsageError: it is neither.
    """
    word = text.strip().lower()
    if word not in ("auto", "manual"):
        raise UsageError(
            f"neither auto nor manual: {text!r}",
            hint="auto fetches before and pushes after each command; manual leaves it to you",
        )
    return word == "auto"


def parse_places(text: str) -> tuple[str, ...]:
    """Return the buckets, prefixes and directories that a list names.

    They are separated by blanks or commas; one that has either in its name cannot be listed.

    Raises:
        UsageError: one of them is none.
    """
    places = tuple(filter(None, re.split(r"[,\s]+", text)))
    for place in places:
        if not (place.isprintable() and re.fullmatch(_PLACE, place, re.IGNORECASE)):
            raise UsageError(
                f"not a place that objects can lie in: {place!r}",
                hint="write s3://BUCKET, s3://BUCKET/PREFIX, gs://…, az://… or a directory; "
                "several with blanks between them",
            )
    return places


class Key(NamedTuple):
    """One thing that may be set.

    Attributes:
        name: dotted, as in the file's tables.
        summary: what it is, in one line.
        parse: text to value; raises `UsageError`.
        default: as text; ``None`` where there is none.
        example: a value to show.
    """

    name: str
    summary: str
    parse: Callable[[str], object]
    default: str | None
    example: str

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return ENVIRONMENT_PREFIX + self.name.upper().replace(".", "_")


KEYS: Final = (
    Key("user.name", "who commits, by name; without it git's own", parse_text, None, "Ada"),
    Key("user.email", "who commits, by e-mail; without it git's own", parse_text, None, "a@b.org"),
    Key("base_uri", "put before every URI without lakefs://", parse_text, None, "lakefs://demo/"),
    Key("cache.size", "how much the local cache may hold", parse_size, "10 GiB", "2 GiB"),
    Key("transfer.parallelism", "objects moved at a time", parse_count, "25", "8"),
    Key(
        "gc.grace",
        "how old garbage has to be, and how long it stays condemned; at least 24h",
        parse_duration,
        "14d",
        "30d",
    ),
    Key("presign.expires", "how long a presigned URL works", parse_duration, "15m", "12h"),
    Key(
        SYNC,
        "fetch before and push after every command: auto or manual",
        parse_sync,
        "manual",
        "auto",
    ),
    Key(
        TRUST,
        "where objects of a repository may lie, outside its own bucket or directory",
        parse_places,
        None,
        "s3://raw-data /mnt/lake",
    ),
)
"""Every setting; each is read by something. A repository may have its own `SYNC` and `TRUST`."""

_OF_REPOSITORY: Final = re.compile(r"repo\.([a-z0-9][a-z0-9-]{2,62})\.(sync|trust\.addresses)")
_BY_NAME: Final = {key.name: key for key in KEYS}


def find_key(name: str) -> Key:
    """Return a setting by its name.

    Raises:
        UsageError: there is none; the hint names the nearest.
    """
    key = _BY_NAME.get(name)
    if key is not None:
        return key
    if (named := _OF_REPOSITORY.fullmatch(name)) is not None:
        return _BY_NAME[named[2]]._replace(
            name=name, summary=f"`{named[2]}` for lakefs://{named[1]} alone", default=None
        )
    raise UsageError(f"no setting {name!r}", hint=_nearest(name))


def sync_key(repository: str) -> str:
    """Return the name of the setting that is `SYNC` for one repository."""
    return f"repo.{repository}.{SYNC}"


def trust_key(repository: str) -> str:
    """Return the name of the setting that is `TRUST` for one repository."""
    return f"repo.{repository}.{TRUST}"


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, _BY_NAME, n=1)
    return f"did you mean {near[0]}?" if near else "one of " + ", ".join(_BY_NAME)


class OriginKind(StrEnum):
    """Where a value came from, nearest first."""

    FLAG = "flag"
    ENVIRONMENT = "environment"
    FILE = "file"
    DEFAULT = "default"


class Setting(NamedTuple):
    """One setting and where its value came from.

    Attributes:
        key: what is set.
        text: as written; ``None`` where it is unset.
        origin: the kind of place.
        place: the flag, the variable or the file; ``""`` for a default.
    """

    key: Key
    text: str | None
    origin: OriginKind
    place: str


class Settings:
    """All settings of one run; values are read, and malformed ones refused, when asked for.

    Args:
        flags: given on the command line, by key name.
        environ: the environment.
        read_file: gives the file's values by key name, as text; called once, when needed.
        file: the configuration file, for messages.
    """

    def __init__(
        self,
        *,
        flags: Mapping[str, str],
        environ: Mapping[str, str],
        read_file: Callable[[], Mapping[str, str]],
        file: Path,
    ) -> None:
        self._flags = flags
        self._environ = environ
        self._read_file = read_file
        self._file = file
        self._values: Mapping[str, str] | None = None

    def find(self, name: str) -> Setting:
        """Return a setting and its origin; empty values count as unset.

        Raises:
            UsageError: there is no such setting, or the file is malformed.
        """
        key = find_key(name)
        if text := self._flags.get(name):
            return Setting(key, text, OriginKind.FLAG, f"--{name.replace('_', '-')}")
        # What shells can name; a repository's name has dashes. LAKECLI_SYNC is for all of them.
        named = _OF_REPOSITORY.fullmatch(name)
        if named is not None and named[2] == TRUST:
            variable = ""  # a list of all repositories adds to that of one, it does not replace it
        else:
            variable = _BY_NAME[SYNC].variable if named is not None else key.variable
        if variable and (text := self._environ.get(variable)):
            return Setting(key, text, OriginKind.ENVIRONMENT, variable)
        if text := self._file_values.get(name):
            return Setting(key, text, OriginKind.FILE, str(self._file))
        return Setting(key, key.default, OriginKind.DEFAULT, "")

    def __iter__(self) -> Iterator[Setting]:
        """Yield every setting, in the order of `KEYS`, then what the file sets for repositories."""
        yield from (self.find(key.name) for key in KEYS)
        for name in sorted(self._file_values):
            if name not in _BY_NAME:
                yield self.find(name)

    @property
    def _file_values(self) -> Mapping[str, str]:
        if self._values is None:
            self._values = self._read_file()
        return self._values

    def _value(self, name: str) -> object:
        setting = self.find(name)
        if setting.text is None:
            return None
        try:
            return setting.key.parse(setting.text)
        except UsageError as error:
            where = f" in {setting.place}" if setting.place else ""
            raise UsageError(f"{name}{where}: {error.message}", hint=error.hint) from None

    def _text(self, name: str) -> str | None:
        value = self._value(name)
        assert value is None or isinstance(value, str)
        return value

    def _number(self, name: str) -> int:
        value = self._value(name)
        assert isinstance(value, int)
        return value

    @property
    def user_name(self) -> str | None:
        """Who commits, by name."""
        return self._text("user.name")

    @property
    def user_email(self) -> str | None:
        """Who commits, by e-mail."""
        return self._text("user.email")

    @property
    def base_uri(self) -> str:
        """What comes before a URI that does not start with ``lakefs://``; may be empty."""
        return self._text("base_uri") or ""

    @property
    def cache_size(self) -> int:
        """The limit of the local cache, in bytes."""
        return self._number("cache.size")

    @property
    def transfer_parallelism(self) -> int:
        """How many objects are moved at a time."""
        return self._number("transfer.parallelism")

    @property
    def presign_expires(self) -> timedelta:
        """How long a presigned URL is asked to work."""
        value = self._value("presign.expires")
        assert isinstance(value, timedelta)
        return value

    @property
    def gc_grace(self) -> timedelta:
        """How old garbage has to be, and how long it stays condemned."""
        value = self._value("gc.grace")
        assert isinstance(value, timedelta)
        return value

    def sync(self, repository: str) -> bool:
        """Whether the commands on a repository fetch before and push after, by themselves."""
        own = self._value(sync_key(repository))
        return bool(self._value(SYNC) if own is None else own)

    def trusted(self, repository: str) -> tuple[str, ...]:
        """Where objects of a repository may lie outside its namespace: for all, and for this."""
        found: list[str] = []
        for name in (TRUST, trust_key(repository)):
            value = self._value(name)
            assert value is None or isinstance(value, tuple)
            found += value or ()
        return tuple(dict.fromkeys(found))
