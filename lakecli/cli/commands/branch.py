"""``lakecli branch``: create, list, move and delete branches."""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NotRequired, TypedDict

from lakecli.base.model import Branch, Commit, CommitId
from lakecli.base.uri import SCHEME, LakeUri, check_path, parse_ref, ref_of
from lakecli.cli import params
from lakecli.cli.commands import moved_refs
from lakecli.cli.context import Context
from lakecli.cli.line import REQUIRED, Kind, argument, flag, option
from lakecli.cli.out.records import answers, fields_of, pick
from lakecli.cli.out.text import age, local_date, one_line, quote_path, subject
from lakecli.cli.parsers import read_ref_of, repository_here
from lakecli.errors import UsageError
from lakecli.repository import branch as library
from lakecli.repository.contract import Repository
from lakecli.repository.log import show_commit
from lakecli.repository.status import BranchStatus, status, with_distances


class ListedBranchJson(TypedDict):
    """A branch; in a shared repository, also how far it is ahead of and behind the bucket.

    Attributes:
        name: name of the branch.
        commit_id: the commit that the branch points to.
        upstream: commit of the branch in the bucket at the last fetch; null if the branch did not
            exist there.
        ahead: number of commits that are only on this machine.
        behind: number of commits that are only in the bucket.
    """

    name: str
    commit_id: CommitId
    upstream: NotRequired[CommitId | None]
    ahead: NotRequired[int]
    behind: NotRequired[int]


class BranchShownJson(TypedDict):
    """A branch with its head, its uncommitted changes, and its state in the bucket.

    The other fields are those of `BranchStatus`.

    Attributes:
        is_default: whether the branch is the default branch of the repository.
        commit: the commit that the branch points to.
    """

    is_default: bool
    commit: Commit


class RevertsJson(TypedDict):
    """The reverts on a branch.

    Attributes:
        commits: the new commits, each of which reverts one commit, in order.
    """

    branch: str
    commits: Sequence[Commit]


@answers(Branch)
def branch_create(
    context: Context,
    branch: params.BranchUri,
    *,
    source: str = option("REF", "--source", "-s", default=REQUIRED),
) -> None:
    """Create a branch at the commit of another ref.

    No object is copied. Uncommitted changes of the source stay on the source.

    Args:
        source: Ref to start at, or lakefs://REPOSITORY/REF.

    Examples:
        lakecli branch create lakefs://demo/experiment -s lakefs://demo/main
        lakecli branch create lakefs://demo/rescue -s main~3
    """
    start = read_ref_of(branch, source, context)
    context.out.say(f"Source ref: {start}")
    repository = context.synced_repository(branch, start)
    created = library.create(repository, ref_of(branch), source=ref_of(start))
    context.out.emit(created, text=lambda: [f"created branch '{created.name}' {created.commit_id}"])


@answers(ListedBranchJson, each=True)
def branch_list(
    context: Context,
    repository: params.HereRepositoryUri = None,
    *,
    page: params.PageOptions,
    long: bool = flag("--long", "-v"),
    at_op: params.AtOp = "",
) -> None:
    """List the branches of a repository, ordered by name.

    On a terminal each branch is shown with the age and the subject of its newest commit.

    With -v or --json, in a repository that was pushed, fetched or cloned, each branch is listed
    with the number of commits it is ahead of and behind the bucket, as of the last fetch, pull or
    push.

    REPOSITORY defaults to that of the linked directory, or else to the default set by `lakecli
    use`.

    Args:
        long: Show the distance of each branch from the bucket, too.

    Examples:
        lakecli branch list lakefs://demo
        lakecli branch list
        lakecli branch list lakefs://demo -v
        lakecli branch list lakefs://demo --prefix dev- --amount 0
        lakecli branch list s3://my-bucket/demo
    """
    opened = context.synced_repository(repository_here(repository, context), at_op=at_op)
    found = library.iter_branches(opened, prefix=page.prefix, after=page.after)
    shown = context.out.page(found, amount=page.amount, name=lambda item: item.name)
    if context.out.terminal and not context.out.json:
        _list_for_people(context, opened, shown)
    elif (long or context.out.json) and library.is_shared(opened):
        context.out.table(
            ("Branch", "Commit ID", "Bucket"),
            with_distances(opened, shown),
            row=lambda item: (item[0].name, item[0].commit_id, moved_refs.distance_text(item[1])),
            record=lambda item: pick(ListedBranchJson, *item),
        )
    else:
        context.out.table(
            ("Branch", "Commit ID"), shown, row=lambda item: (item.name, item.commit_id)
        )
    context.out.say("")


