"""``lakecli status``: show unpushed commits and uncommitted changes."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NotRequired, TypedDict

from lakecli.base.model import CommitId
from lakecli.cli.commands.moved_refs import distance_text, finish_interrupted
from lakecli.cli.context import Context
from lakecli.cli.out.records import answers
from lakecli.cli.out.text import human_seconds, quote_path
from lakecli.cli.params import AtOp, HereRepositoryOrBranchUri
from lakecli.cli.parsers import linked, repository_or_ref_here
from lakecli.errors import Unreachable
from lakecli.repository import status as states
from lakecli.repository.contract import FinishedMove, Repository

if TYPE_CHECKING:
    from lakecli.worktree.status import ChangedPath


class RefJson(TypedDict):
    """A branch of the bucket.

    Attributes:
        name: name of the branch.
        commit_id: the commit that the branch points to.
    """

    name: str
    commit_id: CommitId


class RefNameJson(TypedDict):
    """A branch or tag, by its name.

    Attributes:
        kind: branch or tag.
        name: name of the branch or tag.
    """

    kind: str
    name: str


class StatusJson(TypedDict):
    """The state of a repository, compared with its bucket.

    Attributes:
        repository: URI of the repository.
        storage_namespace: URI of the storage namespace.
        fetched_at: time of the last fetch; null if there was none.
        pushed_at: time of the last push from this machine; null if there was none.
        branches: state of each branch, ordered by name.
        only_in_bucket: branches that exist only in the bucket.
        pending: moves of refs in the bucket that an interrupted command began.
        went_back: branches and tags whose state in the bucket is older than this clone last saw.
        directory: absolute path of the linked directory.
        changes: files that were changed since the last sync, in the directory or on the ref.
    """

    repository: str
    storage_namespace: str
    fetched_at: datetime | None
    pushed_at: datetime | None
    branches: Sequence[states.BranchStatus]
    only_in_bucket: Sequence[RefJson]
    pending: Sequence[FinishedMove]
    went_back: Sequence[RefNameJson]
    directory: NotRequired[str]
    changes: NotRequired[Sequence["ChangedPath"]]


@answers(StatusJson)
def status(context: Context, branch: HereRepositoryOrBranchUri = None, *, at_op: AtOp = "") -> None:
    """Show unpushed commits and uncommitted changes.

    With lakefs://REPOSITORY, all branches are shown. Without BRANCH, in a directory linked by
    `lakecli local`, the branch of the directory is shown, and what has changed in the directory and
    on the branch since the directory was last synced, as by `local status`.

    Branches are compared with the bucket as of the last fetch, pull or push. The bucket itself is
    not read unless automatic sync is on (the setting sync, lakecli help remotes). Uncommitted
    changes exist on this machine only; push does not send them.

    Examples:
        lakecli status
        lakecli status lakefs://demo
        lakecli status lakefs://demo/main --json
    """
    here = linked(context) if branch is None and not at_op else None
    branch = repository_or_ref_here(branch, context)
    repository = context.synced_repository(branch, at_op=at_op)
    is_unfinished = not at_op and states.has_unfinished(repository)
    pending = _finish(context, repository) if is_unfinished else []
    went_back = [] if at_op else states.went_back(repository)
    name = branch.ref
    if here is not None:
        from lakecli.cli.commands.worktrees import compare

        worktree, compared = compare(repository, *here)
        name = worktree.branch
    found = [] if here is not None and name is None else list(states.status(repository, name))
    fetched_at, pushed_at = states.last_fetched(repository), states.last_pushed(repository)
    missing = list(states.only_in_bucket(repository)) if branch.ref is None else []

    def record() -> StatusJson:
        shown = StatusJson(
            repository=repository.uri,
            storage_namespace=repository.record.storage_namespace,
            fetched_at=fetched_at,
            pushed_at=pushed_at,
            branches=found,
            only_in_bucket=[RefJson(name=name, commit_id=commit_id) for name, commit_id in missing],
            pending=pending,
            went_back=[RefNameJson(kind=kind, name=name) for kind, name in went_back],
        )
        if here is not None:
            shown["directory"] = str(worktree.root)
            shown["changes"] = compared.items
        return shown

    def text() -> Iterator[str]:
        if here is not None:
            yield f"{quote_path(str(worktree.root))} is linked with {worktree.link.src}."
        yield _seen_line(fetched_at, pushed_at, now=context.now())
        yield from _lines(found, missing)
        if here is not None and compared.items:
            yield ""

    context.out.emit(record, text=text)
    if here is not None:
        from lakecli.cli.commands.worktrees import show_changes, warn_of_state

        if context.out.json:
            warn_of_state(context, worktree, compared)
        else:
            nothing = "No changes in the directory or on its ref."
            show_changes(context, worktree, compared, nothing=nothing)


def _finish(context: Context, repository: Repository) -> list[FinishedMove]:
    try:
        return finish_interrupted(context, repository)
    except Unreachable as error:
        context.out.warn(f"cannot check an interrupted push: {error.message}")
        return []


def _seen_line(fetched_at: datetime | None, pushed_at: datetime | None, *, now: datetime) -> str:
    """Return the line with the age of the last fetch and, if later, of the last push."""

    def ago(at: datetime) -> str:
        return f"{human_seconds(max(0, int((now - at).total_seconds())))} ago"

    line = "Never fetched" if fetched_at is None else f"Last fetched {ago(fetched_at)}"
    if pushed_at is not None and (fetched_at is None or pushed_at > fetched_at):
        line += f", pushed {ago(pushed_at)}"
    return f"{line}."


def _lines(
    branches: Sequence[states.BranchStatus], missing: Sequence[tuple[str, CommitId]]
) -> Iterator[str]:
    uncommitted = False
    for branch in branches:
        parts = [distance_text(branch.distance)]
        counts = {"added": branch.added, "changed": branch.changed, "removed": branch.removed}
        staged = [f"{count} {what}" for what, count in counts.items() if count]
        if staged:
            uncommitted = True
            parts.append(f"uncommitted: {', '.join(staged)}")
        yield f"{branch.name}: {'; '.join(parts)}"
    yield from (f"{name}: only in the bucket" for name, _ in missing)
    if uncommitted:
        yield "Uncommitted changes exist on this machine only."
