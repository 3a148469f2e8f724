"""An endpoint in this process, whose answers are held against the models of lakeFS's SDK."""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from importlib.util import find_spec
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from starlette.requests import Request

from lakecli.repository.handle.lake import Lake, LocalRepository
from lakecli.repository.open_remote import open_remote
from lakecli.serving.access import EndpointAccess
from lakecli.serving.api import routes
from lakecli.serving.clients import url_of
from lakecli.serving.context import Options, ServingContext
from lakecli.serving.served import Opening, Served
from tests.support import lakes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

MODELS = {
    "listRepositories": "RepositoryList",
    "createRepository": "Repository",
    "getRepository": "Repository",
    "dumpSubmit": "TaskInfo",
    "dumpStatus": "RepositoryDumpStatus",
    "restoreSubmit": "TaskInfo",
    "restoreStatus": "RepositoryRestoreStatus",
    "listRepositoryRuns": "ActionRunList",
    "listBranches": "RefList",
    "getBranch": "Ref",
    "cherryPick": "Commit",
    "diffBranch": "DiffList",
    "commit": "Commit",
    "getCommit": "Commit",
    "logCommits": "CommitList",
    "diffRefs": "DiffList",
    "mergeIntoBranch": "MergeResult",
    "findMergeBase": "FindMergeBaseResult",
    "listTags": "RefList",
    "createTag": "Ref",
    "getTag": "Ref",
    "statObject": "ObjectStats",
    "listObjects": "ObjectStatsList",
    "uploadObject": "ObjectStats",
    "copyObject": "ObjectStats",
    "stageObject": "ObjectStats",
    "deleteObjects": "ObjectErrorList",
    "getPhysicalAddress": "StagingLocation",
    "linkPhysicalAddress": "ObjectStats",
    "importStart": "ImportCreationResponse",
    "importStatus": "ImportStatus",
    "getConfig": "Config",
    "getStorageConfig": "StorageConfig",
    "getLakeFSVersion": "VersionConfig",
    "getSetupState": "SetupState",
    "getCurrentUser": "CurrentUser",
}
"""The model of each answer."""

WITHOUT_MODEL = {"getRepositoryMetadata", "getBranchProtectionRules"}
"""Operations whose answers are maps or lists."""


HAS_MODELS = find_spec("lakefs_sdk") is not None


@cache
def _model(name: str) -> Any:
    import lakefs_sdk.models

    return getattr(lakefs_sdk.models, name)


class Answer(NamedTuple):
    """A response with its whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        return str(self.json["message"])


def served(lake: Lake, **options: Any) -> Served:
    """Return the repositories of a lake, without sharing."""
    opening = Opening(
        repository=lake.repository,
        namespace=lambda uri: open_remote(lake.home, lake.runtime, uri),
        mover=lambda _repository: None,
        catch_up=lambda _repository: None,
        notify=lambda _notice: None,
    )
    return Served(lake, opening, **options)


class Site:
    """The API of a lake; each answer is checked."""

    def __init__(self, lake: Lake, **options: Any) -> None:
        self.access = EndpointAccess("KEY", "secret")
        self.lake = lake
        self.context = ServingContext(
            served(lake, **options), self.access, lake.runtime.clock, Options()
        )

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        /,
        **query: Any,
    ) -> Answer:
        """Return the answer to a request; a body that is not bytes is sent as JSON."""
        data = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        basic = base64.b64encode(b"KEY:secret").decode()
        sent = {"host": "localhost", "authorization": f"Basic {basic}", "user-agent": "test/1"}
        sent |= {name.lower(): value for name, value in (headers or {}).items()}
        target = quote(path, safe="/%")
        scope = {
            "type": "http", "method": method, "path": urlsplit(path).path,
            "raw_path": b"/api/v1" + target.encode(),
            "query_string": urlencode(query, doseq=True, errors="surrogateescape").encode(),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in sent.items()],
            "server": ("localhost", 80), "scheme": "http", "http_version": "1.1",
        }  # fmt: skip
        answer = asyncio.run(_answer(scope, self.context, data))
        if HAS_MODELS:
            self._check(method, target, answer)
        return answer

    def _check(self, method: str, path: str, answer: Answer) -> None:
        if answer.status >= 400:
            if method != "HEAD":
                _model("Error")(**answer.json)
            return
        operation, _ = routes._find(method, routes.BASE + path)
        assert operation is not None
        assert answer.status in {operation.status, 206, 302, 304}
        name = MODELS.get(operation.name)
        if name is not None:
            check_model(answer.json, name)
        elif answer.body and operation.name not in WITHOUT_MODEL:
            assert operation.name in {"createBranch", "getObject"}


def check_model(found: Any, name: str) -> None:
    """Check that a record is one of lakeFS's document, and has no other fields."""
    model = _model(name)
    made = model.from_dict(found)
    model(**found)
    known = {field.alias for field in model.__fields__.values()}
    assert set(found) <= known, (name, set(found) - known)
    _check_known(found, made.to_dict(), name)


def _check_known(found: Any, written: Any, where: str) -> None:
    """Check that a model has kept each field: lakeFS's Java client refuses others."""
    if isinstance(found, dict):
        for field, value in found.items():
            assert field in written, f"{where}.{field}"
            _check_known(value, written[field], f"{where}.{field}")
    elif isinstance(found, list):
        for each, again in zip(found, written, strict=True):
            _check_known(each, again, where)


async def _answer(scope: dict[str, Any], context: ServingContext, body: bytes) -> Answer:
    pieces = [body[start : start + 1000] for start in range(0, len(body), 1000)] or [b""]

    async def receive() -> Any:
        if not pieces:
            await asyncio.sleep(60)
        piece = pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    response = await routes.handle(Request(scope, receive), context)
    await response(scope, receive, send)
    start, *rest = sent
    headers = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
    return Answer(start["status"], headers, b"".join(each.get("body", b"") for each in rest))


@contextmanager
def endpoint(lake: Lake) -> Iterator[str]:
    """Run a real endpoint of a lake in a thread; yield its URL. The key pair is KEY, secret."""
    from lakecli.serving.server import LOCAL_NAMES, Endpoint, bind

    bound = bind("127.0.0.1", 0)
    url = url_of("127.0.0.1", bound.getsockname()[1], secure=False)
    options = Options(url=url, hosts=LOCAL_NAMES)
    context = ServingContext(
        served(lake),
        EndpointAccess("KEY", "secret"),
        lambda: datetime.now(UTC),  # noqa: TID251 - clients sign with the present time
        options,
    )
    errors: list[BaseException] = []
    server = Endpoint(context, bound, report=errors.append)
    thread = Thread(target=server.run_until_stopped)
    thread.start()
    try:
        yield url
    finally:
        server.stop()
        thread.join()
        bound.close()
    assert not errors


def open_lake(directory: Path) -> Lake:
    """Open a lake with an empty repository, demo."""
    lake = lakes.open_lake(directory)
    lakes.make_repository(lake, directory)
    return lake


__all__ = ["LocalRepository", "Site", "endpoint", "open_lake", "served"]
