"""``lakecli fetch`` and ``lakecli pull``."""

from typing import TypedDict

from lakecli.cli import params
from lakecli.cli.commands import moved_refs
from lakecli.cli.commands.worktrees import follow_branch, linking
from lakecli.cli.context import Context
from lakecli.cli.line import flag
from lakecli.cli.out.records import answers, fields_of
from lakecli.cli.parsers import linked, ref_here, repository_here
from lakecli.repository.pull import Pulling, PullOptions, PullReport
from lakecli.repository.pull import pull as pull_branch
from lakecli.repository.sharing.fetch import fetch as fetch_refs
from lakecli.worktree.worktree import Worktree


class FetchedJson(TypedDict):
    """The result of a fetch.

    The other fields are those of `FetchReport`.

    Attributes:
        repository: URI of the repository.
    """

    repository: str


class PulledJson(TypedDict):
    """The result of a pull.

    The other fields are those of `PullReport`.

    Attributes:
        repository: URI of the repository.
        dry_run: true if nothing was moved, because of --dry-run.
    """

    repository: str
    dry_run: bool


@answers(FetchedJson)
def fetch(context: Context, repository: params.HereRepositoryUri = None) -> None:
    """Fetch the branches, tags and commits of the bucket.

    Branches on this machine do not move; main@{upstream} names where main was in the bucket. New
    tags are created here unless a different tag of the same name exists.

    Examples:
        lakecli fetch lakefs://demo
        lakecli log lakefs://demo/main@{upstream}
    """
    opened = context.repository(repository_here(repository, context))
    moved_refs.finish_interrupted(context, opened)
    with context.out.progress("fetch") as progress:
        report = fetch_refs(opened, progress=progress)
    context.out.emit(
        {"repository": opened.uri} | fields_of(report),
        text=lambda: list(moved_refs.update_lines(report.updated)) or [moved_refs.UP_TO_DATE],
    )


@answers(PulledJson)
def pull(
    context: Context,
    ref: params.HereRepositoryOrRefUri = None,
    *,
    strategy: params.Winner = None,
    decide: params.DecisionOptions,
    ff_only: bool = flag(),
    message: params.Message = "",
    dry_run: params.DryRun = False,
) -> None:
    """Update a branch from the bucket: fetch, then fast-forward or merge.

    A branch without unpushed commits is fast-forwarded. Its uncommitted changes stay, unless the
    new commits changed the same paths: then these paths are listed and the branch does not move. A
    branch with unpushed commits is merged, and must have no uncommitted changes. A path that both
    sides changed differently is a conflict: conflicts are listed and the branch does not move,
    unless --strategy or --take chooses a side: source is the bucket's, dest that of this machine.
    See `lakecli merge --help`, also for conflicts decided one by one.

    If you name a branch or tag that is only in the bucket, it is created here.

    Without REF, in a linked directory, the branch of the directory is updated, then the directory
    itself, as by `local pull`: changed files stay, and files that were changed on both sides are
    listed. With REF, the files of the directory stay.

    Args:
        ff_only: Refuse a pull that needs a merge.

    Examples:
        lakecli pull
        lakecli pull lakefs://demo
        lakecli pull lakefs://demo/main --strategy source-wins
        lakecli pull lakefs://demo/main --take source:raw/ --take 'dest:*.csv'
        lakecli pull lakefs://demo/main --dry-run
    """
    decisions = decide.decisions(strategy)
    directory = linked(context) if ref is None and not dry_run else None
    ref = ref_here(ref, context)
    repository = context.synced_repository(ref)
    moved_refs.finish_interrupted(context, repository)
    options = PullOptions(
        committer=context.committer(),
        message=message or None,
        decisions=decisions,
        ff_only=ff_only,
        dry_run=dry_run,
    )
    with context.out.progress("fetch") as progress:
        report = pull_branch(
            repository, moved_refs.ref_of(ref, repository), options, progress=progress
        )
    context.out.emit(
        {"repository": repository.uri} | fields_of(report) | {"dry_run": dry_run},
        text=lambda: [_line(report, dry_run=dry_run)],
    )
    if directory is not None:
        follow_branch(
            context, Worktree(repository, *directory, linking=linking(context, repository))
        )
    elif not dry_run:
        moved_refs.bring_along(context, repository, report.name, stays=True)


def _line(report: PullReport, *, dry_run: bool) -> str:
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
        before=moved_refs.short(report.before), after=moved_refs.short(report.after)
    )
