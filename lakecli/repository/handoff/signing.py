"""Add the signatures that URLs still lack, by threads, in the order of the URLs.

A URL of Google Cloud Storage takes 10 µs, its signature by RSA 200, or a request to Google's IAM.
So one thread makes the URLs and others sign them: OpenSSL and requests release the interpreter
lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice, starmap
from typing import TYPE_CHECKING, Final

from lakecli.base.model import Entry
from lakecli.errors import LakeError
from lakecli.stores.presigned import PresignedUrl

if TYPE_CHECKING:
    from concurrent.futures import Future

Item = tuple[bytes, Entry, PresignedUrl | LakeError]
"""A path, its entry, and its URL or why there is none."""

THREADS: Final = 8
"""Threads that sign."""

BATCH: Final = 32
"""URLs that a thread signs at once, at most; threads begin with one each."""


@contextmanager
def in_order(
    records: Iterator[tuple[bytes, bytes]], prepare: Callable[[bytes, bytes], Item]
) -> Iterator[Iterator[Item]]:
    """Return items in the order of their records, with whole URLs or failures.

    Args:
        records: a path and a value each.
        prepare: returns the item of a record, whose URL may lack its signature.
    """
    pool = ThreadPoolExecutor(THREADS)
    try:
        yield _signed(starmap(prepare, records), pool)
    finally:
        pool.shutdown(cancel_futures=True)


def _signed(items: Iterator[Item], pool: ThreadPoolExecutor) -> Iterator[Item]:
    waiting: deque[list[Item] | Future[list[Item]]] = deque()
    batches = 0
    while batch := list(islice(items, min(1 + batches // THREADS, BATCH))):
        batches += 1
        waiting.append(pool.submit(_sign, batch) if _lacks_signature(batch) else batch)
        while waiting and (len(waiting) > 2 * THREADS or isinstance(waiting[0], list)):
            yield from _whole(waiting.popleft())
    while waiting:
        yield from _whole(waiting.popleft())


def _whole(batch: list[Item] | Future[list[Item]]) -> list[Item]:
    return batch if isinstance(batch, list) else batch.result()


def _lacks_signature(items: Sequence[Item]) -> bool:
    return any(isinstance(url, PresignedUrl) and url.unsigned is not None for _, _, url in items)


def _sign(items: Sequence[Item]) -> list[Item]:
    """Return items with whole URLs; a URL that cannot be signed is replaced by its failure."""
    signed: list[Item] = []
    for path, entry, url in items:
        if isinstance(url, PresignedUrl) and url.unsigned is not None:
            sign, text = url.unsigned
            try:
                signed.append((path, entry, url.signed(sign(text))))
            except LakeError as error:
                signed.append((path, entry, error))
        else:
            signed.append((path, entry, url))
    return signed
