"""Keep the files that a command overwrites or deletes on request, so that `undo` can restore them.

The files of a working directory are uploaded to the storage namespace. One operation of the log
records their entries as staged records of an area that belongs to no branch. Undoing the operation
stages the entries in this area; then `restore_kept` writes the files back into the directory and
empties the area. Before a redo, `overwrite_again` stages the present files in the area for the next
undo, and overwrites them.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from lakecli.base.model import EMPTY_TREE, ChangeType, CommitId, MetarangeId, StagingToken
from lakecli.committed.values import decode_entry, encode_entry
from lakecli.errors import Refused
from lakecli.kv import operations as log
from lakecli.kv.operations import Operation, StagingChange
from lakecli.repository.contract import Repository
from lakecli.repository.download import DownloadOptions
from lakecli.repository.guard import Change, uploaded_changes
from lakecli.repository.journal import operation_log
from lakecli.repository.transfer.ingest import Ingested
from lakecli.repository.transfer.walk import FileOpener
from lakecli.repository.upload import Uploader, UploadOptions
from lakecli.staging import area
from lakecli.worktree.fetching import Expected, WantedFile, WriteReport
from lakecli.worktree.index import FileState, root_of, state_of
from lakecli.worktree.link import Link, read_link
from lakecli.worktree.linked_files import permissions_of
from lakecli.worktree.obstacles import InTheWay, parents_of
from lakecli.worktree.scan import LocalChange
from lakecli.worktree.worktree import Worktree, identity_of, index_file_of, lock
from lakecli.worktree.writer import Writer

PULL: Final = "local pull"
"""The kind of the operation that records the files that a pull has overwritten."""

RESTORE: Final = "restore"
"""The kind of the operation that records the files that `restore` has overwritten."""

DIRECTORY: Final = "directory"
"""Metadata key of an operation: the path of the working directory whose files it has kept."""

IDENTITY: Final = "identity"
"""Metadata key of an operation: device and inode of that directory, which may be renamed."""

PREFIX: Final = "prefix"
"""Metadata key of an operation: the path in the repository that the directory was linked with."""

COMMIT: Final = "commit"
"""Metadata key of an operation: the commit whose files replaced the kept files."""

RESOLVED: Final = "resolved"
"""Metadata key of an operation: the paths at which it resolved conflicts, as a JSON list."""


def keep(
    worktree: Worktree,
    paths: Sequence[bytes],
    *,
    kind: str,
    commit: CommitId | None,
    options: UploadOptions,
    resolves: bool = True,
) -> None:
    """Keep files of a working directory before they are overwritten or deleted.

    Args:
        paths: the paths of the files, relative to the directory, in ascending order.
        commit: the commit whose files replace the kept files; ``None``: the files are deleted.
        resolves: whether the command resolves conflicts at these paths.
    """
    repository = worktree.repository
    claimed = _bring_in(worktree, paths, options)
    token = StagingToken(repository.lake.runtime.new_id())
    named = os.fspath(worktree.root)
    metadata = {
        DIRECTORY: named,
        IDENTITY: identity_of(worktree.root),
        PREFIX: os.fsdecode(worktree.link.prefix),
        COMMIT: commit or "",
    }
    resolved = sorted({*worktree.link.unresolved}.intersection(paths)) if resolves else []
    if resolved:
        metadata[RESOLVED] = json.dumps([os.fsdecode(path) for path in resolved])
    with repository.lake.kv.write() as txn:
        operation = operation_log.append(
            txn,
            repository,
            kind=kind,
            staging=[StagingChange(f"{DIRECTORY} {named}", token)],
            sealed=[token],  # expires with the operation
            metadata=metadata,
        )
        area.put_many(txn, token, claimed)
        log.save_images(txn, operation.id, token, [path for path, _ in claimed])
        area.drop(txn, token)


def _bring_in(worktree: Worktree, paths: Sequence[bytes], options: UploadOptions) -> list[Change]:
    """Upload files to the namespace, and return (path, encoded entry) of each."""
    upload = Uploader(worktree.repository, worktree.link.ref, options)
    opener = FileOpener(os.fsencode(worktree.root), worktree.links)
    files = {}
    for path in paths:
        with opener.open(worktree.path_of(path)) as file:
            files[path] = upload.ingest.file(file)
    return claimed_files(worktree, upload, files)


def claimed_files(
    worktree: Worktree, upload: Uploader, files: Mapping[bytes, Ingested]
) -> list[Change]:
    """Make the objects of uploaded files durable, and claim them.

    Args:
        files: the files by their paths, relative to the directory.

    Returns:
        (path in the repository, encoded entry) of each file; the entry records the executable bit.
    """
    upload.ingest.flush(files.values())
    at = worktree.repository.lake.runtime.now()
    changes = []
    for relative, ingested in files.items():
        path = worktree.link.prefix + relative
        entry = upload.options.entry(path, ingested, at=at, has_mtime=True)
        assert ingested.status is not None
        metadata = {**entry.metadata, **permissions_of(ingested.status)}
        changes.append((path, encode_entry(entry._replace(metadata=metadata))))
    return uploaded_changes(changes)


def _tree_of(worktree: Worktree, operation: Operation) -> MetarangeId:
    """Return the tree whose files an operation wrote over the kept files."""
    commit_id = operation.metadata.get(COMMIT)
    return worktree.commit(CommitId(commit_id)).metarange_id if commit_id else EMPTY_TREE


class DirectoryGone(Refused):
    """The directory of an operation's kept files is not found, or its link has changed."""


