"""``lakecli bisect skip``."""

from __future__ import annotations

from lakecli.cli.bisecting import BisectRefs, say_and_answer
from lakecli.cli.context import Context
from lakecli.repository.bisect import SKIP


def bisect_skip(context: Context, refs: BisectRefs = []) -> None:  # noqa: B006 - never changed
    """Record that commits cannot be tested.

    Without a ref, the commit that is being tested. The answer names the next commit to test, or the
    first bad commit.

    Examples:
        lakecli bisect skip
        lakecli bisect skip lakefs://demo/main~3
    """
    say_and_answer(context, SKIP, refs)
