"""``lakecli plugin``, and running a plugin: a program in PATH that provides a command."""

import os
import re
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import which
from typing import Final, NamedTuple, NoReturn

from lakecli.cli.context import Context
from lakecli.cli.out.records import answers
from lakecli.cli.out.text import quote_path
from lakecli.errors import Refused

PREFIX: Final = "lakecli-"

_NAME: Final = re.compile(r"\w[\w.-]*", re.ASCII)


class Plugin(NamedTuple):
    """A program in PATH that provides a command of lakecli.

    Attributes:
        name: name of the command.
        path: path of the program that the command runs.
    """

    name: str
    path: Path


@answers(Plugin, each=True)
def plugin_list(context: Context) -> None:
    """List the plugins: programs in PATH whose names begin with lakecli-.

    The program lakecli-NAME is run by `lakecli NAME`, with the same arguments, streams and
    environment, and its exit code is returned. A built-in command has precedence over a plugin of
    the same name. Global options before NAME are not passed on.

    Examples:
        lakecli plugin list
    """
    found = list_plugins(context.environ)
    if not found:
        context.out.note("No lakecli plugins found in your PATH.")
        return
    context.out.say("Available plugins:")
    context.out.stream(found, text=lambda plugin: f"  {quote_path(plugin.name)}")


def find_plugin(name: str, environ: Mapping[str, str]) -> Plugin | None:
    """Return the plugin that provides a command, or ``None`` if PATH has no such plugin."""
    if not _NAME.fullmatch(name):
        return None
    found = which(PREFIX + name, path=environ.get("PATH", ""))
    return None if found is None else Plugin(name, Path(found))


def list_plugins(environ: Mapping[str, str]) -> list[Plugin]:
    """Return all plugins, ordered by name; of several with the same name, the first in PATH."""
    names = set()
    for directory in environ.get("PATH", "").split(os.pathsep):
        with suppress(OSError):
            files = Path(directory or os.curdir).glob(f"{PREFIX}*")
            names |= {file.name.removeprefix(PREFIX) for file in files}
    found = (find_plugin(name, environ) for name in sorted(names))
    return [plugin for plugin in found if plugin is not None]


def run_plugin(context: Context, plugin: Plugin, arguments: Sequence[str]) -> NoReturn:
    """Replace this process by the program of a plugin.

    The plugin inherits the streams, and its exit code becomes that of lakecli.

    Raises:
        Refused: the program cannot be executed.
    """
    context.out.flush()
    # Python ignores SIGPIPE; without this line, the program would ignore it, too.
    before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execve(plugin.path, [plugin.path.name, *arguments], dict(context.environ))  # noqa: S606
    except OSError as error:
        signal.signal(signal.SIGPIPE, before)
        raise Refused(
            f"cannot run the plugin {plugin.path}: {error.strerror}",
            hint="a script begins with #! and the program that runs it",
        ) from None
