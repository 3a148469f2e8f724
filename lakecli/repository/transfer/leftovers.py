"""Aborting abandoned uploads in parts, at most once a day.

Stores keep and bill the parts of an upload until it is completed or aborted. An upload is abandoned
if another machine began it and it has received no part for a day, or if this machine began it and
it has received none for a week. Only keys of data objects are considered.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from lakecli.base.layout import DATA, data_digest
from lakecli.errors import LakeError
from lakecli.kv import transfers
from lakecli.repository.core.lake import Repository
from lakecli.stores.capabilities import uploads_of
from lakecli.stores.uploads import UnfinishedUpload, UploadId, UploadNotFound, Uploads

INTERVAL: Final = timedelta(days=1)
"""Time between two searches, and until an upload of another machine is abandoned."""

PATIENCE: Final = timedelta(days=7)
"""Time until an upload of this machine is abandoned."""

MOST: Final = 1_000
"""Most uploads considered in one search."""


def drop_leftovers(repository: Repository) -> int:
    """Abort abandoned uploads in a repository's namespace, unless this was done within a day.

    Errors of the store are ignored, because the next search may succeed.

    Returns:
        The number of aborted uploads.
    """
    uploads = uploads_of(repository.store)
    if uploads is None:
        return 0
    now = repository.lake.now()
    with repository.lake.kv.read() as txn:
        looked = transfers.looked_at(txn, repository.key)
    if looked is not None and now - looked < INTERVAL:
        return 0
    with repository.lake.kv.write() as txn:
        transfers.set_looked_at(txn, repository.key, now)
    try:
        return _drop(repository, uploads, now)
    except LakeError:
        return 0


def _drop(repository: Repository, uploads: Uploads, now: datetime) -> int:
    with repository.lake.kv.read() as txn:
        mine = {each.upload: each for each in transfers.iterate(txn, repository.key)}
    dropped = 0
    alive = set()
    for found in islice(uploads.iter_unfinished(DATA), MOST):
        if data_digest(found.key) is None:
            continue
        begun = mine.get(found.id)
        patience = INTERVAL if begun is None else PATIENCE
        if _is_left_over(uploads, found, now - patience):
            uploads.abort(found.key, found.id)
            dropped += 1
        else:
            alive.add(found.id)
    _forget(repository, [each for upload, each in mine.items() if upload not in alive], now)
    return dropped


def _is_left_over(uploads: Uploads, found: UnfinishedUpload, before: datetime) -> bool:
    if found.started_at > before:
        return False
    try:
        changed_at = uploads.changed_at(found.key, UploadId(found.id))
    except UploadNotFound:
        return False
    return changed_at is None or changed_at <= before


def _forget(
    repository: Repository, gone: list[transfers.UnfinishedTransfer], now: datetime
) -> None:
    """Forget uploads that the store does not list; a young one may not be listed yet."""
    old = [each.digest for each in gone if now - each.started_at > PATIENCE]
    if old:
        with repository.lake.kv.write() as txn:
            for digest in old:
                transfers.delete(txn, repository.key, digest)
