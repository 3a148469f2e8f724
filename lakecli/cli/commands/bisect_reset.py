"""``lakecli bisect reset``."""

from __future__ import annotations

from lakecli.cli.bisecting import BisectRepository, find_named
from lakecli.cli.context import Context
from lakecli.repository.bisect import names_with_session, reset


def bisect_reset(context: Context, repository: BisectRepository = "") -> None:
    """End a bisect session.

    Branches and objects stay as they are.

    Examples:
        lakecli bisect reset
        lakecli bisect reset lakefs://demo
    """
    cleared = False
    if repository or names_with_session(context.lake()):
        opened, _ = find_named(context, [repository] if repository else [])
        cleared = reset(opened)
    context.out.emit({"cleared": cleared}, text=lambda: ["Cleared bisect session"] * cleared)
    if not cleared:
        context.out.warn("no active bisect session")
