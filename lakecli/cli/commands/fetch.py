"""``lakecli fetch``."""

from __future__ import annotations

from lakecli.cli.context import Context
from lakecli.cli.params import RepositoryUri


def fetch(context: Context, repository: RepositoryUri) -> None:
    """Learn where the refs in the bucket stand, and bring their commits.

    Branches here do not move; main@{upstream} names where main stood in the bucket. Tags that are
    new are made here, unless their name is taken.

    Examples:
        lakecli fetch lakefs://demo
        lakecli log lakefs://demo/main@{upstream}
    """
    from lakecli.cli.sharing import (
        UP_TO_DATE,
        damage_record,
        finish_interrupted,
        update_lines,
        update_record,
    )
    from lakecli.repository.fetch import fetch as fetch_refs

    opened = context.repository(repository)
    finish_interrupted(context, opened)
    with context.out.progress("fetch") as progress:
        report = fetch_refs(opened, progress=progress)
    context.out.emit(
        {
            "repository": opened.uri,
            "refs": report.refs,
            "commits": report.commits,
            "packs": report.packs,
            "updated": [update_record(update) for update in report.updated],
            "damaged": [damage_record(each) for each in report.damaged],
        },
        text=lambda: list(update_lines(report.updated)) or [UP_TO_DATE],
    )
