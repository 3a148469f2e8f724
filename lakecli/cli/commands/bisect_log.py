"""``lakecli bisect log``."""

from __future__ import annotations

from lakecli.cli.bisecting import BisectRepository, find_named
from lakecli.cli.context import Context
from lakecli.cli.out.answers import pick
from lakecli.cli.out.answers.changes import Verdict
from lakecli.repository.bisect import Said, show


def bisect_log(context: Context, repository: BisectRepository = "") -> None:
    """Show what was recorded in a bisect session.

    The lines are commands that repeat the session.

    Examples:
        lakecli bisect log
        lakecli bisect log lakefs://demo > session.sh
    """
    opened, _ = find_named(context, [repository] if repository else [])
    session = show(opened)
    context.out.say(f"lakecli bisect start {opened.uri}")

    def line(said: Said) -> str:
        return f"lakecli bisect {session.word(said.verdict)} {opened.uri}/{said.commit_id}"

    context.out.stream(session.said, record=lambda said: pick(Verdict, said), text=line)
