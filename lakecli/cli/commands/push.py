"""``lakecli push``: push branches and tags to the bucket."""

from typing import TypedDict

from lakecli.cli.commands.moved_refs import UP_TO_DATE, pushed_line, read_lease, ref_of
from lakecli.cli.context import Context
from lakecli.cli.line import flag
from lakecli.cli.out.records import answers, fields_of
from lakecli.cli.params import DryRun, ForceWithLease, HereRepositoryOrRefUri, NoVerify
from lakecli.cli.parsers import ref_here, repository_here
from lakecli.errors import PartialFailure, UsageError
from lakecli.repository import push as pushing


class PushedJson(TypedDict):
    """The result of a push.

    The other fields are those of `PushReport`.

    Attributes:
        repository: URI of the repository.
        dry_run: true if nothing was moved, because of --dry-run.
    """

    repository: str
    dry_run: bool


@answers(PushedJson)
def push(
    context: Context,
    ref: HereRepositoryOrRefUri = None,
    *,
    all_refs: bool = flag("--all"),
    delete: bool = flag("--delete", "-d"),
    force_with_lease: ForceWithLease = None,
    dry_run: DryRun = False,
    no_verify: NoVerify = False,
) -> None:
    """Push a branch or tag, and its commits, to the bucket.

    Push verifies that the objects of these commits are in the bucket, sends the commits, and then
    moves the branch or tag in the bucket by one atomic write. A branch only moves forward: if the
    bucket has commits that are not here, push refuses, and `lakecli pull` merges them. A tag that
    is in the bucket already is not moved. Uncommitted changes are not pushed.

    --force-with-lease also moves a branch or tag to a commit that does not descend from its commit
    in the bucket, provided that nobody has moved it there since the last fetch. With
    --force-with-lease=COMMIT, it must be at COMMIT in the bucket.

    If a push is interrupted, the next command that uses the bucket completes the push or reports
    what became of it.

    Args:
        all_refs: Push all branches and tags.
        delete: Delete the branch or tag in the bucket, not here.

    Examples:
        lakecli push
        lakecli push lakefs://demo/main
        lakecli push lakefs://demo --all
        lakecli push lakefs://demo/experiment --delete
    """
    context.skips_hooks = no_verify
    ref = repository_here(ref, context) if all_refs and ref is None else ref_here(ref, context)
    if all_refs and (delete or ref.ref is not None or force_with_lease is not None):
        raise UsageError(
            "--all takes a repository, without --delete and --force-with-lease",
            hint=f"lakecli push --all lakefs://{ref.repository}",
        )
    if delete and ref.ref is None:
        raise UsageError(
            "--delete needs a branch or a tag", hint=f"lakefs://{ref.repository}/BRANCH-OR-TAG"
        )
    repository = context.repository(ref)
    options = pushing.PushOptions(
        who=context.committer(), lease=read_lease(repository, force_with_lease), dry_run=dry_run
    )
    with context.out.progress("push") as progress:
        if all_refs:
            report = pushing.push_all(repository, options, progress=progress)
        else:
            act = pushing.push_deletion if delete else pushing.push
            pushed = act(repository, ref_of(ref, repository), options=options)
            report = pushing.PushReport((pushed,), ())
    for failed in report.failed:
        context.out.warn(f"{failed.kind} {failed.name}: {failed.error.message}")
    own = PushedJson(repository=repository.uri, dry_run=dry_run)
    context.out.emit(own | fields_of(report), text=lambda: _lines(report, dry_run=dry_run))
    if report.failed:
        count, first = len(report.failed) + len(report.pushed), report.failed[0].error
        raise PartialFailure(
            f"{len(report.failed)} of {count} refs were not pushed",
            hint=first.hint,
            paths=first.paths,
        )


def _lines(report: pushing.PushReport, *, dry_run: bool) -> list[str]:
    lines = [
        pushed_line(each, dry_run=dry_run)
        for each in report.pushed
        if each.state is not pushing.Pushing.UP_TO_DATE
    ]
    return lines if lines or report.failed else [UP_TO_DATE]
