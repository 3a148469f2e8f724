"""The directories of lakecli on a machine."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from lakecli.base.directories import StrPath

_PLATFORM: Final[str] = sys.platform
"""A plain text, so that mypy checks the code for each platform on all of them."""

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
    """Return the paths below `root`, or without one those of the platform's conventions.

    These are the XDG Base Directory Specification's, and on macOS the directories of ``~/Library``.
    """
    if root is not None:
        below = os.path.join(os.getcwd(), root)
        return HomePaths(f"{below}/config.toml", f"{below}/store", f"{below}/cache")
    user = environ.get("HOME", "")
    if not user.startswith("/"):
        user = pwd.getpwuid(os.getuid()).pw_dir
    if _PLATFORM == "darwin":
        support = f"{user}/Library/Application Support/lakecli"
        return HomePaths(
            f"{support}/config.toml", f"{support}/store", f"{user}/Library/Caches/lakecli"
        )
    config, data, cache = (
        os.path.join(environ[name] if environ.get(name, "").startswith("/") else default, "lakecli")
        for name, default in (
            ("XDG_CONFIG_HOME", f"{user}/.config"),
            ("XDG_DATA_HOME", f"{user}/.local/share"),
            ("XDG_CACHE_HOME", f"{user}/.cache"),
        )
    )
    return HomePaths(f"{config}/config.toml", f"{data}/store", cache)
