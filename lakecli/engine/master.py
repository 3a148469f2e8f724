"""Check that a Spark master answers, and stop waiting for one that does not.

Spark itself takes a minute to give up on a master that nothing answers at.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import starmap
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

from lakecli.errors import Unreachable

if TYPE_CHECKING:
    import subprocess

TIMEOUT: Final = 8.0
"""Seconds for connections to all addresses of a master."""

POLL: Final = 0.3

SILENCE: Final = 10.0
"""Seconds without a word of the master, after which it is asked whether it speaks HTTP."""

_HINT: Final = "check the URL of the master (spark.master), and that this machine reaches it"
_HTTP: Final = b"HTTP/"
_PORT: Final = re.compile(r"(?P<host>.+):(?P<port>\d{1,5})")


def addresses_of(master: str) -> list[tuple[str, int]]:
    """Return the hosts and ports that a master's URL names; none for local ones and YARN."""
    scheme, found, rest = master.partition("://")
    if not found or scheme not in {"spark", "k8s"}:
        return []
    rest = rest.removeprefix("https://").removeprefix("http://").partition("/")[0]
    matches = [_PORT.fullmatch(address) for address in rest.split(",")]
    return [
        (found["host"].strip("[]"), int(found["port"])) for found in matches if found is not None
    ]


def check_master(master: str) -> None:
    """Connect to one of a master's addresses.

    Raises:
        Unreachable: no address accepts a connection.
    """
    addresses = addresses_of(master)
    reason = ""
    for host, port in addresses:
        try:
            socket.create_connection((host, port), TIMEOUT / len(addresses)).close()
        except (OSError, OverflowError) as error:
            reason = str(getattr(error, "strerror", None) or error)
        else:
            return
    if addresses:
        raise Unreachable(f"no Spark master answers at {master}: {reason}", hint=_HINT)


def speaks_http(host: str, port: int) -> bool:
    """Return whether what listens at an address answers a request of HTTP.

    A master of Spark takes the request for a message of its own that is too large, and closes the
    connection.
    """
    try:
        with socket.create_connection((host, port), TIMEOUT) as connection:
            connection.settimeout(TIMEOUT)
            connection.sendall(b"HEAD / HTTP/1.0\r\n\r\n")
            return connection.recv(len(_HTTP)) == _HTTP
    except (OSError, OverflowError):
        return False


@contextmanager
def ending_refused(
    process: subprocess.Popen[bytes] | None, log: Path, master: str
) -> Iterator[None]:
    """End Spark's Java process if its log says that every address refused it, or all speak HTTP.

    Raises:
        Unreachable: the process was ended.
    """
    addresses = addresses_of(master) if master.startswith("spark://") else []
    if process is None or not addresses:
        yield
        return
    over = threading.Event()
    refused = threading.Event()
    texts = [f"Failed to connect to master {host}:{port}" for host, port in addresses]

    def watch() -> None:
        asks_at = monotonic() + SILENCE
        while not over.wait(POLL):
            text = log.read_text(encoding="utf-8", errors="replace")
            is_refused = all(line in text for line in texts)
            if not is_refused and monotonic() > asks_at:
                asks_at = float("inf")
                is_refused = all(starmap(speaks_http, addresses))
            if is_refused:
                refused.set()
                process.kill()
                return

    watcher = threading.Thread(target=watch, name="spark-master", daemon=True)
    watcher.start()
    try:
        yield
    except Exception as error:
        if refused.is_set():
            raise Unreachable(
                f"what answers at {master} is no Spark master of this version", hint=_HINT
            ) from error
        raise
    finally:
        over.set()
        watcher.join()
