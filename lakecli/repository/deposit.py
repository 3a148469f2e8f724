"""Write objects first and stage them later, for callers that stage many together, or none.

A written object lies in the namespace under the digest of its contents, and no entry refers to it
until it is staged. Garbage collection deletes it after the grace period if that never happens.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from lakecli.base.uri import check_path
from lakecli.committed.encode import encode_entry
from lakecli.committed.values import is_same
from lakecli.errors import LostRace
from lakecli.repository.contract import Repository
from lakecli.repository.guard.claims import claim_values
from lakecli.repository.reading.view import check_branch, view_of_branch
from lakecli.repository.staged.stager import MAX_ATTEMPTS, Seen, Stager
from lakecli.repository.upload import Uploader, UploadOptions
from lakecli.staging.area import TOMBSTONE


def deposit(
    repository: Repository,
    branch: str,
    path: bytes,
    *,
    source: BinaryIO | Path,
    options: UploadOptions,
) -> bytes:
    """Write an object into the namespace, durably; return the encoded entry for its path.

    If the branch has an object of lakeFS with these contents at the path, its entry is returned.

    Args:
        repository: the repository of the namespace.
        branch: where the entry will be staged; it must exist.
        path: where the entry will be staged; its suffix implies the content type.
        source: a stream, read to its end, or a file, which must not change meanwhile.
        options: content type, metadata, sizes of parts and how many at a time.

    Raises:
        NotFound: no such branch.
        UsageError: an illegal path.
        FileChanged: the file changed.
    """
    check_path(path)
    check_branch(repository, branch)
    upload = Uploader(repository, branch, options)
    (present,) = upload.present([path])
    expected = upload.expected(present)
    if isinstance(source, Path):
        ingested = upload.ingest.file(os.fsencode(source), expected=expected)
    else:
        ingested = upload.ingest.stream(source, expected=expected)
    if ingested.is_kept and present is not None:
        return present
    upload.ingest.flush()
    return encode_entry(upload.entry(path, ingested, at=repository.lake.now(), has_mtime=False))


class Removal(NamedTuple):
    """The removal of an entry that was seen at a path; another entry there is kept.

    Attributes:
        seen: the encoded entry to remove.
    """

    seen: bytes


def stage_together(
    repository: Repository, branch: str, changes: Mapping[bytes, bytes | Removal], *, kind: str
) -> int:
    """Stage encoded entries and removals by path, all at once; return how many changed.

    Entries that the branch has already are not staged again. Their objects may have been written
    long before, or belong to other paths of the repository: all of them are claimed.

    Raises:
        NotFound: no such branch; nothing is staged.
        Gone: the object of an entry is no longer in the bucket; nothing is staged.
        LostRace: paths to be removed kept changing on the branch; nothing is staged.
    """
    encoded = {
        path: change.seen if isinstance(change, Removal) else change
        for path, change in sorted(changes.items())
    }
    removals = [path for path in encoded if isinstance(changes[path], Removal)]
    stager = Stager(repository, branch, kind=kind)
    for _ in range(MAX_ATTEMPTS):
        with repository.lake.kv.read() as txn:
            view = view_of_branch(repository, txn, branch)
            changed: list[tuple[bytes, bytes]] = []
            for path, value in encoded.items():
                is_there = is_same(view.find(path), value)
                if isinstance(changes[path], Removal):
                    if is_there:
                        changed.append((path, TOMBSTONE))
                elif not is_there:
                    changed.append((path, value))
            seen = Seen.of(view, branch, removals)
        claimed = claim_values(repository, changed)
        if not claimed:
            return 0
        if stager.write_unless_changed([(branch, claimed)], seen):
            return len(claimed)
    raise LostRace(f"{branch} changed {MAX_ATTEMPTS} times while it was read", hint="try again")
