"""The names and meanings of all settings, and the parsers of their values.

Each parser raises `UsageError` for an invalid text; the hint of the error has an example.
"""

import re
import shlex
from collections.abc import Callable
from datetime import timedelta
from typing import Final, NamedTuple

from lakecli.base.layout import LONGEST_GRACE, SHORTEST_GRACE
from lakecli.base.model import YES, Demand, is_repository_name
from lakecli.base.uri import SCHEME, check_no_password, is_namespace
from lakecli.base.validation import CHECK_NAME
from lakecli.errors import UsageError

TextParser = Callable[[str], str]
ByBucket = tuple[tuple[str, str], ...]
"""Pairs of a bucket, or ``""`` for all buckets, and a value."""

HARDLINK_ROOT: Final = "hardlink-root"
"""The value of ``local.link`` that allows hard links even if the user is root."""

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
_BETWEEN: Final = (
    "[\u3000\xa0]|(?<=[^\0-\x7f\\s\u200c\u200d])[\u200c\u200d](?=[^\0-\x7f\\s\u200c\u200d])"
)
"""Unprintable characters that a person's name may contain: no-break and ideographic spaces and,
between non-ASCII letters, the zero-width joiners of Persian and Indic names."""
_PLACE: Final = r"(((s3|gs)://[^/]|az://[^/]+/[^/]|(local|file):///[^/])|/[^/]).*"


def _shown(text: str) -> str:
    """Quote a value for an error, shortened if it is long."""
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}…"


def _invalid(problem: str, text: str, hint: str | None = None) -> UsageError:
    return UsageError(f"{problem}: {_shown(text)}", hint=hint)


def parse_text(text: str) -> str:
    """Return a line of text without leading and trailing spaces."""
    stripped = text.strip()
    if not stripped or not stripped.isprintable():
        raise UsageError(f"not a line of text: {_shown(text)}")
    return stripped


def parse_name(text: str) -> str:
    """Return the name of a person without leading and trailing spaces."""
    parse_text(re.sub(_BETWEEN, "", text))
    return text.strip()


def parse_email(text: str) -> str:
    """Return an e-mail address in the form that commits record."""
    address = parse_text(text)
    user, _, host = address.partition("@")
    if not user or not host or "@" in host or any(each in " <>" for each in address):
        raise UsageError(f"not an e-mail address: {_shown(text)}", hint="write ada@example.com")
    return address


def parse_duration(text: str) -> timedelta:
    """Return a duration written as ``90s``, ``30m``, ``12h`` or ``7d``."""
    match = re.fullmatch(_DURATION, text.strip())
    if match and len(match[1]) <= len(str(_MAX_DAYS * 86400)):
        seconds = timedelta(**{_DURATION_UNITS[match[2]]: 1}).total_seconds() * int(match[1])
        if 0 < seconds <= _MAX_DAYS * 86400:
            return timedelta(seconds=seconds)
    raise UsageError(f"not a duration: {_shown(text)}", hint="write 90s, 30m, 12h or 7d")


def parse_timeout(text: str) -> timedelta:
    """Return the time to wait for a server, which may be at most a day."""
    timeout = parse_duration(text)
    if timeout > timedelta(days=1):
        raise UsageError(f"longer than a day: {_shown(text)}", hint="the default is 60s")
    return timeout


def parse_grace(text: str) -> timedelta:
    """Return a grace period of garbage collection."""
    return check_grace(parse_duration(text))


def check_grace(grace: timedelta) -> timedelta:
    """Return a grace period of garbage collection; refuse one that is too short or too long."""
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
    """Return the prefix for URIs that are written without ``lakefs://``."""
    base = parse_text(text)
    check_no_password(base)
    if not base.startswith(SCHEME) and not is_namespace(base):
        hint = "write lakefs:// or lakefs://REPOSITORY/"
        raise _invalid("not the beginning of a lakefs:// URI", text, hint)
    return base


def parse_size(text: str) -> int:
    """Return a size in bytes written as ``500 MB``, ``10 GiB``, ``1.5GB`` or a plain number."""
    # No regular expression, for speed: every command parses the size of the cache.
    written = text.strip().lower()
    number = written.rstrip(_SIZE_LETTERS)
    unit = _SIZES.get(written[len(number) :].removesuffix("b"))
    whole, point, fraction = number.rstrip().partition(".")
    digits = (whole, fraction) if point else (whole,)
    if unit is None or not all(each.isascii() and each.isdecimal() for each in digits):
        raise _invalid("not a size", text, "write 500 MB, 10 GiB or a number of bytes")
    size = float(f"{whole}.{fraction}") * unit
    if size > _MAX_SIZE:
        raise UsageError(f"larger than any disk: {_shown(text)}", hint="write 500 MB or 10 GiB")
    return int(size)


