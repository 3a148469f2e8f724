"""``lakecli bisect bad``."""

from __future__ import annotations

from lakecli.cli.bisecting import BisectRefs, say_and_answer
from lakecli.cli.context import Context
from lakecli.repository.bisect import BAD


def bisect_bad(context: Context, refs: BisectRefs = []) -> None:  # noqa: B006 - never changed
    """Record that a commit is bad: it has the problem.

    Without a ref, the commit that is being tested. The answer names the next commit to test, or the
    first bad commit.

    Examples:
        lakecli bisect bad
        lakecli bisect bad lakefs://demo/main
    """
    say_and_answer(context, BAD, refs, is_old_new=False)
