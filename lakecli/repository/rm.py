"""Remove objects from a branch: stage their deletion."""

from collections.abc import Iterable, Sequence

from lakecli.base.uri import as_directory
from lakecli.committed.values import decode_entry
from lakecli.errors import NotFound
from lakecli.repository.contract import Repository
from lakecli.repository.reading.view import check_branch, no_such_path, open_view
from lakecli.repository.staged.stager import Stager, batches_of, remove_unchanged
from lakecli.repository.transfer.plan import Listed, PathAction, PathStep
from lakecli.staging.area import TOMBSTONE


def rm(repository: Repository, branch: str, path: bytes) -> bool:
    """Stage the deletion of one object; return whether the object existed.

    Raises:
        NotFound: no such branch.
    """
    return not rm_paths(repository, branch, [path])


def rm_paths(
    repository: Repository,
    branch: str,
    paths: Iterable[bytes],
    *,
    must_exist: bool = False,
    listed: Listed | None = None,
) -> list[bytes]:
    """Stage the deletion of objects in one operation; return the paths without an object.

    Args:
        repository: the repository.
        branch: the branch on which the deletions are staged.
        paths: the paths of the objects.
        must_exist: if a path has no object, raise an error and remove nothing.
        listed: if given, the call is a dry run: nothing is staged, and `listed` is called with each
            object that would be removed.

    Raises:
        NotFound: no such branch; or with `must_exist` no such object.
    """
    check_branch(repository, branch)
    with open_view(repository, branch) as view:
        found = {path: view.find(path) for path in sorted(set(paths))}
    present = [(path, value) for path, value in found.items() if value is not None]
    absent = [path for path, value in found.items() if value is None]
    if absent and must_exist:
        raise _not_there(repository, branch, absent)
    if present:
        stager = Stager(repository, branch)
        if listed is None:
            stager.write([(path, TOMBSTONE) for path, _ in present], kind="rm")
        else:
            _list(present, listed)
    return absent


def rm_trees(
    repository: Repository,
    branch: str,
    paths: Sequence[bytes],
    *,
    must_exist: bool = False,
    listed: Listed | None = None,
) -> int:
    """Stage the deletion of objects and of everything below them; return their number.

    ``a`` means ``a`` and ``a/b``, but not ``ab``; ``a/`` means only the objects below it; ``b""``
    means everything. Objects that other processes add or replace at these paths meanwhile are kept.

    Args:
        repository: the repository.
        branch: the branch on which the deletions are staged.
        paths: the paths of objects and directories.
        must_exist: if there is nothing at a path, raise an error and remove nothing.
        listed: if given, the call is a dry run: nothing is staged, and `listed` is called with each
            object that would be removed.

    Raises:
        NotFound: no such branch; or with `must_exist` nothing at a path.
        LostRace: other processes kept changing the objects.
    """
    stager = Stager(repository, branch)
    check_branch(repository, branch)
    if must_exist:
        with open_view(repository, branch) as view:
            absent = [path for path in paths if next(batches_of(view, path), None) is None]
        if absent:
            raise _not_there(repository, branch, absent)
    count = 0
    done: set[bytes] = set()
    for path in sorted(set(paths)):
        if any(path[:end] in done for end in range(len(path) + 1)):
            continue  # it is below another path
        done.add(as_directory(path))
        with open_view(repository, branch) as view:
            for batch in batches_of(view, path):
                if listed is None:
                    count += remove_unchanged(stager, view, branch, batch, "rm")
                else:
                    count += _list(batch, listed)
    return count


def _list(found: Sequence[tuple[bytes, bytes]], listed: Listed) -> int:
    """Report the removal of some objects, given by path and encoded entry; return their number."""
    for path, value in found:
        listed(PathStep(PathAction.DELETED, path, decode_entry(value).size))
    return len(found)


def _not_there(repository: Repository, branch: str, paths: Sequence[bytes]) -> NotFound:
    if len(paths) == 1:
        near = find_nearest(repository, branch, paths[0])
        return no_such_path(repository, branch, paths[0], near=near)
    what = f"no objects at {len(paths)} paths of {repository.uri}/{branch}; nothing was removed"
    return NotFound(what, hint="remove the others: `must_exist=False`", paths=paths)


def find_nearest(repository: Repository, branch: str, path: bytes) -> bytes | None:
    """Return the existing path that is most similar to a path without an object, or ``None``."""
    with open_view(repository, branch) as view:
        return view.nearest(path)


def is_directory(repository: Repository, branch: str, path: bytes) -> bool:
    """Return whether a branch has objects below a path."""
    with open_view(repository, branch) as view:
        return next(view.scan(prefix=as_directory(path)), None) is not None