def _list_for_people(context: Context, repository: Repository, found: Iterable[Branch]) -> None:
    """Print a table of branches, each with the age and the first line of its newest commit."""
    is_shared = library.is_shared(repository)
    with repository.lake.kv.read() as txn:
        refs = repository.refs(txn)
        heads = (
            (item, distance, refs.get_commit(item.commit_id))
            for item, distance in with_distances(repository, found)
        )
        context.out.table(
            ("Branch", "Commit", "Age", *(["Bucket"] if is_shared else []), "Subject"),
            heads,
            row=lambda head: (
                head[0].name,
                head[0].commit_id,
                age(head[2].created_at, context.now()),
                *([moved_refs.distance_text(head[1])] if is_shared else []),
                subject(head[2]),
            ),
        )


@answers(BranchShownJson)
def branch_show(context: Context, branch: params.BranchUri, *, at_op: params.AtOp = "") -> None:
    """Show the commit a branch points to.

    On a terminal and with --json, it also shows the date and message of that commit, the distance
    from the bucket at the last fetch, and the number of uncommitted changes.

    Examples:
        lakecli branch show lakefs://demo/main
        lakecli branch show lakefs://demo/main --json
    """
    context.out.say(f"Branch: {branch}")
    repository = context.synced_repository(branch, at_op=at_op)
    found = library.show(repository, ref_of(branch))
    if not (context.out.json or context.out.terminal):
        context.out.say(f"Commit ID: {found.commit_id}")
        return

    (state,) = status(repository, found.name)
    commit = show_commit(repository, found.commit_id)

    own = BranchShownJson(is_default=found.name == repository.record.default_branch, commit=commit)
    context.out.emit(fields_of(state) | own, text=lambda: _lines(state, commit))


def _lines(state: BranchStatus, commit: Commit) -> Iterator[str]:
    yield f"Commit ID: {state.commit_id}"
    yield f"Date: {local_date(commit.created_at)}"
    yield f"Message: {subject(commit)}"
    yield f"Bucket: {moved_refs.distance_text(state.distance)}"
    counts = {"added": state.added, "changed": state.changed, "removed": state.removed}
    staged = [f"{count} {what}" for what, count in counts.items() if count]
    yield f"Uncommitted: {', '.join(staged) or 'nothing'}"


@answers(Branch)
def branch_rename(
    context: Context, branch: params.BranchUri, name: str = argument("NAME", kind=Kind.NOTHING)
) -> None:
    """Rename a branch.

    The branch must have no uncommitted changes, and must not be the default branch. In the bucket,
    the old branch stays until `lakecli push --delete`. With `sync = auto`, it is renamed in the
    bucket, too; if it has commits there that are not on this machine, nothing is renamed, and the
    exit code is 5. `lakecli undo` reverses the renaming.

    Args:
        name: The new name, or lakefs://REPOSITORY/NAME.

    Examples:
        lakecli branch rename lakefs://demo/experiment trial
        lakecli branch rename lakefs://demo/experiment lakefs://demo/trial
    """
    context.out.say(f"Branch: {branch}")
    uris = [parse_ref(name)] if name.startswith(SCHEME) else []
    # If a push ends during the fetch, the branch can follow an older state for a moment.
    here = context.repository(branch, *uris)
    expected = library.show(here, ref_of(branch)).commit_id if here.is_here() else None
    repository = context.synced_repository(branch, *uris)
    new_name = ref_of(uris[0]) if uris else name
    renamed = library.rename(repository, ref_of(branch), new_name, expected=expected)
    context.out.emit(renamed, text=lambda: [f"renamed to '{new_name}' {renamed.commit_id}"])
    if not repository.syncs and library.is_shared(repository):
        uri = repository.uri
        context.out.hint(
            f"the bucket is unchanged; to rename it there: lakecli push {uri}/{new_name}, then "
            f"lakecli push --delete {uri}/{ref_of(branch)}"
        )


