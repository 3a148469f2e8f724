"""Where lakecli keeps things on a machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

HOME_VARIABLE: Final = "LAKECLI_HOME"
"""Read by the doors that people come in by, and by nothing behind them."""


class HomePaths(NamedTuple):
    """The configuration file, and the directories of the local store and of the cache."""

    config: Path
    store: Path
    cache: Path


def chosen_home(given: str | Path | None, environ: Mapping[str, str]) -> str | None:
    """Return where things lie: what was given, or what the environment says; ``None``: neither."""
    return str(given) if given else environ.get(HOME_VARIABLE) or None


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
