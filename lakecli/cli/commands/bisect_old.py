"""``lakecli bisect old``."""

from __future__ import annotations

from lakecli.cli.bisecting import BisectRefs, say_and_answer
from lakecli.cli.context import Context
from lakecli.repository.bisect import GOOD


def bisect_old(context: Context, refs: BisectRefs = []) -> None:  # noqa: B006 - never changed
    """Record that commits are old: they do not have the change that is searched for.

    This is `bisect good` for a change that is no problem, such as a repair. A session has either
    good and bad commits, or old and new ones.

    Examples:
        lakecli bisect old
        lakecli bisect old lakefs://demo/v1.0
    """
    say_and_answer(context, GOOD, refs, is_old_new=True)
