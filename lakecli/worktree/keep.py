"""What a command overwrites or deletes in a working directory on request, kept for `undo`.

The bytes go into the storage namespace. One operation of the log records the entries as the staged
records of an area that belongs to no branch: undoing the operation stages them there, and
`restore_kept` writes them back into the directory and empties the area.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lakecli.committed.encode import encode_entry
from lakecli.committed.values import decode_entry
from lakecli.kv import operations as log
from lakecli.kv.operations import StagingChange
from lakecli.model import StagingToken
from lakecli.repository.core import operations
from lakecli.repository.core.gate import claim_uploaded
from lakecli.repository.upload import Upload
from lakecli.staging import area
from lakecli.worktree.fetching import Expected, Wanted
from lakecli.worktree.link import find_root, read_link
from lakecli.worktree.worktree import Worktree, lock
from lakecli.worktree.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakecli.kv.operations import Operation
    from lakecli.repository.core.lake import Repository
    from lakecli.repository.download import DownloadOptions
    from lakecli.repository.upload import UploadOptions
    from lakecli.worktree.writer import Written

PULL: Final = "local pull"

DIRECTORY: Final = "directory"
"""Key of an operation's metadata: the working directory whose files it has kept."""

_BATCH: Final = 1_024


def keep(
    worktree: Worktree, paths: Sequence[bytes], *, kind: str, options: UploadOptions
) -> Operation | None:
    """Keep files of a working directory before they are overwritten or deleted.

    Args:
        worktree: the working directory.
        paths: of the files, relative to it, in ascending order.
        kind: of the operation.
        options: of the upload.

    Raises:
        OSError: a file cannot be read.
        FileChanged: a file was written to meanwhile.
    """
    repository = worktree.repository
    changes: list[tuple[bytes, bytes]] = []
    uploaded = []
    upload = Upload(repository, worktree.link.ref, options)
    for relative in paths:
        ingested = upload.ingest.file(worktree.path_of(relative))
        path = worktree.link.prefix + relative
        entry = upload.entry(path, ingested, at=repository.lake.now(), has_mtime=True)
        uploaded.append(ingested)
        changes.append((path, encode_entry(entry)))
    if not changes:
        return None
    upload.ingest.flush()
    claimed = claim_uploaded(upload.ingest, changes, uploaded)
    token = StagingToken(repository.lake.runtime.new_id())
    named = os.fspath(worktree.root)
    with repository.lake.kv.write() as txn:
        operation = operations.append(
            txn,
            repository,
            kind=kind,
            staging=[StagingChange(f"{DIRECTORY} {named}", token)],
            metadata={DIRECTORY: named},
        )
        area.put_many(txn, token, claimed)
        log.save_images(txn, operation.id, token, [path for path, _ in claimed])
        area.drop(txn, token)
    return operation


def restore_kept(
    repository: Repository, operation: Operation, options: DownloadOptions
) -> Written | None:
    """Write files back that an undone operation had kept; return what was done.

    A file that has changed since the operation stays, and its older bytes stay kept: redo and undo
    try again.

    Args:
        repository: the repository of the operation.
        operation: the operation that was undone.
        options: of the downloads.

    Returns:
        ``None`` if it kept nothing, or the directory is not linked with the repository any more.
    """
    named = operation.metadata.get(DIRECTORY)
    root = None if named is None else find_root(Path(named))
    link = None if root is None else read_link(root)
    if root is None or link is None or link.src.repository != repository.name:
        return None
    with lock(root):
        worktree = Worktree(repository, root, read_link(root) or link)
        prefix = worktree.link.prefix
        changes = worktree.scan().changes
        writer = Writer(worktree, options)
        for staged in operation.staging:
            token = StagingToken(staged.token)
            with repository.lake.kv.read() as txn:
                kept = list(area.scan(txn, token, prefix=prefix))
            for path, value in kept:
                relative = path[len(prefix) :]
                change = changes.get(relative)
                if change is None:
                    is_there = os.path.lexists(worktree.path_of(relative))
                    expected = Expected.BASE if is_there else Expected.ABSENT
                elif change.state is None:
                    expected = Expected.ABSENT
                elif worktree.equals(relative, change, value):
                    continue
                else:
                    writer.report.kept.append(relative)
                    continue
                writer.add(Wanted(relative, decode_entry(value), expected))
            writer.flush()
            with repository.lake.kv.write() as writing:
                area.drop(writing, token)
        # The index is not saved: these files differ from the base. Those that a pull had
        # overwritten were conflicts, and are again.
        written = writer.report
        if operation.kind == PULL and written.downloaded:
            again = {each.path for each in writer.published}
            worktree.relink(unresolved=tuple(sorted({*worktree.link.unresolved, *again})))
        return written
