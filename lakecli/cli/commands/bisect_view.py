"""``lakecli bisect view``."""

from __future__ import annotations

from lakecli.cli.bisecting import BisectRepository, find_named
from lakecli.cli.context import Context
from lakecli.cli.out.common_records import commit_record
from lakecli.cli.out.text import log_lines
from lakecli.repository.bisect import show


def bisect_view(context: Context, repository: BisectRepository = "") -> None:
    """Show the commits that may be the first bad one, newest first.

    Examples:
        lakecli bisect view
        lakecli bisect view lakefs://demo --json
    """
    opened, _ = find_named(context, [repository] if repository else [])
    state = show(opened).state
    context.out.stream(
        [] if state is None else state.candidates,
        record=commit_record,
        text=lambda commit: "\n".join(log_lines(commit, show_metarange=True)),
    )
