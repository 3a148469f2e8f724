"""Requests of lakeFS's REST API: how operations are declared, parameters, errors, JSON and pages.

An `ApiOperation` declares an operation. Its handler is a synchronous function, called in a thread;
many only call a function of `lakecli.repository`. The handler gets an `ApiCall`, with the body
checked and the repository opened. It returns a JSON value, ``None`` for an empty body, or a
`Response`.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote, unquote_to_bytes

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from lakecli import errors
from lakecli.base.layout import MAX_METADATA_SIZE
from lakecli.base.model import MAX_PATH_SIZE, Difference
from lakecli.base.parsing import Unparsable, parse_json
from lakecli.base.uri import check_path
from lakecli.base.validation import Field, Invalid, Record, boolean, moment, optional, text, whole
from lakecli.committed.scan import ListedObject, ListedPrefix
from lakecli.repository.contract import Repository
from lakecli.serving.context import ServingContext
from lakecli.serving.reading import query_of
from lakecli.serving.statuses import status_of
from lakecli.serving.writes import BranchWriter, Client

T = TypeVar("T")
Listed: TypeAlias = ListedObject | ListedPrefix | Difference
L = TypeVar("L", bound=Listed)

LARGEST_BODY: Final = 16 << 20
"""The maximum size of a JSON body in bytes, which is enough for a thousand escaped paths."""

LARGEST_PAGE: Final = 1_000
_DEFAULT_PAGE: Final = 100
_LARGEST_QUERY: Final = 256
"""The maximum number of parameters in a query."""

_UNDECODABLE: Final = "\0"
"""Prefix of a page offset whose path is not UTF-8; the path follows, percent-encoded."""

READING: Final = frozenset({"GET", "HEAD"})
NO_CONTENT: Final = 204

# Errors --------------------------------------------------------------------------------------


def of_lake_error(error: errors.LakeError | Invalid) -> HTTPException:
    """Return the error response for an error of lakecli, with the hint in the message."""
    hint = getattr(error, "hint", None)
    return HTTPException(status_of(error), f"{error} ({hint})" if hint else str(error))


# Operations ----------------------------------------------------------------------------------


class ApiOperation(NamedTuple):
    """An operation of lakeFS's REST API.

    Attributes:
        name: the name of the operation in lakeFS's OpenAPI document.
        path: the path below ``/api/v1``; ``{name}`` is a parameter.
        handler: handles the request; if the status is 204, the result of the handler is not sent.
        status: the HTTP status of success.
        body: checks the JSON of the body, and returns the value of `ApiCall.fields`.
        acts: whether a handler that changes the repository does so by functions of
            `lakecli.repository`, rather than with a `BranchWriter`.
        is_raw: whether the handler gets the body as a stream of bytes instead of JSON.
    """

    name: str
    method: str
    path: str
    handler: Callable[["ApiCall"], object]
    status: int = 200
    body: Callable[[object], Any] | None = None
    acts: bool = True
    is_raw: bool = False

    def answer(self, call: "ApiCall") -> object:
        """Check the body, open the repository, and return the handler's result; needs a thread."""
        if self.body is not None:
            call.fields = self.body(call.document())
        if "{repository}" not in self.path:
            return self.handler(call)
        if self.acts and self.method not in READING:
            with call.acting() as call.repository:
                return self.handler(call)
        call.repository = call.context.served.repository(call["repository"])
        return self.handler(call)


def on_repository(*operations: ApiOperation) -> list[ApiOperation]:
    """Return operations on a repository; their paths are given relative to the repository's."""
    place = "/repositories/{repository}"
    return [each._replace(path=place + each.path) for each in operations]


class JsonFields(Record):
    """Checks a JSON object with the given fields; a field that is ``null`` counts as absent."""

    def __init__(self, **fields: Field | Callable[[object], Any]) -> None:
        super().__init__(fields)

    def __call__(self, found: object) -> dict[str, Any]:
        """Return the checked values of the fields by name."""
        if isinstance(found, dict):
            found = {name: value for name, value in found.items() if value is not None}
        return self.read(found)


name_text: Final = text(1024, min_size=1)
path_text: Final = text(MAX_PATH_SIZE, min_size=1, has_nul=True)
free_text: Final = text(MAX_METADATA_SIZE, has_nul=True)
no_text: Final = optional(free_text, None)
flag: Final = optional(boolean, default=False)


def metadata(value: object) -> dict[str, str]:
    """Check that a value is an object whose values are strings, and return it."""
    if not isinstance(value, dict):
        raise Invalid("not an object with fields")
    return {free_text(key): free_text(found) for key, found in value.items()}


def seconds(low: int) -> Callable[[object], datetime | None]:
    """Return a check for a time in seconds since 1970, at least `low`.

    The check returns ``None`` for a negative number.
    """
    check = whole(low, 253_000_000_000)
    return lambda value: None if (at := check(value)) < 0 else datetime.fromtimestamp(at, UTC)


