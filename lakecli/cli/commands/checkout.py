"""``lakecli checkout``, ``restore`` and ``check-ignore``: the files of a linked directory."""

from shlex import quote
from typing import TypedDict

from lakecli.base.uri import SCHEME, parse_path, parse_ref, ref_of
from lakecli.cli.commands import worktrees
from lakecli.cli.context import Context
from lakecli.cli.exit_codes import ExitCode
from lakecli.cli.line import Kind, argument, flag, option
from lakecli.cli.out.records import answers, pick
from lakecli.cli.out.text import quote_path
from lakecli.cli.params import TransferOptions
from lakecli.cli.parsers import absolute, is_ref, relative_path
from lakecli.errors import NotFound, UsageError
from lakecli.repository import branch
from lakecli.repository.log import show_commit
from lakecli.repository.transfer.ignore_patterns import IgnoreMatch
from lakecli.worktree.checkout import OwnChanges
from lakecli.worktree.checkout import restore as restore_paths
from lakecli.worktree.worktree import Worktree


class IgnoredJson(TypedDict):
    """A path, and the pattern in a .lakefsignore that decides whether the path is ignored.

    Attributes:
        path: path as given.
        ignored: whether the path is ignored.
        file: the .lakefsignore with the matching pattern, relative to the working directory; null
            if no pattern matches.
        line: line number of the pattern; null if no pattern matches.
        pattern: the matching pattern; null if no pattern matches.
    """

    path: bytes | str
    ignored: bool
    file: bytes | str | None
    line: int | None
    pattern: str | None


@answers(worktrees.SyncedJson)
def checkout(
    context: Context,
    ref: str = argument("REF"),
    *,
    create: bool = flag("-b", "--create"),
    force: bool = flag("--force", "-f"),
    transfer: TransferOptions,
) -> None:
    """Bring a linked directory to another branch, tag or commit.

    Files that you changed keep their changes. If such a file differs between REF and the commit of
    the directory, it is listed and nothing happens. --force overwrites it; `undo` restores it. At a
    tag or commit, nothing can be committed.

    -b first creates the branch REF at the ref of the directory; uncommitted changes stay. `branch
    create` creates a branch anywhere; `local checkout` undoes all changes of the directory.

    Args:
        ref: Branch, tag or commit of the linked repository.
        create: First create the branch REF at the ref of the directory.
        force: Overwrite changed files that differ in REF.

    Examples:
        lakecli checkout experiment
        lakecli checkout main~3
        lakecli checkout -b experiment
    """
    name = ref.rpartition("/")[2]
    alone = f"a branch without a directory: `branch create REPOSITORY/{quote(name)} -s REF`"
    worktree = worktrees.open_worktree(context, otherwise=alone if create else "")
    if ref.startswith(SCHEME):
        parsed = parse_ref(ref)
        if parsed.repository != worktree.link.src.repository:
            raise UsageError(
                f"{worktree.root} is linked with {worktree.repository.uri}, not with {ref}",
                hint="clone the other repository into a directory of its own: "
                f"`local clone {quote(f'{parsed}/')} DIRECTORY`",
            )
        ref = ref_of(parsed)
    if create:
        branch.create(worktree.repository, ref, source=worktree.link.ref)
        context.out.note(f"created branch {ref}; the directory is on it now")
    policy = OwnChanges.FORCE if force else OwnChanges.REFUSE
    worktrees.checkout_worktree(context, worktree, ref=ref, policy=policy, transfer=transfer)