@answers(Branch, each=True)
def branch_delete(
    context: Context, branches: params.BranchUris, *, yes: params.Yes = False
) -> None:
    """Delete branches of a repository with their uncommitted changes.

    Their commits stay. The default branch cannot be deleted. If one of several branches does not
    exist, none is deleted. `lakecli undo` restores a branch with its uncommitted changes for 30
    days.

    With automatic sync, a branch is deleted in the bucket, too. If it has commits there that are
    not on this machine, no branch is deleted, and the exit code is 5.

    Examples:
        lakecli branch delete lakefs://demo/experiment
        lakecli branch delete lakefs://demo/try-1 lakefs://demo/try-2 -y
    """
    unique = list(dict.fromkeys(branches))
    context.out.say(*(f"Branch: {branch}" for branch in unique))
    repository = context.synced_repository(*unique)
    names = [ref_of(branch) for branch in unique]
    for name in names:
        library.check_delete(repository, name)
    listed = ", ".join(f"'{name}'" for name in names)
    what = "branch" if len(names) == 1 else "branches"
    context.confirm(f"delete {what} {listed} and uncommitted changes", yes=yes)
    for name in names:
        context.out.emit(library.delete(repository, name))


@answers(Branch)
def branch_reset(
    context: Context,
    branch: params.BranchUri,
    *,
    prefix: str | None = option("TEXT"),
    object: str | None = option("PATH", kind=Kind.NOTHING),
    to: str = option("REF"),
    force_with_lease: params.ForceWithLease = None,
    yes: params.Yes = False,
) -> None:
    """Discard the uncommitted changes of a branch: all, below a prefix, or of one object.

    The paths then have the contents of the last commit. If there are no such changes, nothing
    happens.

    With --to, the branch also moves to another commit, and all its uncommitted changes are
    discarded. The commits stay; `lakecli undo` reverses the reset, and `lakecli reflog` shows where
    the branch was. The branch in the bucket moves only with --force-with-lease, and only if nobody
    has moved it since the last fetch; with --force-with-lease=COMMIT, only if it is at COMMIT. If
    it cannot move in the bucket, nothing changes here either. The files of a linked directory stay;
    `status` shows how they differ.

    Args:
        prefix: Only what begins with this.
        object: Only this object.
        to: Move the branch to this commit: a ref or its URI.

    Examples:
        lakecli branch reset lakefs://demo/main
        lakecli branch reset lakefs://demo/main --prefix raw/2026/ -y
        lakecli branch reset lakefs://demo/main --object raw/2026/01.csv -y
        lakecli branch reset lakefs://demo/main --to main~2
        lakecli branch reset lakefs://demo/main --to v1.0 --force-with-lease -y
    """
    params.refuse_several({"--prefix": prefix is not None, "--object": object is not None})
    if to and (prefix is not None or object is not None):
        raise UsageError("--to excludes --prefix and --object", hint="give one of them")
    if force_with_lease is not None and not to:
        raise UsageError("--force-with-lease needs --to", hint="--to REF")
    path = os.fsencode(object if object is not None else prefix or "")
    check_path(path, allow_empty=object is None)
    context.out.say(f"Branch: {branch}")
    repository, name = context.synced_repository(branch), ref_of(branch)
    found = library.show(repository, name)
    if to:
        _move(context, repository, found, to, lease=force_with_lease, yes=yes)
        return
    what = f"discard all uncommitted changes of branch '{name}'"
    if object is not None:
        context.confirm(f"{what} for object: {quote_path(object)}", yes=yes)
        count: int | None = library.reset_object(repository, name, path)
    elif prefix is not None:
        context.confirm(f"{what} from path: {quote_path(prefix)}", yes=yes)
        count = library.reset_prefix(repository, name, path)
    else:
        context.confirm(what, yes=yes)
        library.reset(repository, name)
        count = None
    context.out.emit(found)
    if count == 0:
        context.out.note("no uncommitted changes there")


