"""``lakecli version``."""

from __future__ import annotations

from lakecli import __version__
from lakecli.cli.context import Context


def version(context: Context) -> None:
    """Print the version of lakecli.

    Examples:
        lakecli version
    """
    context.out.emit({"version": __version__}, text=lambda: [f"lakecli version: {__version__}"])
