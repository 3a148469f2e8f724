"""``lakecli commit``: commit changes of a branch or of a linked directory."""

import os
from collections.abc import Sequence

from lakecli.base.model import NO_METADATA, Commit, MergeStrategy
from lakecli.base.uri import ref_of
from lakecli.cli import params
from lakecli.cli.commands.moved_refs import bring_along
from lakecli.cli.context import Context
from lakecli.cli.line import Kind, option
from lakecli.cli.out.records import answers
from lakecli.cli.out.text import commit_lines
from lakecli.cli.parsers import check_message, linked, moment, ref_here
from lakecli.errors import UsageError
from lakecli.repository.commit import commit as make_commit


@answers(Commit)
def commit(
    context: Context,
    branch: params.HereBranchUri = None,
    *,
    message: params.Message = "",
    allow_empty_message: params.AllowEmptyMessage = False,
    metadata: params.Metadata = NO_METADATA,
    allow_empty_commit: params.AllowEmptyCommit = False,
    strategy: params.Winner = None,
    paths: Sequence[str] = option("PATH", "--path", kind=Kind.NOTHING),
    prefixes: Sequence[str] = option("TEXT", "--prefix"),
    epoch_time_seconds: int = option("SECONDS", default=-1, hidden=True),
    no_verify: params.NoVerify = False,
) -> None:
    """Commit the changes of a branch or of a linked directory.

    All uncommitted changes of the branch become one new commit, or none do. Changes that another
    command on this machine stages during the commit stay uncommitted.

    With automatic sync (the setting sync, lakecli help remotes), the branch may have moved to
    commits of others after a path was staged. If these commits changed the path differently, it is
    a conflict: conflicts are listed and nothing is committed. To resolve them, stage the paths
    again, or choose a side for all of them: --strategy source-wins takes the staged state,
    dest-wins the committed state.

    With --path or --prefix, only the changes of these paths are committed. All other changes stay
    uncommitted.

    Without BRANCH, in a directory linked by `lakecli local`, the changed files of the directory are
    committed, as by `local commit`. Uncommitted changes of the branch stay uncommitted.

    Args:
        paths: Commit only this object, or what is below it.
        prefixes: Commit only paths that begin with this.

    Examples:
        lakecli commit -m "Correct the prices"
        lakecli commit lakefs://demo/main --path raw/ --path orders.csv -m "Orders of March"
        lakecli commit lakefs://demo/main -m "Add the numbers of March"
        lakecli commit lakefs://demo/main -m "Nightly load" --meta job=load,run=4711
    """
    context.skips_hooks = no_verify
    check_message(message, allow_empty=allow_empty_message)
    if branch is None:
        if linked(context) is not None:
            of_branch = (allow_empty_commit, strategy, epoch_time_seconds >= 0, paths, prefixes)
            if any(of_branch):
                raise UsageError(
                    "--allow-empty-commit, --strategy, --path, --prefix and --epoch-time-seconds "
                    "need a BRANCH",
                    hint="lakecli commit lakefs://REPOSITORY/BRANCH -m TEXT",
                )
            from lakecli.cli.commands.worktrees import commit_worktree, open_worktree
            from lakecli.worktree.commit import CommitOptions

            of_directory = CommitOptions(message, context.committer(), metadata)
            commit_worktree(context, open_worktree(context), of_directory, is_plain=True)
            return
        branch = ref_here(None, context)
    created_at = None if epoch_time_seconds < 0 else moment(epoch_time_seconds)

    if "" in (*paths, *prefixes):
        raise UsageError("--path or --prefix is empty", hint="leave it out to commit everything")
    context.out.say(f"Branch: {branch}")
    repository = context.synced_repository(branch)
    made = make_commit(
        repository,
        ref_of(branch),
        message=message,
        committer=context.committer(),
        metadata=metadata,
        allow_empty=allow_empty_commit,
        created_at=created_at,
        strategy=MergeStrategy.FAIL if strategy is None else MergeStrategy(strategy),
        paths=[os.fsencode(path) for path in paths],
        prefixes=[os.fsencode(prefix) for prefix in prefixes],
    )
    context.out.emit(made, text=lambda: commit_lines(made, branch=ref_of(branch)))
    bring_along(context, repository, ref_of(branch))
