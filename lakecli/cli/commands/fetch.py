"""``lakecli fetch``."""

from __future__ import annotations

from lakecli.cli.context import Context
from lakecli.cli.here import repository_here
from lakecli.cli.out.answers import pick
from lakecli.cli.out.answers.sharing import Damage, Fetched, RefUpdate
from lakecli.cli.params import HereRepositoryUri
from lakecli.cli.sharing import UP_TO_DATE, finish_interrupted, update_lines
from lakecli.repository.sharing.fetch import fetch as fetch_refs


def fetch(context: Context, repository: HereRepositoryUri = None) -> None:
    """Fetch the branches, tags and commits of the bucket.

    Branches on this machine do not move; main@{upstream} names where main was in the bucket. New
    tags are created here unless a different tag of the same name exists.

    Examples:
        lakecli fetch lakefs://demo
        lakecli log lakefs://demo/main@{upstream}
    """
    opened = context.repository(repository_here(repository, context))
    finish_interrupted(context, opened)
    with context.out.progress("fetch") as progress:
        report = fetch_refs(opened, progress=progress)
    context.out.emit(
        pick(
            Fetched,
            report,
            repository=opened.uri,
            updated=[pick(RefUpdate, each) for each in report.updated],
            damaged=[pick(Damage, each) for each in report.damaged],
        ),
        text=lambda: list(update_lines(report.updated)) or [UP_TO_DATE],
    )
