"""The directories of lakecli on a machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

HOME_VARIABLE: Final = "LAKECLI_HOME"
"""Read by the entry points (command line, `lakecli.open`, fsspec, Spark) only."""


class HomePaths(NamedTuple):
    """The configuration file, and the directories of the local store and of the cache."""

    config: Path
    store: Path
    cache: Path


def chosen_home(given: str | Path | None, environ: Mapping[str, str]) -> str | None:
    """Return the given home, or that of the environment, or ``None``."""
    return str(given) if given else environ.get(HOME_VARIABLE) or None


def home_paths(root: str | Path | None = None) -> HomePaths:
    """Return the paths below `root`, or without one those of the platform's conventions."""
    if root is not None:
        below = Path(root).absolute()
        return HomePaths(below / "config.toml", below / "store", below / "cache")
    from platformdirs import PlatformDirs

    dirs = PlatformDirs("lakecli", appauthor=False)
    return HomePaths(
        dirs.user_config_path / "config.toml", dirs.user_data_path / "store", dirs.user_cache_path
    )
