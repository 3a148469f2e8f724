"""Requests signed as the AWS SDK signs them, and the chunks that other clients sign."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from hmac import digest
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from lakecli.serving.s3.signature import Signed, verify

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SECRETS = {"LAKE": "secret/with+slash"}
REGION = "us-east-1"
ENDPOINT = "http://127.0.0.1:8000"
EMPTY = sha256().hexdigest()


class Request(NamedTuple):
    """A signed request as an ASGI server has it, and the moment of its signature."""

    method: str
    path: bytes
    query: bytes
    headers: list[tuple[bytes, bytes]]
    now: datetime

    def verified(self, *, now: datetime | None = None) -> Signed:
        return verify(
            self.method,
            self.path,
            self.query,
            self.headers,
            secret_of=SECRETS.get,
            now=now or self.now,
        )

    def having(self, name: str, value: str | None) -> Request:
        """Return the request with another value of a header, or without it."""
        kept = [pair for pair in self.headers if pair[0] != name.encode()]
        added = [] if value is None else [(name.encode(), value.encode())]
        return self._replace(headers=kept + added)

    def header(self, name: str) -> str:
        return dict(self.headers)[name.encode()].decode()


def by_sdk(
    method: str = "GET",
    target: str = "/sales/main/a.csv",
    headers: Mapping[str, str] | None = None,
    *,
    payload: str = EMPTY,
    access_key: str = "LAKE",
    secret: str = SECRETS["LAKE"],
    region: str = REGION,
) -> Request:
    """Return a request signed in its headers."""

    class Signer(S3SigV4Auth):  # type: ignore[misc]
        def payload(self, _request: object) -> str:
            return payload

    made = AWSRequest(method, ENDPOINT + target, headers=dict(headers or {}))
    Signer(Credentials(access_key, secret), "s3", region).add_auth(made)
    return _received(method, made.url, made.headers.items(), made.context["timestamp"])


def by_url(
    method: str = "GET",
    target: str = "/sales/main/a.csv",
    headers: Mapping[str, str] | None = None,
    *,
    expires: int = 600,
) -> Request:
    """Return a request with a presigned URL."""
    made = AWSRequest(method, ENDPOINT + target, headers=dict(headers or {}))
    credentials = Credentials("LAKE", SECRETS["LAKE"])
    S3SigV4QueryAuth(credentials, "s3", REGION, expires).add_auth(made)
    return _received(method, made.url, made.headers.items(), made.context["timestamp"])


def _received(method: str, url: str, headers: Sequence[tuple[str, str]], timestamp: str) -> Request:
    parts = urlsplit(url)
    sent = [("host", parts.netloc), *headers]
    return Request(
        method,
        parts.path.encode(),
        parts.query.encode(),
        [(name.lower().encode(), value.encode()) for name, value in sent],
        datetime.strptime(timestamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC),
    )


def chunked(
    data: bytes,
    size: int,
    *,
    signed: Signed | None = None,
    trailers: Mapping[str, str] | None = None,
    end: bytes = b"\r\n",
) -> bytes:
    """Return a body in chunks, as Amazon documents it.

    Args:
        signed: the request whose signature those of the chunks follow; ``None``: not signed.
        end: what follows the last line.
    """
    body = b""
    last = signed.seed if signed else ""
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    for piece in [*pieces, b""]:
        line = f"{len(piece):x}"
        if signed:
            last = _next(signed, last, "PAYLOAD", f"{EMPTY}\n{sha256(piece).hexdigest()}")
            line += f";chunk-signature={last}"
        body += f"{line}\r\n".encode() + piece + (b"\r\n" if piece else b"")
    for name, value in (trailers or {}).items():
        body += f"{name}:{value}\r\n".encode()
    if signed and trailers:
        written = "".join(f"{name}:{value}\n" for name, value in trailers.items())
        last = _next(signed, last, "TRAILER", sha256(written.encode()).hexdigest())
        body += f"x-amz-trailer-signature:{last}\r\n".encode()
    return body + end


def _next(signed: Signed, last: str, kind: str, rest: str) -> str:
    text = f"AWS4-HMAC-SHA256-{kind}\n{signed.date}\n{signed.scope}\n{last}\n{rest}"
    return digest(signed.key, text.encode(), "sha256").hex()
