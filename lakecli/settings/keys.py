"""The settings: their names, their meaning, and how their values are parsed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from lakecli.base.model import is_repository_name
from lakecli.errors import UsageError
from lakecli.settings.values import (
    parse_base_uri,
    parse_count,
    parse_directories,
    parse_duration,
    parse_email,
    parse_endpoint,
    parse_grace,
    parse_link,
    parse_places,
    parse_profile,
    parse_region,
    parse_size,
    parse_sync,
    parse_text,
    parse_used,
)

ENVIRONMENT_PREFIX: Final = "LAKECLI_"
LAKECTL_PREFIX: Final = "LAKECTL_"
SYNC: Final = "sync"
TRUST: Final = "trust.addresses"
USE: Final = "use"
LINK: Final = "local.link"
LOCAL_TRUST: Final = "local.trust"


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
        parse_email,
        None,
        "a@b.org",
    ),
    Key(
        "base_uri",
        "prefix of every URI that lacks lakefs://",
        parse_base_uri,
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
        "reflink, hardlink (read-only; root gets copies), hardlink-root (also for root), or copy",
        parse_link,
        "auto",
        "hardlink",
    ),
    Key("cache.size", "size limit of the local cache", parse_size, "10 GiB", "2 GiB"),
    Key(
        "cache.memory",
        "size limit of the parts of trees that one process keeps in memory",
        parse_size,
        "1 GiB",
        "256 MiB",
    ),
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
        parse_grace,
        "14d",
        "30d",
    ),
    Key(
        LOCAL_TRUST,
        "linked directories of other users that are used; * for all",
        parse_directories,
        None,
        "/srv/shared/data",
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

BY_NAME: Final = {key.name: key for key in KEYS}
"""Every setting for all repositories, by name."""

_OF_REPOSITORIES: Final = {key.name: key for key in REPOSITORY_KEYS}


def find_key(name: str) -> Key:
    """Return a setting by its name.

    Raises:
        UsageError: there is no such setting; the hint names the nearest.
    """
    key = BY_NAME.get(name)
    if key is not None:
        return key
    repository, _, own_name = name.removeprefix(OF_REPOSITORY).partition(".")
    own = _OF_REPOSITORIES.get(own_name)
    if own is not None and name.startswith(OF_REPOSITORY) and is_repository_name(repository):
        summary = f"`{own_name}`" if own_name in BY_NAME else own.summary
        return own._replace(
            name=name, summary=f"{summary} of lakefs://{repository} only", default=None
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
    near = get_close_matches(name, BY_NAME, n=1)
    return f"did you mean {near[0]}?" if near else "one of " + ", ".join(BY_NAME)
