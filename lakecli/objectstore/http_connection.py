"""One connection to a server of HTTP: sends requests, and receives the bytes of answers.

Each call of the system lets another thread run, which then runs for as long as it likes. So there
are few: the kernel itself keeps the time limit, where Python would ask before each call whether the
connection is ready, and it waits for all of a body at once.
"""

from __future__ import annotations

import select
import socket
from array import array

from lakecli.objectstore.http_answer import PIECE
from lakecli.typed import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

SMALL: Final = 256 << 10
"""Bodies up to here are sent with their head."""


class Connection:
    """One connection, used by one thread at a time.

    Args:
        stream: connected, by TCP or by TLS.
        timeout: seconds without a sign of life, after which sending and receiving fail.

    Attributes:
        stream: as given.
        has_answered: bytes have come since this was set to false.
    """

    def __init__(self, stream: socket.socket, timeout: float) -> None:
        self.stream = stream
        self.has_answered = False
        self._poll = select.poll()
        self._poll.register(stream, select.POLLIN)
        self._pending: Callable[[], int] = getattr(stream, "pending", int)  # what TLS has read
        self._is_plain = not hasattr(stream, "pending")
        if self._is_plain:
            stream.settimeout(None)
            limit = array("l", (int(timeout), int(timeout % 1 * 1_000_000)))
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                stream.setsockopt(socket.SOL_SOCKET, option, limit)
        else:
            stream.settimeout(timeout)

    def is_silent(self) -> bool:
        """Return whether the server has neither closed the connection nor sent anything."""
        return not self._poll.poll(0) and not self._pending()

    def send(self, head: bytes, body: bytes) -> bool:
        """Send a request; return whether the server took it to its end.

        A server may refuse a request without reading its body, and the refusal is there to be read.

        Raises:
            TimeoutError: the server took nothing for too long.
        """
        try:
            if len(body) <= SMALL:
                self._send_together(head, body)
            else:
                self.stream.sendall(head)
                for start in range(0, len(body), PIECE):  # each has the time limit for itself
                    self.stream.sendall(memoryview(body)[start : start + PIECE])
        except TimeoutError:
            raise
        except BlockingIOError:
            raise TimeoutError("timed out") from None
        except OSError:
            return False
        return True

    def _send_together(self, head: bytes, body: bytes) -> None:
        if not body:
            self.stream.sendall(head)
        elif not self._is_plain:
            self.stream.sendall(head + body)
        else:
            sent = self.stream.sendmsg((head, body))
            if sent < len(head) + len(body):
                self.stream.sendall((head + body)[sent:])

    def receive(self, size: int) -> bytes:
        """Return at least one byte and at most `size`; none at the end of the connection.

        Raises:
            TimeoutError: nothing came for too long.
        """
        return self._received(size, 0)

    def fill(self, size: int) -> bytes:
        """Return what `receive` does, but wait for `size` bytes if the kernel can do that."""
        return self._received(size, socket.MSG_WAITALL if self._is_plain else 0)

    def _received(self, size: int, flags: int) -> bytes:
        try:
            data = self.stream.recv(min(size, PIECE), flags)
        except BlockingIOError:
            raise TimeoutError("timed out") from None
        self.has_answered = self.has_answered or bool(data)
        return data
