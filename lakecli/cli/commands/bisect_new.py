"""``lakecli bisect new``."""

from __future__ import annotations

from lakecli.cli.bisecting import BisectRefs, say_and_answer
from lakecli.cli.context import Context
from lakecli.repository.bisect import BAD


def bisect_new(context: Context, refs: BisectRefs = []) -> None:  # noqa: B006 - never changed
    """Record that commits are new: they have the change that is searched for.

    This is `bisect bad` for a change that is no problem, such as a repair. A session has either
    good and bad commits, or old and new ones.

    Examples:
        lakecli bisect new
        lakecli bisect new lakefs://demo/main
    """
    say_and_answer(context, BAD, refs, is_old_new=True)
