"""Read settings from lakectl's configuration file and environment variables.

Scripts for lakectl name the file with ``-c`` or ``LAKECTL_CONFIG_FILE``, and set ``LAKECTL_…``
variables. A key is used if lakecli has a setting with the same meaning. Other keys are ignored;
most concern a lakeFS server.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from lakecli.base.directories import StrPath
from lakecli.base.parsing import Unparsable, parse_yaml
from lakecli.errors import UsageError
from lakecli.settings.home import read_configuration
from lakecli.settings.keys import KEYS, LAKECTL_PREFIX

FILE_VARIABLE: Final = LAKECTL_PREFIX + "CONFIG_FILE"
INTERACTIVE: Final = LAKECTL_PREFIX + "INTERACTIVE"

_MAX_KEYS: Final = 1_000

_NO_SERVER: Final = "there is no server"
_REASONS: Final = {
    "credentials": "there is no server to log in to; stores take the credentials of their cloud",
    "server": _NO_SERVER,
    "network": _NO_SERVER,
    "metastore": "there is no metastore",
    "options": "lakecli has no such option",
    "local": "fs upload and local have --skip and --follow",
    "experimental": "lakecli keeps no owners and modes of files",
    "skip": "nothing is reported to a server",
    "suppress": "there is no such warning",
}
"""The reasons why keys of lakectl are ignored, by the first word of the key."""


class LakectlFile(NamedTuple):
    """The contents of a configuration file of lakectl.

    Attributes:
        values: the values of lakecli's settings as text, by name.
        ignored: the keys that lakecli ignores.
    """

    values: Mapping[str, str]
    ignored: tuple[str, ...]


def read_lakectl_file(path: StrPath, *, required: bool) -> LakectlFile:
    """Read a configuration file of lakectl; without a file, the result is empty.

    Raises:
        UsageError: the file is not YAML or is too large.
        NotFound: the file is `required` and does not exist.
        PermissionDenied: the file cannot be read.
    """
    what = "configuration of lakectl"
    text = read_configuration(path, required=required, what=what)
    if text is None:
        return LakectlFile({}, ())
    try:
        found = dict(_flatten(parse_yaml(text)))
    except Unparsable as error:
        raise UsageError(f"malformed {what} in {path}: {error}") from None
    taken = {key.lakectl: key.name for key in KEYS if key.lakectl}
    values = {taken[name]: value for name, value in found.items() if name in taken and value}
    return LakectlFile(values, tuple(name for name in found if name not in taken))


def _flatten(table: Mapping[Any, Any]) -> Iterator[tuple[str, str]]:
    """Yield the dotted name and the value of each key; a value that is not text is ``""``.

    Raises:
        Unparsable: there are too many keys.
    """
    count = 0
    todo: list[tuple[str, Any]] = [("", table)]
    while todo:
        name, value = todo.pop()
        count += 1
        if count > _MAX_KEYS:
            raise Unparsable(f"it has more than {_MAX_KEYS} keys")
        if isinstance(value, dict):
            inside = reversed(value.items())
            todo += [(f"{name}.{key}".lstrip(".").lower(), each) for key, each in inside]
        elif name:
            yield name, value if isinstance(value, str) else ""


def reason(name: str) -> str:
    """Return why lakecli ignores a key of lakectl's configuration.

    Args:
        name: the key, or the name of an environment variable without ``LAKECTL_``.
    """
    first = name.lower().replace(".", "_").partition("_")[0]
    return _REASONS.get(first, "lakectl has no such setting, either")


def ignored_variables(environ: Mapping[str, str]) -> list[str]:
    """Return the names of variables for lakectl that are set but ignored, sorted."""
    used = {FILE_VARIABLE, INTERACTIVE} | {key.lakectl_variable for key in KEYS}
    return sorted(name for name in environ if name.startswith(LAKECTL_PREFIX) and name not in used)
