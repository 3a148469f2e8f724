"""Add the signatures that URLs still lack, by threads or processes, in the order of the URLs.

A URL takes 10 µs, its signature by RSA 215. So this thread makes the URLs, and others sign:

- With a key of this machine, processes that know nothing but the key and digests, if the caller
  allows them. Threads would wait for each other's interpreter. Where the storage namespace tells
  that there is such a key, they start before all else is loaded.
- Otherwise threads. OpenSSL and requests to Google's IAM release the interpreter lock.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from itertools import chain, islice, starmap

from lakecli.errors import LakeError
from lakecli.typed import TYPE_CHECKING, Final, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future, ThreadPoolExecutor

    from lakecli.model import Entry
    from lakecli.objectstore.presigned import PresignedUrl, UrlSigner
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


class Helpers:
    """Processes that sign with a key of this machine; use it as a context manager, in one thread.

    Args:
        count: of processes, at most.
        namespace: of most objects; if a key of this machine signs its URLs, processes start now.

    Attributes:
        started: the key and the processes that sign with it, once they have started.
    """

    def __init__(self, count: int = 0, namespace: str = "") -> None:
        self.started: tuple[PrivateKey, RsaProcesses] | None = None
        self._count = count
        if count and namespace:
            from lakecli.objectstore.signing_key import signing_key

            key = signing_key(namespace)
            if key is not None:
                self.start(key)

    @property
    def wait(self) -> bool:
        """Whether processes may be started, and have not."""
        return self._count > 0 and self.started is None

    def start(self, key: PrivateKey) -> None:
        """Start the processes."""
        from lakecli.objectstore.rsa_processes import RsaProcesses

        self.started = key, RsaProcesses(key, self._count)

    def __enter__(self) -> Self:
        """Return the helpers themselves."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes."""
        if self.started is not None:
            self.started[1].close()


@contextmanager
def in_order(
    records: Iterator[tuple[bytes, bytes]],
    prepare: Callable[[bytes, bytes], Item],
    helpers: Helpers,
) -> Iterator[Iterator[Item]]:
    """Return items in the order of their records, with whole URLs or failures.

    Args:
        records: a path and a value each.
        prepare: returns the item of a record, whose URL may lack its signature.
        helpers: sign if they have started, or start if there are many URLs and one needs them.
    """
    first = list(islice(records, WORTH_PROCESSES)) if helpers.wait else []
    items: Iterator[Item] = starmap(prepare, chain(first, records))
    if first and len(first) == WORTH_PROCESSES:
        ahead = list(islice(items, BATCH))
        items = chain(ahead, items)
        unsigned = _unsigned_of(ahead)
        if unsigned and unsigned[0][0].key is not None:
            helpers.start(unsigned[0][0].key)
    del first
    if helpers.started is None:
        with _Threads() as threads:
            yield _signed(items, threads)
    else:
        signed = _signed(items, _Processes(*helpers.started))
        # Until there is a first, all get as much to do as they take.
        yield chain(list(islice(signed, 1)), signed)


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
    def __init__(self, key: PrivateKey, processes: RsaProcesses) -> None:
        from hashlib import sha256

        self._key = key
        self._signer: UrlSigner | None = None
        self._processes = processes
        self._hash = sha256

    @property
    def ahead(self) -> int:
        return self._processes.ahead

    def next_size(self) -> int:
        return BATCH

    def send(self, unsigned: Sequence[Unsigned]) -> _Sent:
        digests = [
            self._hash(text).digest()
            for signer, text in unsigned
            if signer is self._signer or self._has_key(signer)
        ]
        if len(digests) != len(unsigned):
            return _SentNowhere(unsigned)
        return _SentToProcess(self._processes, self._processes.send(digests), unsigned)

    def _has_key(self, signer: UrlSigner) -> bool:
        if signer.key == self._key:
            self._signer = signer
        return signer is self._signer

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