@dataclass
class ApiCall:
    """A request for an operation; ``call[name]`` is a parameter of its path.

    Attributes:
        parameters: the parameters of the path by name, percent-decoded.
        body: the bytes of the JSON; for a raw body an iterator over its pieces as they arrive, to
            be read in the handler's thread.
        fields: the checked JSON of the body, as `ApiOperation.body` returned it.
        repository: the repository named in the path; functions of `lakecli.repository` may
            change it only if `ApiOperation.acts` is set.
    """

    context: ServingContext
    request: Request
    client: Client
    action: str
    parameters: Mapping[str, str]
    body: bytes | Iterator[bytes]
    fields: Any = None
    repository: Repository = field(init=False)

    def __getitem__(self, name: str) -> str:
        return self.parameters[name]

    @property
    def committer(self) -> str:
        """The committer of new commits."""
        return self.context.committer()

    def acting(self) -> AbstractContextManager[Repository]:
        """Return a context manager that yields the repository to functions that change it."""
        served = self.context.served
        return served.acting(self["repository"], client=self.client, action=self.action)

    @property
    def writer(self) -> BranchWriter:
        """The writer of the branch named in the path."""
        return self.context.served.writer(self["repository"], self["branch"])

    def document(self) -> Any:  # noqa: ANN401 - whatever JSON can be
        """Return the parsed JSON of the body; an empty body counts as ``{}``."""
        assert isinstance(self.body, bytes)
        try:
            return parse_json(self.body or b"{}", max_size=LARGEST_BODY)
        except Unparsable as error:
            raise Invalid(f"the body: {error}") from None

    # The query ---------------------------------------------------------------------------

    @cached_property
    def _query(self) -> list[tuple[str, str]]:
        return query_of(self.request.scope["query_string"], most=_LARGEST_QUERY)

    def text(self, name: str) -> str:
        """Return a query parameter as text; ``""`` if it is absent."""
        return next((value for key, value in self._query if key == name), "")

    def paths(self, name: str) -> list[bytes]:
        """Return all non-empty values of a query parameter as paths."""
        return [os.fsencode(value) for key, value in self._query if key == name and value]

    def raw(self, name: str) -> bytes:
        """Return a query parameter as bytes: a path, a prefix or a delimiter."""
        return os.fsencode(self.text(name))

    def path(self, name: str = "path") -> bytes:
        """Return a query parameter that is the path of an object, checked."""
        path = self.raw(name)
        check_path(path)
        return path

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a query parameter that is true or false."""
        value = self.text(name).lower() or str(default).lower()
        if value not in {"0", "1", "f", "t", "false", "true"}:
            raise Invalid(f"{name}: neither true nor false: {value[:20]!r}")
        return value in {"1", "t", "true"}

    def time(self, name: str) -> datetime | None:
        """Return a query parameter that is a time, or ``None`` if it is absent."""
        value = self.text(name)
        # A client may send `+00:00` without encoding it.
        return moment(re.sub(r" (?=\d\d:?\d\d$)", "+", value)) if value else None

    @property
    def amount(self) -> int:
        """The maximum number of results of the page: ``amount``, at most `LARGEST_PAGE`."""
        value = self.text("amount") or "0"
        if not re.fullmatch(r"-?\d{1,9}", value, re.ASCII):
            raise Invalid(f"amount: not a number: {value[:20]!r}")
        return min(int(value), LARGEST_PAGE) if int(value) > 0 else _DEFAULT_PAGE


# Responses -----------------------------------------------------------------------------------


def json_response(
    value: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a JSON response; it is ASCII, because strings may contain bytes that are not UTF-8."""
    return Response(json.dumps(value), status, headers, "application/json")


def as_json(record: object, *same: str, **renamed: str) -> dict[str, Any]:
    """Return attributes of a record as a JSON object; times become seconds since 1970.

    Args:
        same: attributes whose JSON field has the same name.
        renamed: other attributes, by the name of their JSON field.
    """
    names = {**dict(zip(same, same, strict=True)), **renamed}
    return {name: _plain(getattr(record, attribute)) for name, attribute in names.items()}


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return int(value.timestamp())
    return dict(value) if isinstance(value, Mapping) else value


def page(
    call: ApiCall,
    items: Iterable[T],
    record: Callable[[T], object],
    key: Callable[[T], str] = attrgetter("name"),
    *,
    looks_on: bool = True,
) -> Mapping[str, Any]:
    """Return a page of results.

    Args:
        items: all results after the one where the page begins.
        record: returns the JSON of a result.
        key: returns the offset of the page that begins after a result.
        looks_on: whether to read one more result, to know whether another page follows.
    """
    found = list(islice(items, call.amount + looks_on))
    shown = found[: call.amount]
    has_more = len(found) > len(shown)
    pagination = {
        "has_more": has_more,
        "next_offset": key(shown[-1]) if has_more else "",
        "results": len(shown),
        "max_per_page": LARGEST_PAGE,
    }
    return {"pagination": pagination, "results": [record(each) for each in shown]}


def page_of_paths(
    call: ApiCall, listing: Callable[..., Iterator[L]], record: Callable[[L], object]
) -> Mapping[str, Any]:
    """Return a page of paths, or of their common prefixes.

    Args:
        listing: lists paths, like `View.list_paths`.
        record: returns the JSON of a result.
    """
    offset, prefix, delimiter = call.text("after"), call.raw("prefix"), call.raw("delimiter")
    is_quoted = offset.startswith(_UNDECODABLE)
    after = unquote_to_bytes(offset[1:]) if is_quoted else os.fsencode(offset)
    listed = listing(prefix=prefix, delimiter=delimiter, after=after)
    return page(call, listed, record, _offset_of)


def _offset_of(found: Listed) -> str:
    """Return the offset of the page that begins after a path, as text that clients send back."""
    try:
        return found.path.decode()
    except UnicodeDecodeError:
        return _UNDECODABLE + quote(found.path)


def shown_text(path: bytes) -> str:
    """Return a path as text; bytes that are not UTF-8 are replaced, as lakeFS does."""
    return path.decode("utf-8", "replace")
