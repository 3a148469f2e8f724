"""The values of settings, and the precedence of their sources.

`lakecli.settings.keys` lists the settings. A setting comes from the first of these sources that has
it: a flag; the environment (``user.name`` as ``LAKECLI_USER_NAME``); lakectl's variable or file;
the configuration file (TOML, ``name`` in the table ``[user]``); the default. All sources are
parameters; this module does not read the environment.

The committer comes from the settings, else from Git's configuration, else from the user and host
name of the operating system.
"""

import os
import pwd
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import cached_property
from itertools import chain
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

from lakecli.base.model import NO_ACCOUNT, Account, Demand
from lakecli.errors import UsageError
from lakecli.settings import keys

Kind = TypeVar("Kind")


OriginKind: TypeAlias = Literal["flag", "environment", "file", "default"]
"""The kinds of sources of a value, highest precedence first."""


class Setting(NamedTuple):
    """A setting with its value and the source of the value.

    Attributes:
        key: the description of the setting.
        text: the value as written, or ``None`` if it is unset.
        origin: the kind of source.
        place: the name of the flag or variable, or the path of the file; ``""`` for a default.
    """

    key: keys.Key
    text: str | None
    origin: OriginKind
    place: str


class Settings:
    """All settings of one run; a value is read and checked when it is accessed.

    Args:
        read_file: a function that returns the values in the configuration file as text, by name of
            the setting. It is called once, on first access.
        read_lakectl: a function that returns the values in lakectl's file in the same form;
            ``None`` if there is no such file.
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

    def find(self, name: str) -> Setting:
        """Return a setting with its value and source; an empty value counts as unset."""
        key = keys.find_key(name)
        if text := self._flags.get(name):
            return Setting(key, text, "flag", f"--{name.replace('_', '-')}")
        # Settings of one repository have no variable, because repository names may have dashes.
        # But LAKECLI_SYNC also overrides the `sync` setting of one repository.
        variable = key.variable if name in keys.BY_NAME else ""
        if name.startswith(keys.OF_REPOSITORY) and name.endswith(f".{keys.SYNC}"):
            variable = keys.BY_NAME[keys.SYNC].variable
        for each in filter(None, (variable, key.lakectl_variable)):
            if text := self._environ.get(each):
                return Setting(key, text, "environment", each)
        if text := self._lakectl_values.get(name):
            return Setting(key, text, "file", str(self._lakectl_file))
        if text := self._file_values.get(name):
            return Setting(key, text, "file", str(self._file))
        return Setting(key, key.default, "default", "")

    def __iter__(self) -> Iterator[Setting]:
        """Yield all settings in the order of `KEYS`, then the settings of single repositories."""
        yield from map(self.find, keys.BY_NAME)
        yield from map(self.find, sorted(self._file_values.keys() - keys.BY_NAME.keys()))

    @cached_property
    def _lakectl_values(self) -> Mapping[str, str]:
        return {} if self._read_lakectl is None else self._read_lakectl()

    @cached_property
    def _file_values(self) -> Mapping[str, str]:
        return self._read_file()

    def _find(self, name: str, kind: type[Kind]) -> Kind | None:
        """Return the value of a setting, or ``None`` if it is unset."""
        setting = self.find(name)
        if setting.text is None:
            return None
        try:
            value = setting.key.parse(setting.text)
        except UsageError as error:
            where = f" in {setting.place}" if setting.place else ""
            raise UsageError(f"{name}{where}: {error.message}", hint=error.hint) from None
        assert isinstance(value, kind)
        return value

    def _value(self, name: str, kind: type[Kind]) -> Kind:
        """Return the value of a setting that has a default."""
        value = self._find(name, kind)
        assert value is not None
        return value

    @property
    def user_name(self) -> str | None:
        """The name of the committer."""
        return self._find("user.name", str)

    @property
    def user_email(self) -> str | None:
        """The e-mail address of the committer."""
        return self._find("user.email", str)

    @property
    def base_uri(self) -> str:
        """The prefix of URIs that do not start with ``lakefs://``; may be empty."""
        return self._find("base_uri", str) or ""

    @property
    def local_link(self) -> str:
        """The method that creates files of linked directories, such as ``reflink`` or ``copy``."""
        return self._find(keys.LINK, str) or "auto"

    @property
    def local_trust(self) -> tuple[str, ...]:
        """Linked directories that are used even if another user owns their ``.lakefs_ref.yaml``."""
        return self._find(keys.LOCAL_TRUST, tuple) or ()

    @property
    def used(self) -> str | None:
        """The URI of the repository or ref that commands without a URI use."""
        return self._find(keys.USE, str)

    @property
    def cache_sizes(self) -> tuple[int, int]:
        """The maximum sizes of a repository's cache in bytes: on the disk, and in memory."""
        return self._value("cache.size", int), self._value("cache.memory", int)

    @property
    def transfer_parallelism(self) -> int:
        """The maximum number of objects that are transferred in parallel."""
        return self._value("transfer.parallelism", int)

    @property
    def presign_expires(self) -> timedelta:
        """The requested lifetime of presigned URLs."""
        return self._value("presign.expires", timedelta)

    @property
    def serve_keys(self) -> tuple[str, str] | None:
        """The access key and the secret key of endpoints; ``None`` for a new pair at each start.

        Raises:
            UsageError: only one of the two keys is set.
        """
        pair = self._find(keys.SERVE_ACCESS_KEY, str), self._find(keys.SERVE_SECRET_KEY, str)
        if pair[0] is None and pair[1] is None:
            return None
        if pair[0] is None or pair[1] is None:
            missing = keys.SERVE_ACCESS_KEY if pair[0] is None else keys.SERVE_SECRET_KEY
            hint = f"set the other one, too: `config set {missing} VALUE`"
            raise UsageError(f"one key without the other: {missing} is not set", hint=hint)
        return pair[0], pair[1]

    @property
    def gc_grace(self) -> timedelta:
        """The minimum age of garbage, and the minimum time between condemning and deleting it."""
        return self._value("gc.grace", timedelta)

    def check(self, name: str) -> tuple[str, ...] | None:
        """Return the command of a check; ``None`` if no check of that name is configured."""
        return self._find(keys.OF_CHECKS + name, tuple)

    @property
    def hooks(self) -> dict[str, tuple[str, ...]]:
        """The commands of the hooks that are set, by name such as ``pre-commit``."""
        names = (key.name for key in keys.KEYS if key.name.startswith(keys.OF_HOOKS))
        found = {name.removeprefix(keys.OF_HOOKS): self._find(name, tuple) for name in names}
        return {name: command for name, command in found.items() if command is not None}

    def timeout(self, what: Literal["check", "hook"]) -> timedelta:
        """Return how long a check or a hook may take."""
        return self._value(f"timeouts.{what}", timedelta)

    def sync(self, repository: str) -> bool:
        """Return whether commands on a repository fetch before they run and push afterwards."""
        own = self._find(keys.own_key(repository, keys.SYNC), bool)
        return self._value(keys.SYNC, bool) if own is None else own

    def account(self, repository: str) -> Account:
        """Return the settings for access to a repository's buckets.

        Args:
            repository: the name of the repository; without a clone, its namespace, for which the
                settings for all repositories apply.
        """
        found = NO_ACCOUNT._replace(
            timeout=self._value(keys.NETWORK_TIMEOUT, timedelta).total_seconds(),
            min_rate=self._value(keys.NETWORK_MIN_RATE, int),
            demands=tuple(
                (name, bucket, value)
                for name in Demand
                for bucket, value in self._find(name, tuple) or ()
            ),
        )
        if "/" in repository:
            return found
        names = (keys.PROFILE, keys.ENDPOINT, keys.REGION)
        own = (self._find(keys.own_key(repository, name), str) or "" for name in names)
        profile, endpoint, region = own
        return found._replace(profile=profile, endpoint=endpoint, region=region)

    def trusted(self, repository: str) -> tuple[str, ...]:
        """Return the locations, besides a repository's namespace, from which objects may be read.

        Args:
            repository: the name of the repository; without a clone, its namespace, for which the
                settings for all repositories apply.
        """
        names = [keys.TRUST]
        if "/" not in repository:
            names.append(keys.own_key(repository, keys.TRUST))
        found = chain.from_iterable(self._find(name, tuple) or () for name in names)
        return tuple(dict.fromkeys(found))


