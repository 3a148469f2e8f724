"""Plugins: an unknown command X is the program ``lakecli-X`` of PATH, as in lakectl."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from lakecli.cli.context import Context
from lakecli.errors import Refused

PREFIX: Final = "lakecli-"

_NAME: Final = re.compile(r"\w[\w.-]*", re.ASCII)


class Plugin(NamedTuple):
    """A plugin.

    Attributes:
        name: the command.
        path: the program.
    """

    name: str
    path: Path


def find_plugin(name: str, environ: Mapping[str, str]) -> Plugin | None:
    """Return the plugin of a command, or ``None`` if there is none in PATH."""
    if not _NAME.fullmatch(name):
        return None
    from shutil import which

    found = which(PREFIX + name, path=environ.get("PATH", ""))
    return None if found is None else Plugin(name, Path(found))


def list_plugins(environ: Mapping[str, str]) -> list[Plugin]:
    """Return all plugins, ordered by name; of two of one name, the first in PATH."""
    names = set()
    for directory in environ.get("PATH", "").split(os.pathsep):
        try:
            files = [file.name for file in Path(directory or os.curdir).iterdir()]
        except OSError:
            continue
        names |= {file.removeprefix(PREFIX) for file in files if file.startswith(PREFIX)}
    found = (find_plugin(name, environ) for name in sorted(names))
    return [plugin for plugin in found if plugin is not None]


def run_plugin(context: Context, plugin: Plugin, arguments: Sequence[str]) -> NoReturn:
    """Replace this process by a plugin, which so has its streams, its signals and its exit code.

    Raises:
        Refused: the program cannot be executed.
    """
    context.out.flush()
    # Python ignores it, and an ignored signal stays ignored.
    before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execve(plugin.path, [plugin.path.name, *arguments], dict(context.environ))  # noqa: S606
    except OSError as error:
        signal.signal(signal.SIGPIPE, before)
        raise Refused(
            f"cannot run the plugin {plugin.path}: {error.strerror}",
            hint="a script begins with #! and the program that runs it",
        ) from None
