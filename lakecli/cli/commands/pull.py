"""``lakecli pull``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakecli.cli.context import Context
from lakecli.cli.params import DryRun, Message, RepositoryOrRefUri, Winner

if TYPE_CHECKING:
    from lakecli.repository.pull import PullReport


def pull(
    context: Context,
    ref: RepositoryOrRefUri,
    *,
    strategy: Winner = None,
    ff_only: Annotated[
        bool, typer.Option("--ff-only", help="Refuse what would need a merge")
    ] = False,
    message: Message = "",
    dry_run: DryRun = False,
) -> None:
    """Bring a branch up to where it stands in the bucket.

    First everything is fetched. A branch without commits of its own then moves forward; what is
    staged on it stays staged, unless the incoming commits changed one of those paths: then they
    are listed and nothing moves. A branch with commits of its own is merged, which needs it to be
    without uncommitted changes. Where both sides changed a path differently, that is a conflict:
    the paths are listed and nothing moves, unless --strategy decides; the source is the bucket.

    A branch or a tag that is only in the bucket is made here.

    Examples:
        lakecli pull lakefs://demo
        lakecli pull lakefs://demo/main --strategy source-wins
        lakecli pull lakefs://demo/main --dry-run
    """
    from lakecli.cli.sharing import (
        damage_record,
        finish_interrupted,
        ref_of,
        update_record,
    )
    from lakecli.model import MergeStrategy
    from lakecli.repository.pull import PullOptions
    from lakecli.repository.pull import pull as pull_branch

    repository = context.synced_repository(ref)
    finish_interrupted(context, repository)
    options = PullOptions(
        committer=context.committer(),
        message=message or None,
        strategy=MergeStrategy.FAIL if strategy is None else MergeStrategy(strategy),
        ff_only=ff_only,
        dry_run=dry_run,
    )
    with context.out.progress("fetch") as progress:
        report = pull_branch(repository, ref_of(ref, repository), options, progress=progress)
    context.out.emit(
        {
            "repository": repository.uri,
            "name": report.name,
            "before": report.before,
            "after": report.after,
            "state": report.state,
            "dry_run": dry_run,
            "updated": [update_record(update) for update in report.fetched.updated],
            "damaged": [damage_record(each) for each in report.fetched.damaged],
        },
        text=lambda: [_line(report, dry_run=dry_run)],
    )


def _line(report: PullReport, *, dry_run: bool) -> str:
    from lakecli.cli.sharing import short
    from lakecli.repository.pull import Pulling

    told = {
        Pulling.CREATED: "created at {after}",
        Pulling.FAST_FORWARD: "{before} -> {after} (fast-forward)",
        Pulling.MERGED: "merged with {after}" if dry_run else "{before} -> {after} (merged)",
        Pulling.UP_TO_DATE: "up to date",
        Pulling.AHEAD: "up to date, and ahead of the bucket",
        Pulling.TAG: "up to date",
    }
    would = "would be " if dry_run and report.before != report.after else ""
    return f"{report.name}: {would}" + told[report.state].format(
        before=short(report.before), after=short(report.after)
    )
