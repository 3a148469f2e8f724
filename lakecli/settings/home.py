"""lakecli's home on a machine: its directories, and reading and editing the configuration file.

The directories are the same as in the package platformdirs, which is not used itself because its
import would noticeably delay every command. The size of the configuration file is
limited. Changes are made with tomlkit, which keeps comments.
"""

import errno
import fcntl
import os
import pwd
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

from lakecli.base.directories import StrPath, make_private
from lakecli.base.model import YES
from lakecli.base.os_errors import MACHINE_HINTS
from lakecli.base.parsing import Unparsable, parse_toml, read_text
from lakecli.base.pipes import is_pipe
from lakecli.base.temporary_files import replacing
from lakecli.errors import NotFound, PermissionDenied, Unreachable, UsageError
from lakecli.settings.keys import KEYS, OF_CHECKS, find_key, parse_command, parse_directories

_PLATFORM: Final[str] = sys.platform
"""`sys.platform` as a plain ``str``, so that mypy also checks code for other platforms."""

HOME_VARIABLE: Final = "LAKECLI_HOME"
"""The environment variable that names the home. Only entry points read the variable: the command
line, `lakecli.open`, fsspec and Spark."""


class HomePaths(NamedTuple):
    """The configuration file, and the directories of the local store and of the cache."""

    config: str
    store: str
    cache: str


def chosen_home(given: StrPath | None, environ: Mapping[str, str]) -> str | None:
    """Return `given`, else the home that the environment names, else ``None``."""
    return os.fspath(given) if given else environ.get(HOME_VARIABLE) or None


def from_here(path: StrPath) -> str:
    """Return an absolute path; an absolute `path` is valid even if this directory was deleted."""
    return os.fspath(path if os.path.isabs(path) else os.path.join(os.getcwd(), path))


def home_paths(root: StrPath | None, environ: Mapping[str, str]) -> HomePaths:
    """Return the paths below `root`; without `root`, the conventional paths of the platform.

    The conventions are the XDG Base Directory Specification and, on macOS, directories in
    ``~/Library``.
    """
    if root is not None:
        below = from_here(root)
        return HomePaths(f"{below}/config.toml", f"{below}/store", f"{below}/cache")
    user = environ.get("HOME", "")
    if not user.startswith("/"):
        try:
            user = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:  # such as in a container with an arbitrary user ID
            user = os.devnull  # no file can exist below it, so commands that need a home fail
    if _PLATFORM == "darwin":
        data = f"{user}/Library/Application Support/lakecli"
        return HomePaths(f"{data}/config.toml", f"{data}/store", f"{user}/Library/Caches/lakecli")
    config, data, cache = (
        os.path.join(environ[name] if environ.get(name, "").startswith("/") else default, "lakecli")
        for name, default in (
            ("XDG_CONFIG_HOME", f"{user}/.config"),
            ("XDG_DATA_HOME", f"{user}/.local/share"),
            ("XDG_CACHE_HOME", f"{user}/.cache"),
        )
    )
    return HomePaths(f"{config}/config.toml", f"{data}/store", cache)


_REPOSITORIES = "repo"
"""The TOML table that contains one table for each repository, such as ``[repo.sales]``."""


_JOIN: Final[Mapping[object, Callable[[list[str]], str]]] = {
    parse_command: shlex.join,
    parse_directories: ",".join,
}
"""How the items of an array become the text that a parser reads; by default with spaces between."""


def read_file(path: StrPath, *, required: bool = False) -> Mapping[str, str]:
    """Return the settings in a file: their values as text, by name; empty if there is no file.

    Raises:
        UsageError: the file is not TOML, or has an unknown setting; the error names file and line.
        NotFound: the file is `required` and does not exist.
        PermissionDenied: the file cannot be read.
    """
    text = read_configuration(path, required=required)
    if text is None:
        return {}
    try:
        document = parse_toml(text)
    except Unparsable as error:
        raise UsageError(f"malformed configuration in {path}: {error}") from None
    values: dict[str, str] = {}
    for name, value in _flatten(document, ""):
        where = f"{path}, line {_line_of(text, name)}"
        try:
            key = find_key(name)
        except UsageError as error:
            raise UsageError(f"{error.message} in {where}", hint=error.hint) from None
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            value = _JOIN.get(key.parse, " ".join)(value)  # noqa: PLW2901 - lists may be arrays or text
        if isinstance(value, bool) and key.example.endswith(YES):
            value = str(value).lower()  # noqa: PLW2901 - as written in TOML
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise UsageError(
                f"{name} in {where} is neither text nor a number", hint=f'write "{key.example}"'
            )
        values[name] = str(value)
    return values


def read_configuration(
    path: StrPath, *, required: bool = False, what: str = "configuration"
) -> str | None:
    """Return the text of a configuration file; ``None`` if there is none.

    Args:
        what: the kind of file, for errors.

    Raises:
        UsageError: the file is not UTF-8.
        NotFound: the file is `required` and does not exist.
        PermissionDenied: the file cannot be read.
    """
    try:
        return read_text(path)
    except (FileNotFoundError, NotADirectoryError):
        if required:
            raise NotFound(f"no configuration file {path}") from None
        return None
    except UnicodeDecodeError:
        raise UsageError(f"malformed {what} in {path}: not UTF-8") from None
    except OSError as error:
        raise PermissionDenied(f"cannot read {path}: {error.strerror}") from None


