"""A case of the conformance suite: requests in turn, and what each answer must be.

Texts may name what is known when they are sent: «p» is the prefix of the case's own keys, «bucket»
the bucket, and whatever an earlier step kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from tests.serving.s3_wire import Answer, Wire, path_of

T = TypeVar("T", int, str)

TEXT: Final = b"0123456789"
"""The body of most objects."""

Expected = str | re.Pattern[str] | None
"""A text, a pattern of all of it, or ``None``: absent."""


class Request(NamedTuple):
    """A request whose texts are complete."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


Sender = Callable[[Wire, Request], Answer]


def signed(wire: Wire, request: Request) -> Answer:
    """Send a request with the digest of its body."""
    return wire.send(*request)


class Step(NamedTuple):
    """A request, and what its answer must be.

    Attributes:
        method: the method.
        key: below the prefix of the case; ``None`` for the bucket.
        query: the query.
        headers: further headers.
        body: what is sent.
        status: the status of the answer, or several that are right.
        code: the code of the error, or several that are right; checked if it is not empty.
        has: headers of the answer.
        text: the body, if it is checked.
        xml: texts of elements by their path below the root.
        includes: texts that the body must have among others.
        keep: names for what later steps use: a header, or a path in the XML with a slash before.
        by: how it is sent.
        path: the path as it goes over the wire, in place of `key`.
    """

    method: str
    key: str | None = None
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    body: bytes = b""
    status: int | tuple[int, ...] = 200
    code: str | tuple[str, ...] = ""
    has: Mapping[str, Expected] = {}
    text: bytes | None = None
    xml: Mapping[str, Sequence[str | re.Pattern[str]]] = {}
    includes: Sequence[str] = ()
    keep: Mapping[str, str] = {}
    by: Sender = signed
    path: str = ""


class Case(NamedTuple):
    """What S3 does in one situation.

    Attributes:
        name: unique.
        operation: the operation that it is about.
        steps: the requests.
    """

    name: str
    operation: str
    steps: Sequence[Step]


class Differs(AssertionError):
    """An answer is not what the case says."""


def run(case: Case, wire: Wire, bucket: str, prefix: str) -> None:
    """Send the requests of a case.

    Args:
        case: the case.
        wire: the server.
        bucket: a bucket.
        prefix: of this case's keys in the bucket; nothing else is below it.

    Raises:
        Differs: an answer is another one.
    """
    names = {"p": prefix, "bucket": bucket}
    for number, step in enumerate(case.steps, 1):
        request = _request(step, names)
        answer = step.by(wire, request)
        try:
            _check(step, answer, names)
        except Differs as error:
            shown = answer.body[:600].decode("utf-8", "replace")
            raise Differs(
                f"step {number}, {request.method} {request.path}: {error}\n"
                f"answer: {answer.status} {dict(answer.headers)}\n{shown}"
            ) from None
        for name, source in step.keep.items():
            names[name] = _kept(answer, source)


def _kept(answer: Answer, source: str) -> str:
    if source.startswith("/"):
        found = answer.texts(source[1:])
        return found[0] if found else ""
    return answer.headers.get(source.lower(), "")


def _filled(text: str, names: Mapping[str, str]) -> str:
    return re.sub("«(.*?)»", lambda found: names[found[1]], text)


def _filled_pairs(pairs: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    return {name: _filled(value, names) for name, value in pairs.items()}


def _request(step: Step, names: Mapping[str, str]) -> Request:
    key = None if step.key is None else names["p"] + _filled(step.key, names)
    body = step.body
    if b"\xc2\xab" in body:
        body = _filled(body.decode(), names).encode()
    return Request(
        step.method,
        _filled(step.path, names) or path_of(names["bucket"], key),
        _filled_pairs(step.query, names),
        _filled_pairs(step.headers, names),
        body,
    )


def _check(step: Step, answer: Answer, names: Mapping[str, str]) -> None:
    if answer.status not in _each(step.status):
        raise Differs(f"status {answer.status}, not {step.status}")
    if step.code and answer.code not in _each(step.code):
        raise Differs(f"code {answer.code!r}, not {step.code!r}")
    if step.code and "xml" not in answer.headers.get("content-type", ""):
        raise Differs("an error that is not announced as XML")
    for name, wanted in step.has.items():
        if not _is(answer.headers.get(name.lower()), wanted, names):
            raise Differs(f"{name}: {answer.headers.get(name.lower())!r}, not {wanted!r}")
    _check_body(step, answer, names)


def _check_body(step: Step, answer: Answer, names: Mapping[str, str]) -> None:
    if step.text is not None and answer.body != step.text:
        raise Differs(f"body {answer.body[:80]!r} of {len(answer.body)}, not {step.text[:80]!r}")
    for text in step.includes:
        if _filled(text, names).encode() not in answer.body:
            raise Differs(f"{text!r} is not in the body")
    for path, texts in step.xml.items():
        found = answer.texts(path)
        if len(found) != len(texts) or not all(
            _is(one, wanted, names) for one, wanted in zip(found, texts, strict=True)
        ):
            raise Differs(f"{path}: {found!r}, not {list(texts)!r}")


def _each(wanted: T | tuple[T, ...]) -> tuple[T, ...]:
    return wanted if isinstance(wanted, tuple) else (wanted,)


def _is(found: str | None, wanted: Expected, names: Mapping[str, str]) -> bool:
    if wanted is None or found is None:
        return wanted is None and found is None
    if isinstance(wanted, str):
        return found == _filled(wanted, names)
    return wanted.fullmatch(found) is not None


# What cases are made of.


def step(method: str, key: str | None = None, /, **more: object) -> Step:
    """Return a request with its query, headers and so on."""
    return Step(method, key, **more)  # type: ignore[arg-type]


def put(key: str = "k", body: bytes = TEXT, /, **more: object) -> Step:
    """Return a PutObject."""
    return step("PUT", key, body=body, **more)


def get(key: str = "k", /, **more: object) -> Step:
    """Return a GetObject."""
    return step("GET", key, **more)


def head(key: str = "k", /, **more: object) -> Step:
    """Return a HeadObject."""
    return step("HEAD", key, **more)


def delete(key: str = "k", /, **more: object) -> Step:
    """Return a DeleteObject."""
    return step("DELETE", key, **{"status": 204, **more})


def copy(source: str, key: str = "copy", /, **more: object) -> Step:
    """Return a CopyObject; `source` is percent-encoded, below the prefix of the case."""
    headers = {"x-amz-copy-source": f"/«bucket»/«p»{source}"}
    headers.update(more.pop("headers", {}))  # type: ignore[call-overload]
    return step("PUT", key, headers=headers, **more)


def listing(query: Mapping[str, str] | None = None, /, **more: object) -> Step:
    """Return a ListObjectsV2 of the case's keys."""
    return step("GET", query={"list-type": "2", "prefix": "«p»", **(query or {})}, **more)


def old_listing(query: Mapping[str, str] | None = None, /, **more: object) -> Step:
    """Return a ListObjects of the case's keys."""
    return step("GET", query={"prefix": "«p»", **(query or {})}, **more)


def below(*keys: str) -> list[str]:
    """Return keys with the prefix of the case."""
    return [f"«p»{key}" for key in keys]


def group(operation: str, cases: Mapping[str, Sequence[Step]]) -> list[Case]:
    """Return cases of one operation by their names."""
    return [Case(name, operation, steps) for name, steps in cases.items()]
