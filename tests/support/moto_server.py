"""moto's S3 with serialised writes: moto alone checks a condition some time before it writes.

python tests/support/moto_server.py PORT
"""

from __future__ import annotations

import os
import sys
from threading import Lock
from typing import TYPE_CHECKING, Any

from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import run_simple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

READING = ("GET", "HEAD")


class OneWriter:
    """A WSGI application that handles one writing request at a time."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application
        self._writing = Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer one request."""
        if environ["REQUEST_METHOD"] in READING:
            return self._application(environ, start_response)
        with self._writing:
            return self._application(environ, start_response)


def main(port: int) -> None:
    """Serve until killed."""
    os.environ["MOTO_PORT"] = str(port)
    application = DomainDispatcherApplication(create_backend_app)
    run_simple(
        "127.0.0.1", port, OneWriter(application), threaded=True, request_handler=MotoRequestHandler
    )


if __name__ == "__main__":
    main(int(sys.argv[1]))
