"""The machine of a partner: a shell with curl, and a server of objects.

`FileServer` answers like a bucket, and can be told to misbehave.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote_to_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TOOLS = (
    *("cat", "chmod", "curl", "date", "expr", "find", "mkdir", "mv", "rm", "rmdir", "sleep"),
    *("uname", "wc"),
)
"""Programs that the shell scripts need."""

SENDING_TOOLS = ("grep", "head", "sed", "sha256sum", "tail")
"""Programs that only the script that sends files needs."""


class FileServer:
    """Serves objects by key over HTTP, each with the faults that a test sets.

    Attributes:
        objects: by key, without the slash that paths begin with.
        has_ranges: answer ranges, instead of everything again.
        statuses: what to answer instead, by key.
        answers: the body of an answer in `statuses`, by key.
        etags: what the ETag header says, by key.
        cuts: how often to cut an answer off in the middle, by key.
        requests: (key, Range header or ``""``), as they came.
        decoded: what to send instead to clients that do not accept gzip, as Google does, by key.
        gate: where set, what every answer waits for after its first byte.
    """

    def __init__(self, objects: Mapping[bytes, bytes]) -> None:
        self.objects = dict(objects)
        self.has_ranges = True
        self.statuses: dict[bytes, int] = {}
        self.answers: dict[bytes, bytes] = {}
        self.etags: dict[bytes, str] = {}
        self.cuts: dict[bytes, int] = {}
        self.requests: list[tuple[bytes, str]] = []
        self.decoded: dict[bytes, bytes] = {}
        self.gate: threading.Event | None = None
        self.lock = threading.Lock()
        served = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                served.answer(self)

            def do_PUT(self) -> None:
                served.take(self)

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def url(self, key: bytes) -> str:
        """Return the URL of an object, with a query as signed ones have."""
        path = "".join(f"%{byte:02x}" for byte in key)
        port = self._server.server_address[1]
        return f"http://127.0.0.1:{port}/{path}?X-Signature=a%2Fb&x=1"

    def asked(self, key: bytes) -> list[str]:
        """Return the requested ranges of an object."""
        return [asked for found, asked in self.requests if found == key]

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        key = unquote_to_bytes(handler.path.partition("?")[0][1:])
        wanted = handler.headers.get("Range", "")
        with self.lock:
            self.requests.append((key, wanted))
            body = self.objects.get(key, b"")
            if "gzip" not in handler.headers.get("Accept-Encoding", ""):
                body = self.decoded.get(key, body)
            status = self.statuses.get(key, 200 if key in self.objects else 404)
            cut = self.cuts.get(key, 0)
            self.cuts[key] = cut - 1
        if status != 200:
            body = self.answers.get(key, b"<Error>refused</Error>")
        elif wanted and self.has_ranges:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            status = 206 if start < len(body) else 416
            body = body[start:]
        handler.send_response(status)
        if status == 206:
            total = len(self.objects[key])
            handler.send_header("Content-Range", f"bytes {total - len(body)}-{total - 1}/{total}")
        if status == 416:
            handler.send_header("Content-Range", f"bytes */{len(self.objects[key])}")
        if key in self.etags:
            handler.send_header("ETag", f'"{self.etags[key]}"')
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if cut > 0:
            body = body[: len(body) // 2]
            handler.close_connection = True
        with suppress(OSError):  # the client may be gone
            if self.gate is not None:
                handler.wfile.write(body[:1])
                handler.wfile.flush()
                self.gate.wait(60)
                body = body[1:]
            handler.wfile.write(body)

    def take(self, handler: BaseHTTPRequestHandler) -> None:
        """Keep what is sent, unless another status is set; a status is used up."""
        key = unquote_to_bytes(handler.path.partition("?")[0][1:])
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        with self.lock:
            self.requests.append((key, "PUT"))
            status = self.statuses.pop(key, 200)
            if status == 200:
                self.objects[key] = body
        handler.send_response(status)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.gate is not None:
            self.gate.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@dataclass
class Partner:
    """A machine that runs a script, with an almost empty environment.

    Attributes:
        command: what is put before the script.
        place: an empty directory with nothing else beside it.
        path: of the programs that there are.
    """

    command: Sequence[str]
    place: Path
    path: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def directory(self) -> Path:
        """The directory of downloaded files."""
        return self.place / "files"

    def run(self, script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a script to its end."""
        with self.start(script, *arguments) as process:
            out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def start(self, script: Path, *arguments: str) -> subprocess.Popen[str]:
        """Start a script in a new session; a hang-up ends it even where `nohup` runs the tests."""
        before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
        try:
            return subprocess.Popen(
                [*self.command, str(script), *(arguments or ("files",))],
                cwd=self.place,
                env={"PATH": str(self.path), **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        finally:
            signal.signal(signal.SIGHUP, before)

    def files(self) -> dict[bytes, bytes]:
        """Return the contents of every downloaded file, by its relative name."""
        return {
            os.fsencode(os.path.relpath(path, self.directory)): path.read_bytes()
            for path in self.place.rglob("*")
            if path.is_file()
        }


def wait_for_end(group: int) -> bool:
    """Wait for all processes of a group to end; return whether they did."""
    deadline = time.monotonic() + 20
    while _is_alive(group):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _is_alive(group: int) -> bool:
    """Return whether a process of a group runs; a zombie does not."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, its_group = file.read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == group and state not in "ZX":
                return True
    return False


def link_tools(directory: Path, tools: Mapping[str, str | None]) -> Path:
    """Make a directory for PATH with only these programs."""
    directory.mkdir()
    for name, found in tools.items():
        assert found is not None, f"these tests need {name}"
        (directory / name).symlink_to(found)
    return directory


def shell_tools() -> dict[str, str | None]:
    """Return the paths of the programs that the shell script needs."""
    return {name: shutil.which(name) for name in TOOLS}


PYTHON = {"python3": sys.executable}
"""The program that verifies downloads where b3sum is missing."""
