"""Where lakecli keeps things on a machine."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class HomePaths(NamedTuple):
    """The configuration file, and the directories of the local store and of the cache."""

    config: Path
    store: Path
    cache: Path


def home_paths(root: str | Path | None = None) -> HomePaths:
    """Return where things lie: all below `root`, or by the platform's conventions without one."""
    if root is not None:
        below = Path(root).absolute()
        return HomePaths(below / "config.toml", below / "store", below / "cache")
    from platformdirs import PlatformDirs

    dirs = PlatformDirs("lakecli", appauthor=False)
    return HomePaths(
        dirs.user_config_path / "config.toml", dirs.user_data_path / "store", dirs.user_cache_path
    )
