"""Bytes first, staging later: for those who stage many objects together, or none.

What was brought in lies in the namespace under the name of its contents and belongs to nothing
until it is staged; garbage collection takes it after the grace period if that never happens.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from lakecli.committed.values import encode_entry
from lakecli.repository.gate import claim_values
from lakecli.repository.stage import Stager
from lakecli.repository.upload import Upload, is_same
from lakecli.repository.view import branch_at, view_of_branch
from lakecli.staging.area import TOMBSTONE
from lakecli.uri import check_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakecli.model import Entry
    from lakecli.repository.lake import Repository
    from lakecli.repository.upload import UploadOptions


def deposit(
    repository: Repository,
    branch: str,
    path: bytes,
    *,
    source: BinaryIO | Path,
    options: UploadOptions,
) -> Entry:
    """Bring bytes into the namespace, durably, and return the entry that a path would have.

    Args:
        repository: whose namespace.
        branch: where they are to be staged; it has to be there.
        path: likewise; tells the content type.
        source: a stream, read to its end, or a file, which must not change meanwhile.
        options: content type, metadata, sizes of parts and how many at a time.

    Raises:
        NotFound: no such branch.
        UsageError: an illegal path.
        FileChanged: the file changed.
    """
    check_path(path)
    with repository.lake.kv.read() as txn:
        branch_at(repository, txn, branch)
    upload = Upload(repository, branch, options)
    if isinstance(source, Path):
        ingested = upload.ingest.file(os.fsencode(source))
    else:
        ingested = upload.ingest.stream(source)
    upload.ingest.flush()
    return upload.entry(path, ingested, at=repository.lake.now(), has_mtime=False)


def stage_together(
    repository: Repository, branch: str, changes: Mapping[bytes, Entry | None], *, kind: str
) -> int:
    """Stage entries by path, ``None`` for a deletion, all at once; return how many changed.

    What the branch has already is left as it is.

    Raises:
        NotFound: no such branch; nothing is staged.
        Gone: the object of an entry is not in the bucket any more; nothing is staged.
    """
    encoded = [
        (path, TOMBSTONE if entry is None else encode_entry(entry))
        for path, entry in sorted(changes.items())
    ]
    with repository.lake.kv.read() as txn:
        view = view_of_branch(repository, txn, branch)
        present = [(path, value, view.find(path)) for path, value in encoded]
    changed = [
        (path, value)
        for path, value, there in present
        if not (there is None if value == TOMBSTONE else is_same(there, value))
    ]
    # It may be long since they were brought in, or they come from elsewhere in the repository.
    claimed = claim_values(repository, changed)
    Stager(repository, branch, kind=kind).write(claimed, whole=True)
    return len(changed)