_GIT: Final = ("git", "-c", "safe.bareRepository=explicit")
"""The start of a command that runs Git, without treating a directory of downloaded files as a bare
repository, whose configuration could be malicious."""


def committer(settings: Settings, environ: Mapping[str, str]) -> str:
    """Return the committer as ``Name <email>``, each part from the settings or else from Git.

    If only one part is set, return that part; if neither is set, return ``user@host``.
    """
    name, email = settings.user_name, settings.user_email
    if name is None or email is None:
        git = git_user(environ)
        name = name or git.get("user.name")
        email = email or git.get("user.email")
    if name and email:
        return f"{name} <{email}>"
    return name or email or _user_at_host(environ)


def run_git(environ: Mapping[str, str], *words: str, cwd: str | None = None) -> bytes:
    """Return the output of a Git command; ``b""`` if Git is missing or the command fails."""
    import subprocess

    try:
        done = subprocess.run(
            [*_GIT, *words],
            cwd=cwd,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return done.stdout if done.returncode == 0 else b""


def git_user(environ: Mapping[str, str]) -> dict[str, str]:
    """Return ``user.name`` and ``user.email`` of Git; empty if Git is missing or fails."""
    found = run_git(environ, "config", "--null", "--get-regexp", r"^user\.(name|email)$")
    values: dict[str, str] = {}
    for record in filter(None, found.decode("utf-8", "replace").split("\0")):
        key, _, value = record.partition("\n")
        values[key] = " ".join(value.split())
    return values


def _user_at_host(environ: Mapping[str, str]) -> str:
    host = os.uname().nodename
    user = environ.get("LOGNAME") or environ.get("USER")
    if not user:
        try:
            user = pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            user = str(os.getuid())
    return f"{user}@{host}"
