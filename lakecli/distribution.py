"""The name of the installed distribution, for texts that say how to install an extra.

The command and the import package are called lakecli. The distribution has another name, because
another project on the public index is called lakecli.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

NAME: Final = "lakecli-vcs"
"""The name if neither a checkout nor installed metadata is found beside the package."""

_ENTRY_POINT: Final = "lakecli.cli.app:main"


def install_command(extra: str) -> str:
    """Return the command that installs an extra: ``pip install 'NAME[EXTRA]'``."""
    return f"pip install '{distribution_name()}[{extra}]'"


@cache
def distribution_name(beside: Path = Path(__file__).parents[1]) -> str:
    """Return the name of the installed distribution.

    Args:
        beside: the directory that holds the package: a checkout, or ``site-packages``.
    """
    return _name_in_checkout(beside) or _name_in_metadata(beside) or NAME


def _name_in_checkout(directory: Path) -> str | None:
    import tomllib

    try:
        project = tomllib.loads((directory / "pyproject.toml").read_text("utf-8"))["project"]
        if project["scripts"]["lakecli"] == _ENTRY_POINT:
            return str(project["name"])
    except (OSError, ValueError, LookupError, TypeError):
        pass
    return None


def _name_in_metadata(directory: Path) -> str | None:
    """Read the metadata that pip wrote; `importlib.metadata` would read that of all packages."""
    for metadata in directory.glob("*lakecli*.dist-info/METADATA"):
        try:
            if _ENTRY_POINT not in metadata.with_name("entry_points.txt").read_text("utf-8"):
                continue
            lines = metadata.read_text("utf-8").splitlines()
        except (OSError, ValueError):
            continue
        for line in lines:
            if line.startswith("Name: "):
                return line.removeprefix("Name: ").strip()
    return None