def parse_count(text: str) -> int:
    """Return a whole number that is at least 1."""
    stripped = text.strip()
    is_number = stripped.isascii() and stripped.isdecimal() and len(stripped) <= _MAX_DIGITS
    if not is_number or not 1 <= int(stripped) <= _MAX_COUNT:
        raise UsageError(f"not a whole number from 1 to {_MAX_COUNT:,}: {_shown(text)}")
    return int(stripped)


def parse_command(text: str) -> tuple[str, ...]:
    """Return the words of a command, split and unquoted as a shell does; no shell is run."""
    try:
        words = tuple(shlex.split(text))
    except ValueError:
        words = ()
    if not words or "\0" in text:
        hint = "write PROGRAM ARGUMENT...; for pipes and variables: sh -c '...'"
        raise _invalid("not a command", text, hint)
    return words


def parse_sync(text: str) -> bool:
    """Return ``True`` for ``auto`` and ``False`` for ``manual``."""
    word = text.strip().lower()
    if word not in ("auto", "manual"):
        hint = "auto fetches before and pushes after each command; manual does neither"
        raise UsageError(f"neither auto nor manual: {text!r}", hint=hint)
    return word == "auto"


def parse_link(text: str) -> str:
    """Return the method that creates files of linked directories, such as ``reflink``."""
    word = text.strip().lower()
    if word not in {"auto", "reflink", "hardlink", HARDLINK_ROOT, "copy"}:
        hint = "auto shares blocks where the file system can, and copies elsewhere"
        raise _invalid(f"none of auto, reflink, hardlink, {HARDLINK_ROOT} and copy", text, hint)
    return word


def _matching(pattern: str, what: str, hint: str, *, is_secret: bool = False) -> TextParser:
    """Return a parser for printable texts that match a pattern.

    Args:
        what: the kind of value, for the error.
        is_secret: whether the error leaves out the value.
    """

    def parse(text: str) -> str:
        found = text.strip()
        if not re.fullmatch(pattern, found) or not found.isprintable():
            shown = "" if is_secret else f": {_shown(text)}"
            raise UsageError(f"not {what}{shown}", hint=hint)
        return found

    return parse


parse_used: Final = _matching(_USED, "a repository or ref", "write lakefs://REPOSITORY[/REF]")
parse_profile: Final = _matching(r"[^\[\]]{1,128}", "a profile", "a section of ~/.aws/config")
parse_region: Final = _matching(r"[A-Za-z0-9-]{1,63}", "a region", "write eu-central-1")
parse_access_key: Final = _matching(
    "[A-Za-z0-9]{3,128}", "an access key", "3 to 128 letters and digits"
)
parse_secret: Final = _matching(
    r"[!#-&(-\[\]-~]{16,128}",
    "a secret key",
    "16 to 128 characters, without spaces, quotes and backslashes",
    is_secret=True,
)

_parse_flag: Final = _matching(f"{YES}|false", "true or false", f"write {YES} or false")
_parse_sse: Final = _matching("AES256|aws:kms(:dsse)?", "an encryption", "write AES256 or aws:kms")
_parse_aws_key: Final = _matching(
    r"[A-Za-z0-9:/_.+@-]{1,2048}", "a key", "write its ID, ARN or alias/NAME"
)
_parse_google_key: Final = _matching(
    "projects/[^/=]+/locations/[^/=]+/keyRings/[^/=]+/cryptoKeys/[^/=]+",
    "a key",
    "write projects/PROJECT/locations/LOCATION/keyRings/RING/cryptoKeys/KEY",
)
_parse_project: Final = _matching("[a-z0-9.:-]{1,128}", "a project", "write the ID of the project")
_parse_scope: Final = _matching(
    "[A-Za-z0-9-]{3,63}", "an encryption scope", "write the name of the scope"
)