def _move(
    context: Context, opened: Repository, branch: Branch, to: str, *, lease: str | None, yes: bool
) -> None:
    """Move a branch to the commit that a ref or a URI names.

    If ``--force-with-lease`` was given (`lease`), the branch is moved in the bucket, too.
    """
    name = branch.name
    expression = to
    if to.startswith(SCHEME):
        named = parse_ref(to)
        context.repository(named, LakeUri(opened.name))
        expression = ref_of(named)
    from lakecli.repository.push import PushOptions, push_reset

    target = show_commit(opened, expression)
    required = moved_refs.read_lease(opened, lease)
    where = f"from {moved_refs.short(branch.commit_id)} to {moved_refs.short(target.id)}"
    context.confirm(f"move branch '{name}' {where} and discard uncommitted changes", yes=yes)
    pushed = None
    if required is None:
        moved = library.reset(opened, name, to=target.id, expected=branch.commit_id)
    else:
        options = PushOptions(who=context.committer(), lease=required)
        moved, pushed = push_reset(opened, branch, target.id, options)
    context.out.emit(moved, text=lambda: [f"Commit ID: {moved.commit_id}"])
    if pushed is not None:
        context.out.note(moved_refs.pushed_line(pushed, dry_run=False))
    elif not opened.syncs and library.is_shared(opened):
        context.out.hint(
            "the bucket is unchanged; to move the branch there: "
            f"lakecli push --force-with-lease {opened.uri}/{name}"
        )
    moved_refs.bring_along(context, opened, name, stays=True)


@answers(RevertsJson)
def branch_revert(
    context: Context,
    branch: params.BranchUri,
    refs: list[str] = argument("REF"),
    *,
    parent_number: params.ParentNumber = None,
    allow_empty_commit: params.AllowEmptyCommit = False,
    decide: params.DecisionOptions,
    yes: params.Yes = False,
) -> None:
    """Revert commits, with one new commit for each.

    Commits are reverted from left to right. A ref relative to the branch itself, such as main~1, is
    resolved after the preceding reverts. If a commit cannot be reverted, the commits before it stay
    reverted. A merge commit needs --parent-number. If later commits changed the same paths, nothing
    is reverted, unless --take chooses a side for each path: source is the state before the reverted
    commit, dest the state of the branch. If revert runs in a directory that is linked with the
    branch, the directory is updated, too.

    Args:
        refs: Commit to revert: a commit ID, a ref, or its URI.

    Examples:
        lakecli branch revert lakefs://demo/main main~2
        lakecli branch revert lakefs://demo/main 8d7c1b02 44fe19a3 -y
        lakecli branch revert lakefs://demo/main main -m 1
        lakecli branch revert lakefs://demo/main main~2 --take dest:reports/
    """
    from lakecli.repository.revert import revert

    decisions = decide.decisions()
    name = ref_of(branch)
    uris = {text: parse_ref(text) for text in refs if text.startswith(SCHEME)}
    expressions = [ref_of(uris[text]) if text in uris else text for text in refs]
    context.out.say(f"Branch: {branch}")
    repository = context.synced_repository(branch, *uris.values())
    library.show(repository, name)
    _check(repository, name, expressions)
    asked = one_line(" ".join(expressions))
    context.confirm(f"revert commits {asked} on branch '{name}'", yes=yes)
    committer = context.committer()
    commits: list[Commit] = []
    try:
        for expression in expressions:
            commit = revert(
                repository,
                name,
                expression,
                committer=committer,
                parent_number=parent_number,
                allow_empty=allow_empty_commit,
                decisions=decisions,
            )
            commits.append(commit)
            context.out.say(f"commit {one_line(expression)} successfully reverted")
    finally:
        if commits:
            context.out.emit({"branch": name, "commits": commits})
            moved_refs.bring_along(context, repository, name)


def _check(repository: Repository, branch: str, expressions: list[str]) -> None:
    """Raise an error if a ref is unknown, so that nothing is reverted after a typo.

    Refs that are relative to the branch itself are not checked.
    """
    from lakecli.refs.expression import parse_expression

    for expression in expressions:
        if parse_expression(expression).base != branch:
            show_commit(repository, expression)
