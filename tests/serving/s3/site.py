"""An endpoint of S3 in this process: requests pass through all of it but sockets."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lakecli.repository import commit, repo
from lakecli.serving.access import EndpointAccess
from lakecli.serving.app import make_app
from lakecli.serving.context import Options, ServingContext
from lakecli.serving.served import Opening, Served
from tests.serving.s3_wire import Answer, Keys, encode, now, query_of, sign
from tests.support import lakes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lakecli.repository.contract import Repository

KEYS = Keys("KEY", "secret")
HOST = "127.0.0.1:8000"
SECOND = 64 << 10
"""The most bytes of a body in one message of the server."""


class Site:
    """A lake that is served, with the repository demo in a directory or in memory.

    Attributes:
        errors: mistakes of the endpoint itself; a test ends with none.
    """

    def __init__(
        self, directory: Path, *, namespace: str = "", options: Options | None = None, **how: Any
    ) -> None:
        self.lake = lakes.open_lake(directory, clock=_clock)
        self.make("demo", namespace or str(directory / "namespace"))
        opening = Opening(
            repository=self.lake.repository,
            namespace=lambda _uri: (_ for _ in ()).throw(AssertionError),
            mover=lambda _repository: None,
            catch_up=lambda _repository: None,
            notify=lambda _notice: None,
        )
        self.served = Served(self.lake, opening, **how)
        self.errors: list[BaseException] = []
        given = options or Options()
        self.context = ServingContext(
            self.served,
            EndpointAccess(*KEYS[:2]),
            now,
            given._replace(hosts=frozenset({"127.0.0.1"})),
        )
        self._app = make_app(self.context, report=self.errors.append)
        self._loop = asyncio.Runner()

    def make(self, name: str, namespace: str, *, range_entries: int = 16) -> Repository:
        """Make another repository."""
        return repo.create(self.lake, name, namespace, range_entries=range_entries)

    @property
    def demo(self) -> Repository:
        """The repository."""
        return self.served.repository("demo")

    def commit(self, branch: str = "main") -> str:
        """Commit what is staged on a branch; return the commit's ID."""
        return commit.commit(self.demo, branch, message="test", committer="tester").id

    def close(self) -> None:
        """End all threads, and check that nothing unexpected happened."""
        self.context.threads.shutdown()
        self._loop.close()
        self.lake.close()
        assert not self.errors, self.errors

    def __call__(
        self,
        method: str,
        key: str | None = None,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        bucket: str = "demo",
        path: str = "",
        ends_after: int | None = None,
        **query: str,
    ) -> Answer:
        """Send a request and return its answer.

        Args:
            key: the key, which begins with a ref; ``None``: the bucket.
            path: the whole path, percent-encoded, in place of bucket and key.
            ends_after: the bytes of the body after which the client goes away.
            query: parameters; an underscore stands for a dash.
        """
        target = path or f"/{bucket}" + ("" if key is None else f"/{encode(key, safe='/')}")
        parameters = {
            name.replace("__", "\0").replace("_", "-").replace("\0", "_"): text
            for name, text in query.items()
        }
        written = query_of(parameters)
        payload = hashlib.sha256(body).hexdigest()
        sent, _ = sign(KEYS, method, HOST, target, written, headers, payload=payload)
        fields = {"content-length": str(len(body)), "user-agent": "test/1"} | {
            name.lower(): text for name, text in sent.items()
        }
        scope = {
            "type": "http",
            "method": method,
            "path": unquote(target),
            "raw_path": target.encode(),
            "query_string": written.encode(),
            "headers": [(name.encode(), text.encode()) for name, text in fields.items()],
            "server": ("127.0.0.1", 8000),
            "scheme": "http",
            "http_version": "1.1",
        }
        arriving = body if ends_after is None else body[:ends_after]
        return self._loop.run(self._answer(scope, arriving, goes_away=ends_after is not None))

    async def _answer(self, scope: dict[str, Any], body: bytes, *, goes_away: bool) -> Answer:
        pieces = [body[at : at + SECOND] for at in range(0, len(body), SECOND)] or [b""]
        messages: list[dict[str, Any]] = [
            {"type": "http.request", "body": piece, "more_body": True} for piece in pieces
        ]
        if goes_away:
            messages.append({"type": "http.disconnect"})
        else:
            messages[-1]["more_body"] = False

        async def receive() -> Any:
            if messages:
                return messages.pop(0)
            return await asyncio.Event().wait()

        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        if not sent:
            return Answer(0, {}, b"")
        start, *rest = sent
        found = {name.decode(): text.decode("latin-1") for name, text in start["headers"]}
        return Answer(start["status"], found, b"".join(each.get("body", b"") for each in rest))

    def put(self, key: str, body: bytes = b"x", **headers: str) -> str:
        """Write an object; return its ETag."""
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        answer = self("PUT", key, body, named)
        assert answer.status == 200, answer
        return answer.headers["etag"]

    def keys(self, *, bucket: str = "demo", **query: Any) -> list[str]:
        """Return all keys and common prefixes of a listing, page by page."""
        found: list[str] = []
        token: dict[str, Any] = {}
        while True:
            answer = self("GET", bucket=bucket, list_type="2", **query, **token)
            assert answer.status == 200, answer
            own = answer.texts("Contents/Key") + answer.texts("CommonPrefixes/Prefix")
            assert answer.texts("KeyCount") == [str(len(own))]
            found += own
            if answer.texts("IsTruncated") == ["false"]:
                return found
            token = {"continuation_token": answer.texts("NextContinuationToken")[0]}


def _clock() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - signatures have the present time
