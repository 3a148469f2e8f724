"""``lakecli push``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakecli.cli.context import Context
from lakecli.cli.params import DryRun, RepositoryOrRefUri, ValueIfBare
from lakecli.errors import UsageError

if TYPE_CHECKING:
    from lakecli.repository.core.lake import Repository
    from lakecli.repository.push import Lease, PushReport


def push(
    context: Context,
    ref: RepositoryOrRefUri,
    *,
    all_refs: Annotated[
        bool, typer.Option("--all", help="Push every branch and every tag")
    ] = False,
    delete: Annotated[
        bool, typer.Option("--delete", "-d", help="Delete it in the bucket; what is here stays")
    ] = False,
    force_with_lease: Annotated[
        str | None,
        typer.Option(
            "--force-with-lease",
            metavar="[=COMMIT]",
            help="Move it whatever it is, if it still stands where it was last seen, or on COMMIT",
        ),
        ValueIfBare(""),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Move a branch or a tag in the bucket to where it stands here.

    Its commits are sent first; data, ranges and metaranges are in the bucket already, and it is
    looked whether they are. Then the ref moves, at once or not at all. A branch moves forward only:
    if the bucket has commits on it that are not here, nothing is moved, and lakecli pull merges. A
    tag is made once. Staged changes stay here: only commits are shared.

    With --force-with-lease (alone, or as --force-with-lease=COMMIT) a ref is moved back, or
    elsewhere, if nobody has moved it since it was last fetched, or if it stands on COMMIT.

    An interrupted push is finished, or reported, by the next command that talks to the bucket.

    Examples:
        lakecli push lakefs://demo/main
        lakecli push lakefs://demo --all
        lakecli push lakefs://demo/experiment --delete
    """
    from lakecli.cli.sharing import finish_interrupted, pushed_record, ref_of
    from lakecli.repository import push as pushing

    if all_refs and (delete or ref.ref is not None or force_with_lease is not None):
        raise UsageError(
            "--all takes a repository, and neither --delete nor --force-with-lease",
            hint=f"lakecli push --all lakefs://{ref.repository}",
        )
    if delete and ref.ref is None:
        raise UsageError(
            "--delete needs a branch or a tag", hint=f"lakefs://{ref.repository}/BRANCH-OR-TAG"
        )
    repository = context.repository(ref)
    finish_interrupted(context, repository)
    options = pushing.PushOptions(
        who=context.committer(),
        lease=_lease(repository, force_with_lease),
        dry_run=dry_run,
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
    context.out.emit(
        {
            "repository": repository.uri,
            "dry_run": dry_run,
            "refs": [pushed_record(each) for each in report.pushed],
            "failed": [
                {"kind": each.kind, "name": each.name, "error": each.error.message}
                for each in report.failed
            ],
        },
        text=lambda: _lines(report, dry_run=dry_run),
    )
    if report.failed:
        from lakecli.errors import PartialFailure

        count = len(report.failed) + len(report.pushed)
        raise PartialFailure(
            f"{len(report.failed)} of {count} refs were not pushed",
            hint=report.failed[0].error.hint,
        )


def _lease(repository: Repository, text: str | None) -> Lease | None:
    """Return the lease that an option asks for; a commit that is not here is taken as typed."""
    from lakecli.model import CommitId
    from lakecli.refs.names import is_full_commit_id
    from lakecli.repository.core.view import commit_at
    from lakecli.repository.push import Lease

    if text is None:
        return None
    if not text:
        return Lease()
    if is_full_commit_id(text):
        return Lease(CommitId(text.lower()))
    with repository.lake.kv.read() as txn:
        return Lease(commit_at(repository, txn, text).id)


def _lines(report: PushReport, *, dry_run: bool) -> list[str]:
    from lakecli.cli.sharing import UP_TO_DATE, pushed_line
    from lakecli.repository.push import Pushing

    lines = [
        pushed_line(each, dry_run=dry_run)
        for each in report.pushed
        if each.state is not Pushing.UP_TO_DATE
    ]
    return lines if lines or report.failed else [UP_TO_DATE]