def check_directory(repository: Repository, operation: Operation) -> None:
    """Before an operation is undone, check that the files that it kept can be written back.

    Raises:
        DirectoryGone: the directory of the files is not found, or its link has changed.
    """
    if DIRECTORY in operation.metadata and _find_directory(repository, operation) is None:
        raise _gone(repository, operation)


def _gone(repository: Repository, operation: Operation) -> DirectoryGone:
    named = operation.metadata[DIRECTORY]
    source = f"{repository.uri}/REF/{operation.metadata.get(PREFIX, '')}"
    return DirectoryGone(
        f"the files that this undo would bring back belong in {named}, which is not there, or is "
        f"not linked with {source} any more",
        hint=f"move the directory back to {named}; if it was deleted: "
        f"`local clone {source} {named}`",
    )


def _find_directory(repository: Repository, operation: Operation) -> Path | None:
    """Return the directory of an operation if its link still has the same path, or ``None``.

    The directory is identified by the recorded device and inode. It is searched at its old path, at
    the path where its index was last used, and beside its old path. If it is not found, a directory
    at the old path with the same link is used.
    """
    named = Path(operation.metadata[DIRECTORY])
    identity = operation.metadata.get(IDENTITY, "")
    found = (
        place
        for place in _places(repository, named, identity)
        if _has_identity(place, identity) and _find_link(repository, operation, place) is not None
    )
    return next(found, named if _find_link(repository, operation, named) is not None else None)


def _places(repository: Repository, named: Path, identity: str) -> Iterator[Path]:
    """Yield paths at which a directory with the former path `named` may be now."""
    yield named
    seen = root_of(index_file_of(repository, identity)) if identity else None
    if seen is not None:
        yield Path(os.fsdecode(seen))
    inode = identity.rpartition("-")[2]
    with suppress(OSError), os.scandir(named.parent) as listing:
        yield from (Path(each.path) for each in listing if f"{each.inode():x}" == inode)


def _has_identity(place: Path, identity: str) -> bool:
    try:
        return identity_of(place) == identity
    except OSError:
        return False


def _find_link(repository: Repository, operation: Operation, place: Path) -> Link | None:
    """Return the link of a directory if it has the path that an operation's directory had."""
    link = read_link(place)
    if link is None or link.src.repository != repository.name:
        return None
    return link if operation.metadata.get(PREFIX) in {None, os.fsdecode(link.prefix)} else None


