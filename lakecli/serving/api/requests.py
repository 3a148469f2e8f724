"""Requests of lakeFS's REST API: parameters, bodies, errors and pages.

A handler is an ordinary function in a thread. It gets an `ApiCall`, and returns what JSON can
express, ``None`` for an empty body, or a whole response. An `ApiOperation` declares each operation.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from itertools import islice
from threading import Lock, Semaphore
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar
from urllib.parse import parse_qs, unquote

from starlette.responses import Response

from lakecli import errors
from lakecli.base.layout import MAX_METADATA_SIZE
from lakecli.base.model import MAX_PATH_SIZE, Entry
from lakecli.base.parsing import Unparsable, parse_json
from lakecli.base.uri import check_path
from lakecli.base.validation import Invalid, Record, moment, text
from lakecli.committed.values import decode_entry
from lakecli.serving.context import ServingContext
from lakecli.serving.writes import PathChange

if TYPE_CHECKING:
    from datetime import datetime

    from lakecli.repository.contract import Repository
    from lakecli.serving.writes import BranchWriter, Client, Deposited

T = TypeVar("T")

Json: TypeAlias = Mapping[str, Any] | list[Any] | None

LARGEST_BODY: Final = 16 << 20
"""Largest JSON body, in bytes: a thousand escaped paths, with room."""

LARGEST_PAGE: Final = 1_000
_DEFAULT_PAGE: Final = 100
_LARGEST_QUERY: Final = 256
"""The most parameters of a query."""

_UNDECODABLE: Final = "\0"
"""Begins the offset of a page if the last path is not UTF-8; its bytes follow in hex."""


class PreconditionFailed(errors.Refused):
    """A condition of a write is not met."""


_STATUSES: Final = (
    (PreconditionFailed, HTTPStatus.PRECONDITION_FAILED),
    (errors.UsageError, HTTPStatus.BAD_REQUEST),
    (errors.NothingToDo, HTTPStatus.BAD_REQUEST),
    (errors.DirtyBranch, HTTPStatus.BAD_REQUEST),
    (errors.NotFound, HTTPStatus.NOT_FOUND),
    (errors.Unsupported, HTTPStatus.NOT_IMPLEMENTED),
    (errors.Forbidden, HTTPStatus.FORBIDDEN),
    (errors.PermissionDenied, HTTPStatus.FORBIDDEN),
    (errors.ConflictError, HTTPStatus.CONFLICT),
    (errors.Refused, HTTPStatus.CONFLICT),
    (errors.LostRace, HTTPStatus.LOCKED),
    (errors.HookFailed, HTTPStatus.PRECONDITION_FAILED),
    (errors.CheckFailed, HTTPStatus.PRECONDITION_FAILED),
    # lakeFS's clients repeat what 503 answers, but not 504: it may have taken effect.
    (errors.Unreachable, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.OutcomeUnknown, HTTPStatus.GATEWAY_TIMEOUT),
)
"""The status of each family of errors; the first that matches counts."""


class ApiError(Exception):
    """An answer other than success, in lakeFS's form.

    Attributes:
        more: further fields of the body.
    """

    def __init__(
        self,
        status: int,
        message: str,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or {}
        self.more = more or {}


def json_response(
    value: Json, status: int = HTTPStatus.OK, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a response with JSON; it is ASCII, as texts may have bytes that are not UTF-8."""
    return Response(json.dumps(value), status, headers, "application/json")


def of_lake_error(error: errors.LakeError) -> ApiError:
    """Return the answer to a request that failed with an error of lakecli."""
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    for family, found in _STATUSES:
        if isinstance(error, family):
            status = found
            break
    hint = f" ({error.hint})" if error.hint else ""
    return ApiError(status, error.message + hint)


