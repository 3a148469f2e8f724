"""The directories of lakecli on a machine."""

from __future__ import annotations

import os
import sys

from lakecli.named_tuple import NamedTuple
from lakecli.typed import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakecli.directories import StrPath

HOME_VARIABLE: Final = "LAKECLI_HOME"
"""Read by the entry points (command line, `lakecli.open`, fsspec, Spark) only."""


class HomePaths(NamedTuple):
    """The configuration file, and the directories of the local store and of the cache."""

    config: str
    store: str
    cache: str


def chosen_home(given: StrPath | None, environ: Mapping[str, str]) -> str | None:
    """Return the given home, or that of the environment, or ``None``."""
    return os.fspath(given) if given else environ.get(HOME_VARIABLE) or None


def home_paths(root: StrPath | None, environ: Mapping[str, str]) -> HomePaths:
    """Return the paths below `root`, or without one those of the platform's conventions."""
    if root is not None:
        below = os.path.join(os.getcwd(), root)
        return HomePaths(f"{below}/config.toml", f"{below}/store", f"{below}/cache")
    if sys.platform == "linux" and environ.get("HOME", "").startswith("/"):
        config = _base_directory(environ, "XDG_CONFIG_HOME", ".config")
        data = _base_directory(environ, "XDG_DATA_HOME", ".local/share")
        cache = _base_directory(environ, "XDG_CACHE_HOME", ".cache")
        return HomePaths(f"{config}/config.toml", f"{data}/store", cache)
    from platformdirs import PlatformDirs

    dirs = PlatformDirs("lakecli", appauthor=False)
    return HomePaths(
        f"{dirs.user_config_dir}/config.toml", f"{dirs.user_data_dir}/store", dirs.user_cache_dir
    )


def _base_directory(environ: Mapping[str, str], variable: str, default: str) -> str:
    """Return lakecli's directory as platformdirs does, whose import takes 6 ms of every command."""
    given = environ.get(variable, "")
    if not given.startswith("/"):
        given = os.path.join(environ["HOME"], default)
    return os.path.join(given, "lakecli")
