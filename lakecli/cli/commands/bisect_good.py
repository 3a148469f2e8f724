"""``lakecli bisect good``."""

from __future__ import annotations

from lakecli.cli.bisecting import BisectRefs, say_and_answer
from lakecli.cli.context import Context
from lakecli.repository.bisect import GOOD


def bisect_good(context: Context, refs: BisectRefs = []) -> None:  # noqa: B006 - never changed
    """Record that commits are good: they do not have the problem.

    Without a ref, the commit that is being tested. The answer names the next commit to test, or the
    first bad commit.

    Examples:
        lakecli bisect good
        lakecli bisect good lakefs://demo/v1.0 lakefs://demo/main~20
    """
    say_and_answer(context, GOOD, refs, is_old_new=False)