class Remembered:
    """What an endpoint remembers until it stops: hidden branches, and the results of tasks."""

    MOST: Final = 10_000
    IMPORTS: Final = 4

    def __init__(self) -> None:
        self.imports = Semaphore(self.IMPORTS)
        """Limits how many imports run at a time."""
        self._lock = Lock()
        self._hidden: dict[tuple[str, str], None] = {}
        self._tasks: dict[str, Mapping[str, Any]] = {}

    def hide(self, repository: str, branch: str) -> None:
        """Leave a branch out of lists of branches, unless they ask for hidden ones."""
        with self._lock:
            self._hidden[repository, branch] = None
            self._shorten(self._hidden)

    def show(self, repository: str, branch: str) -> None:
        """Forget that a branch is hidden, because it was deleted."""
        with self._lock:
            self._hidden.pop((repository, branch), None)

    def is_hidden(self, repository: str, branch: str) -> bool:
        """Return whether a branch is hidden."""
        return (repository, branch) in self._hidden

    def put_task(self, task: str, status: Mapping[str, Any]) -> None:
        """Keep the status of a task."""
        with self._lock:
            self._tasks[task] = status
            self._shorten(self._tasks)

    def task(self, task: str) -> Mapping[str, Any]:
        """Return the status of a task."""
        found = self._tasks.get(task)
        if found is None:
            raise ApiError(HTTPStatus.NOT_FOUND, f"no task {task!r}")
        return found

    def _shorten(self, kept: dict[Any, Any]) -> None:
        if len(kept) > self.MOST:
            del kept[next(iter(kept))]


