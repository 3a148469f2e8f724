"""Add the signatures that URLs still lack, by threads or processes, in the order of the URLs.

A URL takes 10 µs, its signature by RSA 215. So this thread makes the URLs, and others sign:

- With a key of this machine, processes that know nothing but the key and digests, if the caller
  allows them and there are many URLs. Threads would wait for each other's interpreter.
- Otherwise threads. OpenSSL and requests to Google's IAM release the interpreter lock.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from hashlib import sha256
from itertools import chain, islice, starmap
from typing import TYPE_CHECKING, Final, Protocol, Self

from lakecli.errors import LakeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future, ThreadPoolExecutor

    from lakecli.model import Entry
    from lakecli.objectstore.base import PresignedUrl, UrlSigner
    from lakecli.objectstore.rsa import PrivateKey
    from lakecli.objectstore.rsa_processes import RsaProcesses, Ticket

    Item = tuple[bytes, Entry, PresignedUrl | LakeError]
    Unsigned = tuple[UrlSigner, bytes]
    Signatures = Sequence[bytes | LakeError]

THREADS: Final = 8
"""Threads that sign."""

BATCH: Final = 32
"""URLs that one thread or process signs at once, at most; threads begin with one each."""

WORTH_PROCESSES: Final = 500
"""Objects that are worth the start of processes, which takes 0.06 s of a processor."""


@contextmanager
def in_order(
    records: Iterator[tuple[bytes, bytes]],
    prepare: Callable[[bytes, bytes], Item],
    processes: int,
) -> Iterator[Iterator[Item]]:
    """Return items in the order of their records, with whole URLs or failures.

    Processes are started at once, and do not wait until the first item is consumed.

    Args:
        records: a path and a value each.
        prepare: returns the item of a record, whose URL may lack its signature.
        processes: that may be started, at most.
    """
    first = list(islice(records, WORTH_PROCESSES)) if processes else []
    if len(first) < WORTH_PROCESSES:
        processes = 0
    items = starmap(prepare, chain(first, records))
    del first
    ahead = list(islice(items, BATCH)) if processes else []
    with _signers(_unsigned_of(ahead), processes) as signers:
        yield _signed(chain(ahead, items), signers)


def _signed(items: Iterator[Item], signers: _Signers) -> Iterator[Item]:
    waiting: deque[tuple[list[Item], _Sent | None]] = deque()
    while batch := list(islice(items, signers.next_size())):
        while waiting and (len(waiting) >= signers.ahead or waiting[0][1] is None):
            yield from _whole(*waiting.popleft())
        unsigned = _unsigned_of(batch)
        waiting.append((batch, signers.send(unsigned) if unsigned else None))
    while waiting:
        yield from _whole(*waiting.popleft())
    signers.end()


def _unsigned_of(items: Sequence[Item]) -> list[Unsigned]:
    return [
        url.unsigned
        for _, _, url in items
        if not isinstance(url, LakeError) and url.unsigned is not None
    ]


def _whole(items: Sequence[Item], sent: _Sent | None) -> Iterator[Item]:
    if sent is None:
        yield from items
        return
    signatures = iter(sent.receive())
    for item in items:
        path, entry, url = item
        if isinstance(url, LakeError) or url.unsigned is None:
            yield item
            continue
        signature = next(signatures)
        if isinstance(signature, LakeError):
            yield path, entry, signature
        else:
            yield path, entry, url.signed(signature)


def _sign(unsigned: Sequence[Unsigned]) -> Signatures:
    signatures: list[bytes | LakeError] = []
    for signer, text in unsigned:
        try:
            signatures.append(signer.sign(text))
        except LakeError as error:
            signatures.append(error)
    return signatures


class _Sent(Protocol):
    """A batch that is being signed."""

    def receive(self) -> Signatures:
        """Return its signatures, or why there are none; batches are received in order."""


class _Signers(Protocol):
    """Threads or processes that sign.

    Attributes:
        ahead: batches that they may have at a time.
    """

    @property
    def ahead(self) -> int: ...

    def next_size(self) -> int:
        """Return the size of the next batch."""

    def send(self, unsigned: Sequence[Unsigned]) -> _Sent:
        """Have a batch signed."""

    def end(self) -> None:
        """Tell that nothing else is sent, nor received."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def _signers(first: Sequence[Unsigned], processes: int) -> _Signers:
    """Return processes if they may be started, and can sign the first URL that needs it."""
    key = first[0][0].key if first else None
    if key is None or not processes:
        return _Threads()
    return _Processes(key, processes)


class _Threads:
    ahead = 2 * THREADS

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._batches = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def next_size(self) -> int:
        self._batches += 1
        return min(-(-self._batches // THREADS), BATCH)

    def send(self, unsigned: Sequence[Unsigned]) -> _Sent:
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(THREADS)
        return _SentToThread(self._pool.submit(_sign, unsigned))

    def end(self) -> None:
        pass


class _SentToThread:
    def __init__(self, future: Future[Signatures]) -> None:
        self.receive = future.result


class _Processes:
    def __init__(self, key: PrivateKey, processes: int) -> None:
        from lakecli.objectstore.rsa_processes import RsaProcesses

        self._key = key
        self._processes = RsaProcesses(key, processes)

    @property
    def ahead(self) -> int:
        return self._processes.ahead

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.close()

    def next_size(self) -> int:
        return BATCH

    def send(self, unsigned: Sequence[Unsigned]) -> _Sent:
        key = self._key
        digests = [
            sha256(text).digest()
            for signer, text in unsigned
            if signer.key is key or signer.key == key
        ]
        if len(digests) != len(unsigned):
            return _SentNowhere(unsigned)
        return _SentToProcess(self._processes, self._processes.send(digests), unsigned)

    def end(self) -> None:
        self._processes.end()


class _SentToProcess:
    def __init__(
        self, processes: RsaProcesses, ticket: Ticket, unsigned: Sequence[Unsigned]
    ) -> None:
        self._processes = processes
        self._ticket = ticket
        self._unsigned = unsigned

    def receive(self) -> Signatures:
        """Return its signatures, made here if the process has failed."""
        return self._processes.receive(self._ticket) or _sign(self._unsigned)


class _SentNowhere:
    """A batch that the processes cannot sign, since not all of it is for their key."""

    def __init__(self, unsigned: Sequence[Unsigned]) -> None:
        self._unsigned = unsigned

    def receive(self) -> Signatures:
        return _sign(self._unsigned)