@contextmanager
def _locked(repository: Repository, operation: Operation) -> Iterator[Worktree | None]:
    """Lock and yield an operation's directory; ``None`` if its link no longer has the same path."""
    kept = DIRECTORY in operation.metadata
    root = _find_directory(repository, operation) if kept else None
    if root is None:
        yield None
        return
    with lock(root):
        link = _find_link(repository, operation, root)
        yield None if link is None else Worktree(repository, root, link)


def restore_kept(
    repository: Repository, operation: Operation, options: DownloadOptions
) -> WriteReport | None:
    """Write back the files that an undone operation had kept; return the report.

    A file that has changed since the operation is not overwritten. If the store refuses an object
    or does not answer, or if the process is killed, the operation is unfinished and this call can
    be repeated. A file that was a conflict counts as written back only when it is marked as a
    conflict again.

    Returns:
        The report; ``None`` if the operation kept no files.

    Raises:
        DirectoryGone: the directory is not found. The operation is unfinished.
    """
    with _locked(repository, operation) as worktree:
        if worktree is None:
            if DIRECTORY in operation.metadata:
                raise _gone(repository, operation)
            return None
        writer = Writer(worktree, options)
        back, removed = _write_back(worktree, operation, writer)
        # The index is not saved: these files differ from the base.
        written = writer.finish()
        back |= {each.path for each in writer.published}
        on_step = repository.lake.runtime.on_step
        on_step("settle")
        if again := _resolved(operation, back) | removed:
            worktree.relink(unresolved=tuple(sorted({*worktree.link.unresolved, *again})))
        on_step("tidy")
        with repository.lake.kv.write() as txn:
            for staged in operation.staging:
                token = StagingToken(staged.token)
                if not written.can_repeat:
                    area.drop(txn, token)
                for path in back:
                    area.remove(txn, token, worktree.link.prefix + path)
        return written


def _write_back(
    worktree: Worktree, operation: Operation, writer: Writer
) -> tuple[set[bytes], set[bytes]]:
    """Write back the kept files, except where the present file has changed since the operation.

    Files of the operation's commit that are in the way are removed.

    Returns:
        The paths that already have the kept bytes, and the paths of the removed files.
    """
    prefix = worktree.link.prefix
    changes = worktree.scan().changes
    tree = _tree_of(worktree, operation)
    back: set[bytes] = set()
    removed: set[bytes] = set()
    wanted: list[WantedFile] = []
    is_at_commit = worktree.base_tree == tree
    for staged in operation.staging:
        with worktree.repository.lake.kv.read() as txn:
            kept = list(area.scan(txn, StagingToken(staged.token), prefix=prefix))
        for path, value in kept:
            relative = path[len(prefix) :]
            change = changes.get(relative)
            expected: Expected | FileState
            if change is None:
                is_there = os.path.lexists(worktree.path_of(relative))
                expected = Expected.BASE if is_there else Expected.ABSENT
            elif change.state is None:
                expected = Expected.ABSENT
            elif worktree.equals(relative, change, value):
                back.add(relative)
                continue
            elif worktree.equals(relative, change, worktree.find(tree, relative)):
                expected = change.state
            else:
                writer.report.kept.append(relative)
                continue
            decode_entry(value)  # raises the error of a damaged entry before any file is removed
            wanted.append(WantedFile(relative, value, expected))
    for file in wanted:
        for each in _tracked_in_the_way(worktree, file.path) if is_at_commit else ():
            if each not in changes:
                writer.remove(each, Expected.BASE)
                removed.add(each)
        writer.add(file)
    return back, removed


def _tracked_in_the_way(worktree: Worktree, path: bytes) -> list[bytes]:
    """Return the files of the base that prevent a file at a path: above the path, or below it."""
    above = [each for each in parents_of(path) if worktree.index.find(each) is not None]
    if above or not Path(os.fsdecode(worktree.path_of(path))).is_dir():
        return above
    return [each for each in worktree.index.paths() if each.startswith(path + b"/")]