@answers(worktrees.SyncedJson)
def restore(
    context: Context,
    files: list[str] = argument("FILE", kind=Kind.FILE_OF_REF),
    *,
    source: str = option("REF", "--source", "--from", "-s"),
    transfer: TransferOptions,
) -> None:
    """Give files of a linked directory their committed contents.

    Changes of the files are overwritten; `undo` restores them. After a pull with conflicts, this
    takes the branch's version of a file and resolves its conflict. Files that were never committed
    stay. Without a linked directory, use `fs cp` to restore a path of a branch from an earlier
    commit:

        lakecli fs cp -r --delete lakefs://demo/main~1/raw/ lakefs://demo/main/raw/

    Args:
        files: Files or directories of a linked directory.
        source: Take the files of this branch, tag or commit; default: as last synced.

    Examples:
        lakecli restore data/orders.csv
        lakecli restore . --source main~3
    """
    if files[0].startswith(SCHEME):
        hint = _by_copying(files[0], source)
        raise UsageError(f"not a file of a linked directory: {files[0]}", hint=hint)
    hint = "objects of an earlier commit: `fs cp -r --delete REF/PATH BRANCH/PATH`"
    worktree = worktrees.open_worktree(context, otherwise=hint)
    repository = worktree.repository
    commit = show_commit(repository, source) if source else None
    paths = [relative_path(worktree.root, file) for file in files]
    try:
        with worktrees.downloading(context, repository, "restore", transfer) as options:
            brought = restore_paths(worktree, paths, source=commit, options=options)
    except NotFound as error:
        if files[1:] and is_ref(files[0], worktree.link.src, context):
            words = " ".join(map(quote, files))
            error.hint = f"of another commit: `restore --source {words}`"
        raise
    worktrees.answer_synced(context, worktree, brought, "Restore")


def _by_copying(path: str, source: str) -> str:
    """Return a hint: the ``fs cp`` command that copies objects of an earlier commit to a branch.

    Args:
        path: the URI of a path of the branch.
        source: a ref of the earlier commit; ``""`` for the parent of the head.
    """
    there = parse_path(path, allow_empty=True)
    earlier = there._replace(ref=source.rpartition("/")[2] or f"{ref_of(there)}~1")
    tree = "" if there.path and not there.path.endswith(b"/") else "-r --delete "
    return f"objects of an earlier commit: `fs cp {tree}{quote(str(earlier))} {quote(str(there))}`"


@answers(IgnoredJson, each=True)
def check_ignore(
    context: Context, files: list[str] = argument("FILE"), *, why: bool = flag()
) -> ExitCode:
    """List the files that .lakefsignore excludes.

    A .lakefsignore file has patterns as in .gitignore; every directory of a linked directory may
    have one. Everything below an excluded directory is excluded, even if a later pattern includes
    it. A file in the commit of the directory is never excluded. The exit code is 0 if a file is
    excluded, and 13 if none is.

    Args:
        files: Files or directories of a linked directory.
        why: Show the deciding pattern, and files that are not excluded.

    Examples:
        lakecli check-ignore build/output.log
        lakecli check-ignore --why *
    """
    root, link = worktrees.find_worktree(context)
    worktree = Worktree(context.repository(link.src), root, link)
    paths = [relative_path(root, file) for file in files]
    worktree.follow_back()

    def match(file: str, path: bytes) -> IgnoreMatch | None:
        if not path or worktree.index.find(path) is not None:
            return None
        return worktree.ignore.match(path + b"/" * absolute(file).is_dir())

    found = [(file, match(file, path)) for file, path in zip(files, paths, strict=True)]
    ignored = [(file, match) for file, match in found if match is not None and match.ignores]
    context.out.stream(
        found if why or context.out.json else ignored,
        record=lambda item: _record(*item),
        text=lambda item: _line(*item) if why else quote_path(item[0]),
    )
    return ExitCode.OK if ignored else ExitCode.DIFFERENCES


def _record(file: str, match: IgnoreMatch | None) -> IgnoredJson:
    if match is None:
        return IgnoredJson(path=file, ignored=False, file=None, line=None, pattern=None)
    return pick(IgnoredJson, match, path=file, ignored=match.ignores)


def _line(file: str, match: IgnoreMatch | None) -> str:
    place = "::"
    if match is not None:
        place = f"{quote_path(match.file)}:{match.line}:{quote_path(match.pattern)}"
    return f"{place}\t{quote_path(file)}"