@dataclass
class ApiCall:
    """A request for an operation.

    Attributes:
        parameters: the parts of the path that the operation names, decoded.
        query: the raw query.
        headers: the headers, by names in lower case.
        body: JSON; or for a raw body an iterator for the thread of the handler, which yields the
            body while it arrives.
    """

    context: ServingContext
    remembered: Remembered
    client: Client
    action: str
    parameters: Mapping[str, str]
    query: str
    headers: Mapping[str, str]
    body: bytes | Iterator[bytes]

    @property
    def name(self) -> str:
        """The name of the repository."""
        return self.parameters["repository"]

    @property
    def branch(self) -> str:
        """The name of the branch."""
        return self.parameters["branch"]

    def repository(self) -> Repository:
        """Return the repository, for reading."""
        return self.context.served.repository(self.name)

    def acting(self) -> AbstractContextManager[Repository]:
        """Return a context manager with the repository, for a verb that changes something."""
        return self.context.served.acting(self.name, client=self.client, action=self.action)

    @cached_property
    def writer(self) -> BranchWriter:
        """The writer of the branch."""
        return self.context.served.writer(self.name, self.branch)

    def apply(
        self,
        path: bytes,
        decide: Callable[[bytes | None], bytes | None],
        deposited: Iterable[Deposited] = (),
    ) -> Entry:
        """Change one path of the branch; return the entry that the path has then."""
        change = PathChange(path, decide, tuple(deposited))
        (outcome,) = self.writer.apply([change], client=self.client, action=self.action)
        if isinstance(outcome, errors.LakeError):
            raise outcome
        assert outcome is not None
        return decode_entry(outcome)

    def committer(self) -> str:
        """Return the committer of new commits."""
        return self.context.committer()

    # The query and the headers -----------------------------------------------------------

    @cached_property
    def _query(self) -> Mapping[str, list[str]]:
        try:
            return parse_qs(
                self.query,
                keep_blank_values=True,
                errors="surrogateescape",
                max_num_fields=_LARGEST_QUERY,
            )
        except ValueError as error:
            raise Invalid(f"the query: {error}") from None

    def text(self, name: str) -> str:
        """Return a parameter of the query; ``""`` if it is absent."""
        return self._query.get(name, [""])[0]

    def paths(self, name: str) -> list[bytes]:
        """Return all values of a parameter of the query that are not empty, as paths."""
        return [os.fsencode(each) for each in self._query.get(name, []) if each]

    def raw(self, name: str) -> bytes:
        """Return a parameter of the query that is a path, or a part of one."""
        return os.fsencode(self.text(name))

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a parameter of the query that is true or false."""
        value = self.text(name).lower() or str(default).lower()
        if value not in {"0", "1", "f", "t", "false", "true"}:
            raise Invalid(f"{name}: neither true nor false: {value[:20]!r}")
        return value in {"1", "t", "true"}

    def path(self, name: str = "path") -> bytes:
        """Return the path of an object."""
        path = self.raw(name)
        check_path(path)
        return path

    def time(self, name: str) -> datetime | None:
        """Return a parameter of the query that is a time, or ``None``."""
        value = self.text(name)
        # A client may send `+00:00` without encoding it.
        return moment(re.sub(r" (?=\d\d:?\d\d$)", "+", value)) if value else None

    @property
    def amount(self) -> int:
        """The number of results that a page may have."""
        value = self.text("amount") or "0"
        if not re.fullmatch(r"-?\d{1,9}", value, re.ASCII):
            raise Invalid(f"amount: not a number: {value[:20]!r}")
        return min(int(value), LARGEST_PAGE) if int(value) > 0 else _DEFAULT_PAGE

    @property
    def after(self) -> bytes:
        """The path after which a page begins."""
        after = self.text("after")
        if after.startswith(_UNDECODABLE):
            try:
                return bytes.fromhex(after[1:])
            except ValueError:
                raise Invalid("after: not an offset") from None
        return os.fsencode(after)

    # The body ----------------------------------------------------------------------------

    def document(self) -> Any:  # noqa: ANN401 - whatever JSON can be
        """Return the JSON in the body."""
        assert isinstance(self.body, bytes)
        try:
            return parse_json(self.body, max_size=LARGEST_BODY)
        except Unparsable as error:
            raise Invalid(f"the body: {error}") from None

    def read(self, record: Record) -> dict[str, Any]:
        """Return the fields of the body; ``null`` counts as absent."""
        return read_fields(self.document(), record)


def read_fields(found: object, record: Record) -> dict[str, Any]:
    """Return the checked fields of a JSON object; ``null`` counts as absent."""
    if isinstance(found, dict):
        found = {name: value for name, value in found.items() if value is not None}
    return record.read(found)


Handler: TypeAlias = Callable[[ApiCall], Json | Response]


class ApiOperation(NamedTuple):
    """An operation of lakeFS's REST API.

    Attributes:
        name: its name in lakeFS's document.
        path: the path below ``/api/v1``; ``{name}`` is a parameter.
        handler: what answers it.
        status: the status of a success.
        is_raw: whether the body is not JSON.
    """

    name: str
    method: str
    path: str
    handler: Handler
    status: int = HTTPStatus.OK
    is_raw: bool = False


def parameters_of(segments: list[str], template: str) -> Mapping[str, str] | None:
    """Return the parameters of a path that a template describes, or ``None`` for another path.

    Args:
        segments: the parts of the path between slashes, percent-encoded.
    """
    wanted = template.strip("/").split("/")
    if len(wanted) != len(segments):
        return None
    found = {}
    for segment, want in zip(segments, wanted, strict=True):
        if want.startswith("{"):
            found[want[1:-1]] = unquote(segment, errors="surrogateescape")
        elif segment != want:
            return None
    return found if all(found.values()) else None


def page(
    call: ApiCall,
    items: Iterable[T],
    record: Callable[[T], Json],
    key: Callable[[T], str],
    *,
    looks_on: bool = True,
) -> Json:
    """Return a page of results.

    Args:
        items: all results after the one where the page begins.
        record: returns the JSON of a result.
        key: returns the offset of the page that follows a result.
        looks_on: whether to look for one more result, to know whether there are more.
    """
    found = list(islice(items, call.amount + looks_on))
    shown = found[: call.amount]
    has_more = len(found) > len(shown)
    return {
        "pagination": {
            "has_more": has_more,
            "next_offset": key(shown[-1]) if has_more else "",
            "results": len(shown),
            "max_per_page": LARGEST_PAGE,
        },
        "results": [record(each) for each in shown],
    }


def offset_of(path: bytes) -> str:
    """Return the offset of the page after a path, as text that every client can send back."""
    try:
        return path.decode()
    except UnicodeDecodeError:
        return _UNDECODABLE + path.hex()


# Checks of the fields of bodies --------------------------------------------------------------

name_text: Final = text(1024, min_size=1)
path_text: Final = text(MAX_PATH_SIZE, min_size=1, has_nul=True)
free_text: Final = text(MAX_METADATA_SIZE, has_nul=True)


def metadata(value: object) -> dict[str, str]:
    """Check that a value maps texts to texts."""
    if not isinstance(value, dict):
        raise Invalid("not an object with fields")
    return {free_text(key): free_text(found) for key, found in value.items()}