def _by_bucket(parse: TextParser, bucket: str) -> Callable[[str], ByBucket]:
    """Return a parser for a setting whose value may differ between buckets.

    The text is a list separated by spaces: ``VALUE`` for all buckets, ``BUCKET=VALUE`` for one
    bucket. The parser returns pairs of a bucket (``""``: all buckets) and its value.

    Args:
        parse: the parser of a value.
        bucket: the form of a bucket's name, such as ``s3://BUCKET``.
    """
    pattern = re.sub("[A-Z]+", "[A-Za-z0-9._$-]+", bucket)

    def parse_all(text: str) -> ByBucket:
        found: dict[str, str] = {}
        for item in parse_text(text).split():
            place, _, value = item.rpartition("=")
            place = place.rstrip("/")
            if place and not re.fullmatch(pattern, place, re.ASCII):
                hint = (
                    f"write {bucket}=VALUE, or VALUE for all buckets; several with blanks "
                    "between them"
                )
                raise _invalid("not a bucket", place, hint)
            if place in found:
                where = _shown(place) if place else "all buckets"
                raise UsageError(f"two values for {where}", hint="remove one of them")
            found[place] = parse(value)
        return tuple(found.items())

    return parse_all


def parse_endpoint(text: str) -> str:
    """Return the URL of a server."""
    url = text.strip()
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#@]*)?", url, re.IGNORECASE):
        hint = "write http[s]://HOST[:PORT]; credentials belong into a profile of ~/.aws"
        raise UsageError("not the URL of a server, without credentials and query", hint=hint)
    return url.rstrip("/")


def parse_directories(text: str) -> tuple[str, ...]:
    """Return the absolute directories in a comma-separated list; ``*`` means all directories."""
    directories = tuple(filter(None, (each.strip() for each in text.split(","))))
    for each in directories:
        if each != "*" and not each.startswith("/"):
            hint = "write /DIRECTORY, several with commas between them, or *"
            raise UsageError(f"not an absolute directory: {each!r}", hint=hint)
    return directories


def parse_places(text: str) -> tuple[str, ...]:
    """Return the buckets, prefixes and directories in a list separated by spaces or commas.

    A name that contains a space or a comma cannot be listed.
    """
    places = tuple(filter(None, re.split(r"[,\s]+", text)))
    for place in places:
        check_no_password(place)
        if not (place.isprintable() and re.fullmatch(_PLACE, place, re.IGNORECASE)):
            raise UsageError(
                f"not a bucket, prefix or directory: {place!r}",
                hint="write s3://BUCKET, s3://BUCKET/PREFIX, gs://…, az://… or a directory; "
                "several with blanks between them",
            )
    return places


ENVIRONMENT_PREFIX: Final = "LAKECLI_"
LAKECTL_PREFIX: Final = "LAKECTL_"
NETWORK_TIMEOUT: Final = "network.timeout"
NETWORK_MIN_RATE: Final = "network.min_rate"
SERVE_ACCESS_KEY: Final = "serve.access-key"
SERVE_SECRET_KEY: Final = "serve.secret-key"  # noqa: S105 - the name of a setting
SYNC: Final = "sync"
TRUST: Final = "trust.addresses"
USE: Final = "use"
OF_CHECKS: Final = "checks."
"""The prefix of the names of settings of checks, such as ``checks.schema``."""
OF_HOOKS: Final = "hooks."
LINK: Final = "local.link"
LOCAL_TRUST: Final = "local.trust"
PROFILE: Final = "profile"
ENDPOINT: Final = "endpoint"
REGION: Final = "region"


class Key(NamedTuple):
    """A setting: its name, its meaning and the parser of its value.

    Attributes:
        name: the dotted name; the part before a dot is a table in the file.
        parse: the function that converts text to the value; raises `UsageError`.
        example: a value for help and errors.
        default: the default as text, or ``None``.
        lakectl: the key in lakectl's configuration with the same meaning, or ``""``.
        is_secret: whether listings of settings hide the value.
        own_summary: the meaning, if `_SUMMARIES` does not have it.
    """

    name: str
    parse: Callable[[str], object]
    example: str
    default: str | None = None
    lakectl: str = ""
    is_secret: bool = False
    own_summary: str = ""

    @property
    def summary(self) -> str:
        """The meaning of the setting, for lists and help."""
        return self.own_summary or _SUMMARIES[self.name]

    @property
    def variable(self) -> str:
        """The environment variable for the setting."""
        return ENVIRONMENT_PREFIX + self.name.upper().replace(".", "_").replace("-", "_")

    @property
    def lakectl_variable(self) -> str:
        """The environment variable of lakectl that also sets this setting, or ``""``."""
        return LAKECTL_PREFIX + self.lakectl.upper().replace(".", "_") if self.lakectl else ""


