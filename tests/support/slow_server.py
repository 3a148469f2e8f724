"""A server that answers byte by byte, and ends by itself."""

from __future__ import annotations

import select
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, Self

if TYPE_CHECKING:
    from types import TracebackType

EVERY = 0.01
"""Seconds between two pieces of an answer."""

LONGEST = 10.0
"""Seconds after which an answer ends."""


class Drip(NamedTuple):
    """An answer.

    Attributes:
        beginning: sent at once.
        piece: sent again and again.
        times: how often; 0: for ever.
        end: sent after that; then nothing is.
    """

    beginning: bytes = b""
    piece: bytes = b""
    times: int = 0
    end: bytes = b""


_NOTHING: Final = Drip()


class SlowServer:
    """Answers each connection by a `Drip`, whatever it asks, until the client leaves.

    Attributes:
        drip: the answer.
        connections: how many there were.
        outlasted: how many answers the client took until they ended.
        url: of the server.
    """

    def __init__(self, drip: Drip = _NOTHING) -> None:
        self.drip = drip
        self.connections = self.outlasted = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._is_over = threading.Event()

    def asked(self, expected: int) -> int:
        """Return how many connections there were; wait for those that are about to be accepted."""
        end = time.monotonic() + LONGEST
        while self.connections < expected and time.monotonic() < end:
            time.sleep(EVERY)
        return self.connections

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                stream, _ = self._listener.accept()
                self.connections += 1
                thread = threading.Thread(target=self._serve, args=[stream, self.drip], daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, stream: socket.socket, drip: Drip) -> None:
        end = time.monotonic() + LONGEST
        with stream, suppress(OSError):
            stream.settimeout(LONGEST)
            if not stream.recv(1 << 16):
                return
            stream.sendall(drip.beginning)
            piece, left = drip.piece, drip.times
            while not self._is_over.is_set():
                if time.monotonic() > end:
                    self.outlasted += 1
                    return
                if select.select([stream], [], [], EVERY)[0] and not stream.recv(1 << 20):
                    return
                stream.sendall(piece)
                left -= 1
                if not left:
                    stream.sendall(drip.end)
                    piece = b""

    def __enter__(self) -> Self:
        """Start the server."""
        self._accepting.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the server."""
        self._is_over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in (self._accepting, *self._threads):
            thread.join()
