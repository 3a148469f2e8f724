"""RSA signatures by several processes, since one interpreter does not keep many processors busy.

The first process is a new program, not a fork: it shares no lock, file or memory with this one, so
a program with threads may start it. The others are its forks, which saves what they would load.
The key comes through a pipe. A process ends when its pipe is closed, also if this one is killed.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import termios
from contextlib import suppress
from struct import Struct

from lakecli.named_tuple import NamedTuple
from lakecli.objectstore import rsa
from lakecli.typed import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakecli.objectstore.rsa import PrivateKey

MOST: Final = 8
"""Processes; each takes 15 MB."""

BATCH: Final = rsa.AT_ONCE
"""Digests in a batch, at most."""

BATCHES_AHEAD: Final = 56
"""Batches that are sent to a process before its first answer, at most. Fewer if its pipe does not
hold them, since sending must never wait for a process that waits for its answers to be read."""

BATCHES_LATER: Final = 6
"""Batches for each process that are not answered after that, at most: if they were many, one could
have less to do at the end than another."""

_PIPE_SIZE: Final = 16 << 10
"""Bytes that a pipe holds where the system does not say how many."""

_PAGE_SIZE: Final = 4 << 10
"""Bytes of a pipe that may be free and cannot be used."""

_INT: Final = Struct("i")
_SIGNATURE_SIZES: Final = range(64, 2_049)
_LINE_SIZE: Final = 8


class Ticket(NamedTuple):
    """A batch that was sent.

    Attributes:
        worker: who signs it; ``None`` if none could take it.
        size: number of its digests.
    """

    worker: _Worker | None
    size: int


class RsaProcesses:
    """Signs batches of digests in other processes; use it as a context manager, in one thread.

    Where a process fails, the caller signs, and finds out what is wrong.

    Args:
        key: signs.
        count: of processes, from 1 to `MOST`.

    Attributes:
        pid: of the first process, whose children the others are; 0 if it could not be started.
        workers: the processes that have not failed.
    """

    def __init__(self, key: PrivateKey, count: int) -> None:
        self.pid = 0
        self.workers: list[_Worker] = []
        theirs: list[int] = []
        try:
            with suppress(OSError):
                for _ in range(max(1, min(count, MOST))):
                    theirs += self._connect()
                self.pid = _start(theirs)
                self.workers[0].write(rsa.head_of(key))
        except BaseException:
            self.close()
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        if not self.pid:
            self.close()
            self.workers.clear()

    def _connect(self) -> tuple[int, int]:
        """Add a worker, and return the ends of its pipes: to read from, and to write to."""
        reading, to = os.pipe()
        try:
            of, answering = os.pipe()
        except OSError:
            os.close(reading)
            os.close(to)
            raise
        self.workers.append(_Worker(to, of))
        return reading, answering

    def __enter__(self) -> Self:
        """Return the processes themselves."""
        return self

    def __exit__(self, *_: object) -> None:
        """End them."""
        self.close()

    def end(self) -> None:
        """End the processes; `close` still has to wait for them."""
        for worker in self.workers:
            worker.close()

    def close(self) -> None:
        """End the processes, and wait until they have ended."""
        self.end()
        if self.pid:
            with suppress(ChildProcessError):  # the program has waited for it elsewhere
                os.waitpid(self.pid, 0)

    @property
    def ahead(self) -> int:
        """How many batches may be sent and not received; `send` takes no more."""
        room = sum(worker.room for worker in self.workers)
        if any(worker.has_answered for worker in self.workers):
            return min(room, BATCHES_LATER * len(self.workers))
        return room

    def send(self, digests: Sequence[bytes]) -> Ticket:
        """Send a batch of at most `BATCH` digests to the process that has the least to do."""
        while self.workers:
            free = [worker for worker in self.workers if worker.waiting < worker.room]
            if not free:
                break
            worker = min(free, key=_Worker.backlog)
            if worker.send(digests):
                return Ticket(worker, len(digests))
            self._drop(worker)
        return Ticket(None, len(digests))

    def receive(self, ticket: Ticket) -> list[bytes] | None:
        """Return the signatures of a batch, or ``None`` if no process made them.

        Batches are received in the order in which they were sent.
        """
        worker = ticket.worker
        if worker is None:
            return None
        signatures = worker.receive(ticket.size)
        if signatures is None and worker in self.workers:
            self._drop(worker)
        return signatures

    def _drop(self, worker: _Worker) -> None:
        self.workers.remove(worker)
        worker.close()


def _start(theirs: Sequence[int]) -> int:
    """Start the program, which has a process for every two descriptors, and return its number.

    Descriptors keep their distance from those of this process, so none replaces another.
    """
    first, further = theirs[:2], theirs[2:]
    above = max(theirs) + 1
    numbers = range(above, above + len(further))
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", rsa.__file__, *map(str, numbers)],
        os.environ,
        file_actions=[
            *((os.POSIX_SPAWN_DUP2, *pair) for pair in zip(further, numbers, strict=True)),
            *((os.POSIX_SPAWN_DUP2, *pair) for pair in zip(first, (0, 1), strict=True)),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ],
        # The terminal sends Ctrl-C to all its processes; this one ends the others.
        setsigmask=[signal.SIGINT],
    )


def _batches_in(pipe: int) -> int:
    """Return how many batches a pipe holds for certain, at least 1 and at most `BATCHES_AHEAD`."""
    size = _PIPE_SIZE
    if hasattr(fcntl, "F_GETPIPE_SZ"):
        size = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
    return max(1, min((size - _PAGE_SIZE) // (BATCH * rsa.DIGEST_SIZE), BATCHES_AHEAD))


class _Worker:
    """The pipes of one process.

    Args:
        to: descriptor that it reads the other end of.
        of: descriptor for its answers.

    Attributes:
        room: batches that it may have of which no answer was received.
        waiting: batches that it has.
    """

    def __init__(self, to: int, of: int) -> None:
        self.room = _batches_in(to)
        self.waiting = 0
        self._size = 0
        self._to = os.fdopen(to, "wb", buffering=0)
        self._of = os.fdopen(of, "rb")

    @property
    def has_answered(self) -> bool:
        """Whether an answer was received."""
        return bool(self._size)

    def backlog(self) -> tuple[int, int]:
        """Return the bytes in its pipe, as far as the system says, then the waiting batches.

        A process that shares its processor with this one takes longer. Its answers are received in
        the order of all, so how many are waiting does not show that.
        """
        try:
            size = fcntl.ioctl(self._to, termios.FIONREAD, b"\0" * _INT.size)
        except OSError:  # `send` finds out why
            return 0, self.waiting
        return _INT.unpack(size)[0], self.waiting

    def write(self, data: bytes) -> None:
        """Write what comes before digests.

        Raises:
            OSError: the process has ended.
        """
        while data:
            data = data[self._to.write(data) :]

    def send(self, digests: Sequence[bytes]) -> bool:
        """Send a batch, and return whether that succeeded."""
        try:
            self._to.write(b"".join(digests))
        except OSError:
            return False
        self.waiting += 1
        return True

    def receive(self, count: int) -> list[bytes] | None:
        """Return the signatures of a batch, or ``None`` if the process has failed."""
        self.waiting -= 1
        try:
            size = self._size = self._size or self._read_size()
            found = self._of.read(count * size)
        except (OSError, ValueError):
            return None
        if len(found) != count * size or not found:
            return None
        return [found[at : at + size] for at in range(0, len(found), size)]

    def _read_size(self) -> int:
        size = int(self._of.readline(_LINE_SIZE))
        if size not in _SIGNATURE_SIZES:
            raise ValueError("not the size of a signature")
        return size

    def close(self) -> None:
        """Close the pipes, which ends the process."""
        for pipe in (self._to, self._of):
            with suppress(OSError):
                pipe.close()