_SUMMARIES: Final = {
    "user.name": "name of the committer; default: git's user.name",
    "user.email": "e-mail of the committer; default: git's user.email",
    "base_uri": "prefix of every URI that lacks lakefs://",
    USE: "repository, or branch, that commands without a URI mean",
    LINK: "how files of a linked directory come from a directory namespace: auto (reflink or copy)"
    ", reflink, hardlink (read-only; root gets copies), hardlink-root (also for root), or copy",
    "cache.size": "size limit of the local cache",
    "cache.memory": "size limit of the parts of trees that one process keeps in memory",
    "transfer.parallelism": "objects transferred in parallel",
    "gc.grace": "minimum age of garbage, and how long it stays condemned; at least 24h",
    LOCAL_TRUST: "linked directories of other users that are used; * for all",
    NETWORK_TIMEOUT: "how long a store may take for the headers of an answer, and may send nothing",
    NETWORK_MIN_RATE: "bytes a second that an object or listing must arrive with, over "
    "network.timeout; 0: any",
    "presign.expires": "how long a presigned URL works",
    SERVE_ACCESS_KEY: "access key of `lakecli serve`; default: a new one each time",
    SERVE_SECRET_KEY: "secret key that belongs to serve.access-key",
    SYNC: "fetch before and push after every command: auto or manual",
    TRUST: "locations outside its namespace from which a repository's objects may be read",
    "timeouts.check": "how long a check may take",
    "timeouts.hook": "how long a hook may take",
    Demand.S3_SSE: "encryption that writes to S3 ask for: AES256, aws:kms or aws:kms:dsse",
    Demand.S3_KMS_KEY: "key of AWS KMS that writes to S3 ask for",
    Demand.S3_BUCKET_KEY: "whether writes to S3 ask for an S3 Bucket Key",
    Demand.S3_PAYER: "whether you pay for requests to S3 (Requester Pays)",
    Demand.S3_ANONYMOUS: "whether S3 is read without credentials",
    Demand.GS_KMS_KEY: "key of Cloud KMS that writes to Google Cloud Storage ask for",
    Demand.GS_PROJECT: "project that pays for requests to Google Cloud Storage (Requester Pays)",
    Demand.GS_ANONYMOUS: "whether Google Cloud Storage is read without credentials",
    Demand.AZ_SCOPE: "encryption scope that writes to Azure ask for",
    Demand.AZ_ANONYMOUS: "whether Azure is read without credentials",
    PROFILE: "profile of ~/.aws/config for S3",
    ENDPOINT: "server of S3",
    REGION: "region of the buckets in S3",
}
"""The meaning of each setting, for lists and help."""


def _demand(name: Demand, parse: TextParser, example: str) -> Key:
    """Return the setting for a header or parameter that some buckets require."""
    bucket = "az://ACCOUNT/CONTAINER" if name.startswith("az.") else f"{name[:2]}://BUCKET"
    summary = f"{_SUMMARIES[name]}; {bucket}=VALUE: of one bucket"
    return Key(name.value, _by_bucket(parse, bucket), example, own_summary=summary)


