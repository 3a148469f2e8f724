"""``lakecli version``."""

from __future__ import annotations

from lakecli import __version__, native
from lakecli.cli.context import Context


def version(context: Context) -> None:
    """Print the version of lakecli.

    With --verbose, stderr says whether the compiled core is in use, which makes bulk work faster.

    Examples:
        lakecli version
    """
    if context.verbose:
        problem = native.problem()
        context.out.debug(f"compiled core: {f'not used, {problem}' if problem else 'used'}")
    context.out.emit({"version": __version__}, text=lambda: [f"lakecli version: {__version__}"])
