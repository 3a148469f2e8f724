"""Settings: their names, their meaning, and which source wins.

A setting comes from a flag, else from the environment (``user.name`` as ``LAKECLI_USER_NAME``),
else from lakectl's variable or file, else from the configuration file (TOML, ``name`` in the table
``[user]``), else from its default.
All sources are parameters; nothing here reads the environment.
"""

from __future__ import annotations

import re
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.errors import UsageError
from lakecli.model import NO_ACCOUNT, Account
from lakecli.setting_values import (
    parse_count,
    parse_duration,
    parse_endpoint,
    parse_link,
    parse_places,
    parse_profile,
    parse_region,
    parse_size,
    parse_sync,
    parse_text,
    parse_used,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


ENVIRONMENT_PREFIX: Final = "LAKECLI_"
LAKECTL_PREFIX: Final = "LAKECTL_"
SYNC: Final = "sync"
TRUST: Final = "trust.addresses"
USE: Final = "use"
LINK: Final = "local.link"


class Key(NamedTuple):
    """A setting: its name, its meaning and how its value is parsed.

    Attributes:
        name: dotted, as in the file's tables.
        summary: its meaning, in one line.
        parse: returns the value of a text; raises `UsageError`.
        default: as text, or ``None``.
        example: a value for help and errors.
        lakectl: the key of lakectl's configuration that means the same; empty if there is none.
    """

    name: str
    summary: str
    parse: Callable[[str], object]
    default: str | None
    example: str
    lakectl: str = ""

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return ENVIRONMENT_PREFIX + self.name.upper().replace(".", "_")

    @property
    def lakectl_variable(self) -> str:
        """The environment variable of lakectl that sets it, too; empty if there is none."""
        return LAKECTL_PREFIX + self.lakectl.upper().replace(".", "_") if self.lakectl else ""


KEYS: Final = (
    Key("user.name", "name of the committer; default: git's user.name", parse_text, None, "Ada"),
    Key(
        "user.email",
        "e-mail of the committer; default: git's user.email",
        parse_text,
        None,
        "a@b.org",
    ),
    Key(
        "base_uri",
        "prefix of every URI that lacks lakefs://",
        parse_text,
        None,
        "lakefs://demo/",
        lakectl="base_uri",
    ),
    Key(
        USE,
        "repository, or branch, that commands without a URI mean",
        parse_used,
        None,
        "lakefs://demo/main",
    ),
    Key(
        LINK,
        "how files of a linked directory come from a directory namespace: auto (reflink or copy), "
        "reflink, hardlink (read-only), or copy",
        parse_link,
        "auto",
        "hardlink",
    ),
    Key("cache.size", "size limit of the local cache", parse_size, "10 GiB", "2 GiB"),
    Key(
        "transfer.parallelism",
        "objects transferred in parallel",
        parse_count,
        "25",
        "8",
        lakectl="options.parallelism",
    ),
    Key(
        "gc.grace",
        "minimum age of garbage, and how long it stays condemned; at least 24h",
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
        "locations outside its namespace from which a repository's objects may be read",
        parse_places,
        None,
        "s3://raw-data /mnt/lake",
    ),
)
"""Every setting for all repositories."""

OF_REPOSITORY: Final = "repo."
"""The beginning of the name of a setting of one repository."""

PROFILE: Final = "profile"
ENDPOINT: Final = "endpoint"
REGION: Final = "region"

REPOSITORY_KEYS: Final = (
    *(key for key in KEYS if key.name in (SYNC, TRUST)),
    Key(PROFILE, "profile of ~/.aws/config for S3", parse_profile, None, "prod"),
    Key(ENDPOINT, "server of S3", parse_endpoint, None, "https://minio.example.com"),
    Key(REGION, "region of the buckets in S3", parse_region, None, "eu-central-1"),
)
"""The settings that a repository may have of its own, as ``repo.NAME.profile``."""

_BY_NAME: Final = {key.name: key for key in KEYS}
_OF_REPOSITORIES: Final = {key.name: key for key in REPOSITORY_KEYS}
_OF_REPOSITORY: Final = (
    rf"repo\.([a-z0-9][a-z0-9-]{{2,62}})\.({'|'.join(map(re.escape, _OF_REPOSITORIES))})"
)


def find_key(name: str) -> Key:
    """Return a setting by its name.

    Raises:
        UsageError: there is no such setting; the hint names the nearest.
    """
    key = _BY_NAME.get(name)
    if key is not None:
        return key
    if (named := re.fullmatch(_OF_REPOSITORY, name)) is not None:
        own = _OF_REPOSITORIES[named[2]]
        summary = f"`{named[2]}`" if own.name in _BY_NAME else own.summary
        return own._replace(
            name=name, summary=f"{summary} of lakefs://{named[1]} only", default=None
        )
    raise UsageError(f"no setting {name!r}", hint=_nearest(name))


def sync_key(repository: str) -> str:
    """Return the name of the setting `SYNC` of one repository."""
    return own_key(repository, SYNC)


def trust_key(repository: str) -> str:
    """Return the name of the setting `TRUST` of one repository."""
    return own_key(repository, TRUST)


def own_key(repository: str, name: str) -> str:
    """Return the name of a setting of one repository."""
    return f"{OF_REPOSITORY}{repository}.{name}"


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    if name in _OF_REPOSITORIES:
        return f"it is a setting of one repository: {own_key('NAME', name)}"
    if name.startswith(OF_REPOSITORY):
        repository, _, own = name.removeprefix(OF_REPOSITORY).partition(".")
        if own in _OF_REPOSITORIES:
            return f"{repository!r} is no name of a repository"
        near = get_close_matches(own, _OF_REPOSITORIES, n=1)
        keys = ", ".join(own_key(repository or "NAME", each) for each in near or _OF_REPOSITORIES)
        return f"did you mean {keys}?" if near else f"one of {keys}"
    near = get_close_matches(name, _BY_NAME, n=1)
    return f"did you mean {near[0]}?" if near else "one of " + ", ".join(_BY_NAME)


class OriginKind(StrEnum):
    """The kind of source of a value, highest precedence first."""

    FLAG = "flag"
    ENVIRONMENT = "environment"
    FILE = "file"
    DEFAULT = "default"


class Setting(NamedTuple):
    """One setting and the source of its value.

    Attributes:
        key: of the setting.
        text: as written, or ``None`` if it is unset.
        origin: the kind of source.
        place: the flag, the variable or the file; ``""`` for a default.
    """

    key: Key
    text: str | None
    origin: OriginKind
    place: str


class Settings:
    """All settings of one run; each value is read and checked on access.

    Args:
        flags: of the command line, by key name.
        environ: the environment.
        read_file: returns the file's values by key name, as text; called once, on first access.
        file: the configuration file, for messages.
        read_lakectl: returns the values of lakectl's file in the same form, if there is one.
        lakectl_file: lakectl's file, for messages.
    """

    def __init__(
        self,
        *,
        flags: Mapping[str, str],
        environ: Mapping[str, str],
        read_file: Callable[[], Mapping[str, str]],
        file: str,
        read_lakectl: Callable[[], Mapping[str, str]] | None = None,
        lakectl_file: str | None = None,
    ) -> None:
        self._flags = flags
        self._environ = environ
        self._read_file = read_file
        self._file = file
        self._read_lakectl = read_lakectl
        self._lakectl_file = lakectl_file
        self._values: Mapping[str, str] | None = None
        self._lakectl: Mapping[str, str] | None = None

    def find(self, name: str) -> Setting:
        """Return a setting and its source; empty values count as unset.

        Raises:
            UsageError: there is no such setting, or the file is malformed.
        """
        key = find_key(name)
        if text := self._flags.get(name):
            return Setting(key, text, OriginKind.FLAG, f"--{name.replace('_', '-')}")
        # A repository's name has dashes, which variables cannot have: LAKECLI_SYNC counts for all.
        named = re.fullmatch(_OF_REPOSITORY, name)
        # The list of places for all repositories is added to that of one; the others are for one.
        if named is None:
            variable = key.variable
        else:
            variable = _BY_NAME[SYNC].variable if named[2] == SYNC else ""
        for each in filter(None, (variable, key.lakectl_variable)):
            if text := self._environ.get(each):
                return Setting(key, text, OriginKind.ENVIRONMENT, each)
        if text := self._lakectl_values.get(name):
            return Setting(key, text, OriginKind.FILE, str(self._lakectl_file))
        if text := self._file_values.get(name):
            return Setting(key, text, OriginKind.FILE, str(self._file))
        return Setting(key, key.default, OriginKind.DEFAULT, "")

    def __iter__(self) -> Iterator[Setting]:
        """Yield every setting, in the order of `KEYS`, then the file's settings of repositories."""
        yield from (self.find(key.name) for key in KEYS)
        for name in sorted(self._file_values):
            if name not in _BY_NAME:
                yield self.find(name)

    @property
    def _lakectl_values(self) -> Mapping[str, str]:
        if self._read_lakectl is None:
            return {}
        if self._lakectl is None:
            self._lakectl = self._read_lakectl()
        return self._lakectl

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
        """The name of the committer."""
        return self._text("user.name")

    @property
    def user_email(self) -> str | None:
        """The e-mail of the committer."""
        return self._text("user.email")

    @property
    def base_uri(self) -> str:
        """The prefix of URIs that do not start with ``lakefs://``; may be empty."""
        return self._text("base_uri") or ""

    @property
    def local_link(self) -> str:
        """How files of a linked directory come from a namespace that is a directory."""
        return self._text(LINK) or "auto"

    @property
    def used(self) -> str | None:
        """The URI of the repository or ref that commands without a URI mean."""
        return self._text(USE)

    @property
    def cache_size(self) -> int:
        """The size limit of the local cache, in bytes."""
        return self._number("cache.size")

    @property
    def transfer_parallelism(self) -> int:
        """How many objects are transferred in parallel."""
        return self._number("transfer.parallelism")

    @property
    def presign_expires(self) -> timedelta:
        """The requested lifetime of presigned URLs."""
        value = self._value("presign.expires")
        assert isinstance(value, timedelta)
        return value

    @property
    def gc_grace(self) -> timedelta:
        """The minimum age of garbage, and how long it stays condemned."""
        value = self._value("gc.grace")
        assert isinstance(value, timedelta)
        return value

    def sync(self, repository: str) -> bool:
        """Whether commands on a repository fetch before and push after."""
        own = self._value(sync_key(repository))
        return bool(self._value(SYNC) if own is None else own)

    def account(self, repository: str) -> Account:
        """How a repository's buckets of S3 are accessed, where it has settings of its own.

        A repository that is read without a clone has no name, and no such settings.
        """
        if "/" in repository:
            return NO_ACCOUNT
        found = (self._text(own_key(repository, name)) for name in (PROFILE, ENDPOINT, REGION))
        return Account(*(value or "" for value in found))

    def trusted(self, repository: str) -> tuple[str, ...]:
        """Locations outside its namespace that a repository's objects may be read from.

        A repository that is read without a clone has no name, and none of its own.
        """
        found: list[str] = []
        for name in (TRUST,) if "/" in repository else (TRUST, trust_key(repository)):
            value = self._value(name)
            assert value is None or isinstance(value, tuple)
            found += value or ()
        return tuple(dict.fromkeys(found))