def _flatten(table: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    """Yield dotted names and values of settings; yield an unknown table as a value."""
    tables = {key.name.rpartition(".")[0] for key in KEYS} | {_REPOSITORIES, OF_CHECKS[:-1]}
    for name, value in table.items():
        dotted = prefix + name
        inside = prefix == f"{_REPOSITORIES}." or dotted.partition(".")[2].endswith(".trust")
        if isinstance(value, dict) and (dotted in tables or inside):
            yield from _flatten(value, dotted + ".")
        else:
            yield dotted, value


def _line_of(text: str, name: str) -> int:
    """Return the number of the line that probably sets `name`; the TOML parser reports no lines."""
    table, _, leaf = name.rpartition(".")
    current = ""
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].strip()
        if words.startswith("["):
            current = words.strip("[] ")
            if current == name:
                return number
        left = words.partition("=")[0].strip().strip("\"'")
        if (left == leaf and current == table) or (left == name and not current):
            return number
    return 1


def set_value(path: StrPath, name: str, text: str) -> None:
    """Write one setting to the configuration file, and leave the rest of the file unchanged."""
    import tomlkit
    from tomlkit.items import InlineTable

    value = find_key(name).parse(text)
    value = value if isinstance(value, int) and text.strip().isdecimal() else text
    *tables, leaf = name.split(".")

    def in_place(before: str) -> str:
        document = tomlkit.parse(before)
        section: MutableMapping[str, Any] = document
        for number, table in enumerate(tables, 1):
            if table not in section:
                # `[repo.sales]` needs no table `[repo]`.
                is_inline = isinstance(section, InlineTable)
                made = tomlkit.table(is_super_table=number < len(tables))
                section[table] = tomlkit.inline_table() if is_inline else made
            section = section[table]
        section[leaf] = value
        return tomlkit.dumps(document)

    def at_the_end(before: str) -> str:
        written = tomlkit.item(value).as_string()
        return f"{before}\n[{'.'.join(tables)}]\n{leaf} = {written}\n"

    _edit(path, name, {name: value}, in_place, at_the_end)


def unset_value(path: StrPath, name: str) -> None:
    """Remove one setting from the configuration file."""
    import tomlkit

    find_key(name)
    if name not in read_file(path):
        raise NotFound(f"{name} is not set in {path}", hint="`config list --show-origin`")

    def without(before: str) -> str:
        document = tomlkit.parse(before)
        _remove(document, name.split("."))
        return tomlkit.dumps(document)

    _edit(path, name, {}, without)


def _remove(table: MutableMapping[str, Any], words: list[str]) -> None:
    """Remove a setting, and each table that becomes empty.

    Args:
        table: the TOML table that contains the setting, directly or in nested tables.
        words: the parts of the dotted name, relative to `table`.
    """
    first, *rest = words
    if rest:
        _remove(table[first], rest)
    if not rest or not table[first]:
        del table[first]


def _edit(
    path: StrPath, name: str, after: Mapping[str, object], *ways: Callable[[str], str]
) -> None:
    """Change or remove one setting by the first function that leaves all other settings unchanged.

    The file is replaced atomically, and only its owner can read it. A symbolic link is followed.

    tomlkit loses or breaks settings in some files, such as files with dotted keys or inline tables.
    So the settings in each result are compared with the expected settings.

    Args:
        after: the name and the new value of the setting; empty to remove the setting.
        ways: functions that take the text of the file and return the changed text, tried in order.
    """
    if is_pipe(path):
        raise UsageError(f"{path} is not a file that can be changed", hint="name a file")
    with _locked(os.path.realpath(path)) as target:
        read_file(path)
        text = _edited(path, name, after, ways)
        with replacing(target) as file:
            file.write(text.encode())


def _edited(
    path: StrPath, name: str, after: Mapping[str, object], ways: Iterable[Callable[[str], str]]
) -> str:
    """Return the changed text of the file; the arguments are those of `_edit`."""
    from tomlkit.exceptions import TOMLKitError

    before = read_configuration(path) or ""
    if before and not before.endswith("\n"):
        before += "\n"
    wanted = {**_flat(before), **after}
    if not after:
        wanted.pop(name, None)
    for way in ways:
        try:
            text = way(before)
            if _flat(text) == wanted:
                return text
        except (ValueError, TOMLKitError):
            continue
    raise UsageError(
        f"cannot change {name} in {path} without changing other settings",
        hint=f"open {path} in an editor",
    )


def _flat(text: str) -> dict[str, object]:
    return dict(_flatten(parse_toml(text), ""))


@contextmanager
def _locked(path: str) -> Iterator[str]:
    """Yield the path of a file while no other process edits files of its directory.

    A missing directory is created, and can then be read only by its owner.

    Raises:
        PermissionDenied: the file cannot be written.
        Unreachable: the disk is full or does not answer.
    """
    directory = os.path.dirname(path)
    try:
        if not os.path.isdir(directory):  # keep the mode of an existing directory: it may be shared
            make_private(directory)
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            with suppress(OSError):  # some network file systems have no locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield path
        finally:
            os.close(descriptor)
    except OSError as error:
        message = f"cannot write {path}: {(error.strerror or str(error)).lower()}"
        hint = MACHINE_HINTS.get(error.errno or 0)
        is_disk = hint is not None and error.errno != errno.EROFS
        raise (Unreachable if is_disk else PermissionDenied)(message, hint=hint) from error
