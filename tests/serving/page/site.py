"""A repository with something on every page, and requests for pages in this process."""

from __future__ import annotations

import asyncio
import base64
import io
import os
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from lakecli.repository import branch, tag
from lakecli.repository.commit import commit
from lakecli.repository.merge import MergeOptions, merge
from lakecli.serving.access import COOKIE, EndpointAccess
from lakecli.serving.app import make_app
from lakecli.serving.context import Options, ServingContext
from lakecli.serving.served import Opening, Served
from tests.support import lakes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lakecli.repository.contract import Repository
    from lakecli.repository.handle.lake import Lake

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAYAAACNMs+9AAAAFUlEQVR42mNk+M9Qz0AEYBxVSF+FABJADveWkH6oAAAA"
    "AElFTkSuQmCC"
)
HOSTILE = (
    b"x/<script>alert(1)</script>",
    b'x/"onmouseover="alert(1)',
    b"x/../../etc/passwd",
    b"x/%2e%2e/%00",
    b"x/a\nb\tc\x1b[31m",
    b"x/\xff\xfe not utf-8",
    b"x/" + "\u202etxt.exe".encode(),
    b"x/ ",
    b"x/?ref=main&path=y#z+",
    b"x/'{{ 7*7 }}",
    b"x//double",
    b"x/back\\slash",
    b"x/" + b"\xc3\xa9" * 500,
)


def served(lake: Lake) -> Served:
    """Return the repositories of a lake, without sharing."""
    opening = Opening(
        repository=lake.repository,
        namespace=lake.repository,
        mover=lambda _repository: None,
        catch_up=lambda _repository: None,
        notify=lambda _notice: None,
    )
    return Served(lake, opening)


class Answer(NamedTuple):
    """A response with its whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


class Site:
    """An endpoint of a lake; every request has a session unless it says otherwise."""

    def __init__(self, lake: Lake) -> None:
        self.access = EndpointAccess("KEY", "secret")
        clock = lake.runtime.now
        self.context = ServingContext(served(lake), self.access, clock, Options())
        session = self.access.begin_session(self.access.new_link_token())
        assert session is not None
        self.session = session

    def __call__(self, address: str, *, method: str = "GET", cookie: str | None = None) -> Answer:
        """Return the answer to a request; without a cookie of its own, with the session's."""
        parts = urlsplit(address)
        headers = [(b"host", b"127.0.0.1:8000")]
        if value := self.session if cookie is None else cookie:
            headers.append((b"cookie", f"{COOKIE}={value}".encode()))
        scope = {
            "type": "http", "method": method, "path": unquote(parts.path),
            "raw_path": parts.path.encode(), "query_string": os.fsencode(parts.query),
            "headers": headers, "server": ("127.0.0.1", 8000), "scheme": "http",
            "http_version": "1.1",
        }  # fmt: skip
        return asyncio.run(_answer(scope, self.context))


async def _answer(scope: dict[str, Any], context: ServingContext) -> Answer:
    sent: list[Any] = []
    errors: list[BaseException] = []

    waiting = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Any:
        if not waiting:
            await asyncio.sleep(60)
        return waiting.pop()

    async def send(message: Any) -> None:
        sent.append(message)

    await make_app(context, report=errors.append)(scope, receive, send)
    assert not errors
    start, *rest = sent
    headers = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
    return Answer(start["status"], headers, b"".join(each.get("body", b"") for each in rest))


def parquet() -> bytes:
    """Return a small Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table({"city": ["Bern", "Oslo", "<b>x</b>"], "price": [1.5, 22.0, None]})
    target = io.BytesIO()
    parquet.write_table(table, target)
    return target.getvalue()


def fill(lake: Lake, directory: Path) -> Repository:
    """Make a repository with branches, tags, merges, objects of all kinds, and staged changes."""
    repository = lakes.make_repository(lake, directory)

    def add(ref: str, message: str, contents: Mapping[bytes, bytes | None]) -> str:
        lakes.stage(repository, ref, contents)
        return commit(repository, ref, message=message, committer="Ada <ada@example.com>").id

    rows = "".join(f"{number},city {number},{number * 7 % 13}.50\n" for number in range(400))
    add("main", "Orders of March\n\nWith <b>markup</b> and \u202ebidi.", {
        b"raw/orders.csv": b"id,city,price\n" + rows.encode(),
        b"raw/2026/notes.txt": "Grüezi\n\twith a tab\n<script>alert(1)</script>\n".encode(),
        b"raw/2026/report.json": b'{"total": 12, "by": [{"city": "Bern", "n": 3}]}',
        b"logo.png": PNG,
        b"model.bin": bytes(range(256)) * 10,
        b"drawing.svg": b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>',
        b"prices.parquet": parquet(),
        b"empty": b"",
    })  # fmt: skip
    tag.create(repository, "v1.0", "main")
    branch.create(repository, "experiment", source="main")
    branch.create(repository, "prices", source="main")
    add("experiment", "Try another model", {b"model.bin": b"\0" * 4096, b"model.txt": b"two\n"})
    add("main", "Orders of April", {b"raw/april.csv": b"id,city\n1,Bern\n"})
    add("prices", "Prices of April", {b"prices/april.csv": b"city,price\nBern,3\n"})
    merge(repository, "prices", "main", MergeOptions(
        message="Merge prices", committer="Grace Hopper <grace@example.com>"))  # fmt: skip
    add("experiment", "A longer subject, as people write them when they want to say everything"
        " at once in one line", {b"model.txt": b"three\n", b"empty": None})  # fmt: skip
    add("main", "Hostile names", dict.fromkeys(HOSTILE, b"harmless\n"))
    merge(repository, "main", "experiment", MergeOptions(
        message="Catch up with main", committer="Ada <ada@example.com>"))  # fmt: skip
    lakes.stage(repository, "main", {
        b"raw/may.csv": b"id\n1\n", b"raw/orders.csv": b"id\n", b"logo.png": None,
    })  # fmt: skip
    return repository