KEYS: Final = (
    Key("user.name", parse_name, "Ada"),
    Key("user.email", parse_email, "a@b.org"),
    Key("base_uri", parse_base_uri, "lakefs://demo/", lakectl="base_uri"),
    Key(USE, parse_used, "lakefs://demo/main"),
    Key(LINK, parse_link, "hardlink", "auto"),
    Key("cache.size", parse_size, "2 GiB", "10 GiB"),
    Key("cache.memory", parse_size, "256 MiB", "1 GiB"),
    Key("transfer.parallelism", parse_count, "8", "25", lakectl="options.parallelism"),
    Key("gc.grace", parse_grace, "30d", "14d"),
    Key(LOCAL_TRUST, parse_directories, "/srv/shared/data"),
    Key(NETWORK_TIMEOUT, parse_timeout, "5m", "60s"),
    Key(NETWORK_MIN_RATE, parse_size, "100", "1 KiB"),
    Key("presign.expires", parse_duration, "12h", "15m"),
    Key(SERVE_ACCESS_KEY, parse_access_key, "LAKECLI0ADA"),
    Key(SERVE_SECRET_KEY, parse_secret, "at-least-16-characters", is_secret=True),
    Key(SYNC, parse_sync, "auto", "manual"),
    Key(TRUST, parse_places, "s3://raw-data /mnt/lake"),
    Key("timeouts.check", parse_duration, "10m", "60m"),
    Key("timeouts.hook", parse_duration, "10m", "60s"),
    *(
        Key(
            f"{OF_HOOKS}{when}-{what}",
            parse_command,
            f"/usr/local/bin/{when}-{what}",
            own_summary=f"command that is run {moment} a {what}, with a JSON document on standard "
            "input",
        )
        for when, moment in (("pre", "before"), ("post", "after"))
        for what in ("commit", "merge", "push")
    ),
    _demand(Demand.S3_SSE, _parse_sse, "aws:kms"),
    _demand(Demand.S3_KMS_KEY, _parse_aws_key, "s3://my-lake=alias/lake"),
    _demand(Demand.S3_BUCKET_KEY, _parse_flag, YES),
    _demand(Demand.S3_PAYER, _parse_flag, "s3://arxiv=true"),
    _demand(Demand.S3_ANONYMOUS, _parse_flag, "s3://noaa-goes16=true"),
    _demand(
        Demand.GS_KMS_KEY, _parse_google_key, "projects/p/locations/eu/keyRings/r/cryptoKeys/k"
    ),
    _demand(Demand.GS_PROJECT, _parse_project, "gs://open-data=my-project"),
    _demand(Demand.GS_ANONYMOUS, _parse_flag, "gs://open-data=true"),
    _demand(Demand.AZ_SCOPE, _parse_scope, "lake-scope"),
    _demand(Demand.AZ_ANONYMOUS, _parse_flag, "az://opendata/public=true"),
)
"""All settings that apply to all repositories."""

OF_REPOSITORY: Final = "repo."
"""The prefix of the names of settings that apply to one repository."""

REPOSITORY_KEYS: Final = (
    *(key for key in KEYS if key.name in (SYNC, TRUST)),
    Key(PROFILE, parse_profile, "prod"),
    Key(ENDPOINT, parse_endpoint, "https://minio.example.com"),
    Key(REGION, parse_region, "eu-central-1"),
)
"""The settings that can be set for one repository, such as ``repo.NAME.profile``."""

BY_NAME: Final = {key.name: key for key in KEYS}
"""All settings that apply to all repositories, by name."""

_OF_REPOSITORIES: Final = {key.name: key for key in REPOSITORY_KEYS}


def find_key(name: str) -> Key:
    """Return the setting with a name, such as ``sync`` or, for one repository, ``repo.sales.sync``.

    Raises:
        UsageError: there is no such setting; the hint names a similar setting.
    """
    key = BY_NAME.get(name)
    if key is not None:
        return key
    if re.fullmatch(re.escape(OF_CHECKS) + CHECK_NAME, name):
        return Key(name, parse_command, "python check.py", own_summary="command of a check")
    repository, _, own_name = name.removeprefix(OF_REPOSITORY).partition(".")
    own = _OF_REPOSITORIES.get(own_name)
    if own is not None and name.startswith(OF_REPOSITORY) and is_repository_name(repository):
        summary = f"`{own_name}`" if own_name in BY_NAME else own.summary
        summary += f" of lakefs://{repository} only"
        return own._replace(name=name, own_summary=summary, default=None)
    raise UsageError(f"no setting {name!r}", hint=_nearest(name))


def own_key(repository: str, name: str) -> str:
    """Return the full name of a setting of one repository: ``repo.REPOSITORY.NAME``."""
    return f"{OF_REPOSITORY}{repository}.{name}"


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    if name in _OF_REPOSITORIES:
        return f"it is a setting of one repository: {own_key('NAME', name)}"
    if name.startswith(OF_REPOSITORY):
        repository, _, own = name.removeprefix(OF_REPOSITORY).partition(".")
        if own in _OF_REPOSITORIES:
            return f"{repository!r} is not the name of a repository"
        near = get_close_matches(own, _OF_REPOSITORIES, n=1)
        keys = ", ".join(own_key(repository or "NAME", each) for each in near or _OF_REPOSITORIES)
        return f"did you mean {keys}?" if near else f"one of {keys}"
    near = get_close_matches(name, BY_NAME, n=1)
    return f"did you mean {near[0]}?" if near else "one of " + ", ".join(BY_NAME)