def _resolved(operation: Operation, paths: set[bytes]) -> set[bytes]:
    """Return the paths among `paths` at which an operation has resolved conflicts.

    For a pull, these are all paths, because a pull overwrites only files in conflict.
    """
    if operation.kind == PULL:
        return paths
    return paths.intersection(map(os.fsencode, json.loads(operation.metadata.get(RESOLVED, "[]"))))


def is_unfinished(repository: Repository, operation: Operation) -> bool:
    """Return whether some files that an undone operation had kept are not yet written back."""
    with repository.lake.kv.read() as txn:
        tokens = (StagingToken(staged.token) for staged in operation.staging)
        return not all(area.is_empty(txn, token) for token in tokens)


def overwrite_again(
    repository: Repository, operation: Operation, options: DownloadOptions
) -> WriteReport | None:
    """Before a redo, overwrite again the files that an undo has written back.

    A file is overwritten or removed only if it still has the bytes that the undo wrote, and these
    bytes are kept first. If the process is killed, repeating the call continues.

    Returns:
        The report; ``None`` if the operation kept no files, or the directory is at another commit
        or not found.
    """
    with _locked(repository, operation) as worktree:
        if worktree is None:
            return None
        worktree.follow_back()
        tree = _tree_of(worktree, operation)
        is_at_commit = worktree.base_tree == tree
        if worktree.link.active or not (is_at_commit or operation.kind == RESTORE):
            return None
        on_step = repository.lake.runtime.on_step
        writer = Writer(worktree, options)
        wanted, done = _as_kept(worktree, operation, tree, writer)
        if wanted:
            on_step("keep")
            claimed = _bring_in(worktree, list(wanted), UploadOptions())
            (staged,) = operation.staging
            with repository.lake.kv.write() as txn:
                area.put_many(txn, StagingToken(staged.token), claimed)
        on_step("remove")
        for path, (value, state) in wanted.items():
            if value is not None:
                decode_entry(value)
            writer.change(path, value, state)
        blocked = {*worktree.link.unresolved} - wanted.keys()
        was_in_the_way = InTheWay(path for path, (value, _) in wanted.items() if value is None)
        for path in blocked:
            value = worktree.find(tree, path) if was_in_the_way.of(path) else None
            if value is not None:
                writer.add(WantedFile(path, value, Expected.ABSENT))
        written = writer.finish()
        on_step("index")
        if is_at_commit:
            worktree.save_index()
        on_step("settle")
        failed = [path for path, _ in (*written.failures, *written.impossible, *written.blocked)]
        done |= wanted.keys() - {*written.kept, *failed}
        done = _resolved(operation, done)
        done |= blocked.intersection(each.path for each in writer.published)
        left = tuple(path for path in worktree.link.unresolved if path not in done)
        if left != worktree.link.unresolved:
            worktree.relink(unresolved=left)
        return written


def _as_kept(
    worktree: Worktree, operation: Operation, tree: MetarangeId, writer: Writer
) -> tuple[dict[bytes, tuple[bytes | None, FileState]], set[bytes]]:
    """Return the files to overwrite again, and the paths that an interrupted redo has overwritten.

    All other files are added to `WriteReport.kept`.

    Returns:
        The files that still have the kept bytes, by path, each with its value in the tree and the
        present state of the file; and the paths of the files that already have the tree's contents.
    """
    prefix = worktree.link.prefix
    wanted, done = {}, set()
    with worktree.repository.lake.kv.read() as txn:
        (staged,) = operation.staging
        images = list(log.iter_images(txn, operation.id, staged.token, prefix=prefix))
    for path, kept in images:
        relative = path[len(prefix) :]
        value = worktree.find(tree, relative)
        change = LocalChange(ChangeType.REMOVED, None)
        with suppress(FileNotFoundError, NotADirectoryError):
            status = os.lstat(worktree.path_of(relative))
            change = LocalChange(ChangeType.CHANGED, state_of(status))
        if worktree.equals(relative, change, value):
            done.add(relative)
        elif change.state is not None and worktree.equals(relative, change, kept):
            wanted[relative] = (value, change.state)
        else:
            writer.report.kept.append(relative)
    return wanted, done
