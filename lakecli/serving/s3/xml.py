"""Documents of S3: bodies of requests are read, answers are written.

A request may come from anyone who has a presigned URL. So a document with a DTD is refused before
any entity of it is read, and its size and depth are bounded. Names of elements count without their
namespace, which many clients leave out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, NewType
from urllib.parse import quote

Markup = NewType("Markup", str)
"""Text that is XML already."""

NAMESPACE: Final = "http://s3.amazonaws.com/doc/2006-03-01/"


class Element:
    """An element of a document that was read.

    Attributes:
        name: its name without the namespace.
        text: the text directly in it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.text = ""
        self.children: list[Element] = []

    def all(self, name: str) -> Iterator[Element]:
        """Yield the children of a name."""
        return (child for child in self.children if child.name == name)

    def find(self, name: str) -> str | None:
        """Return the text of the first child of a name, or ``None``."""
        return next((child.text for child in self.all(name)), None)


def parse(data: bytes, root: str, *, limit: int) -> Element:
    """Return the root element of a document.

    Args:
        root: the name that the root must have.
        limit: the largest size in bytes.

    Raises:
        S3Error: MalformedXML, or EntityTooLarge.
    """
    raise NotImplementedError


class ToDelete(NamedTuple):
    """An object that a DeleteObjects request names; ``""`` for no condition, no version."""

    key: str
    etag: str
    version_id: str


class Deletion(NamedTuple):
    """The body of a DeleteObjects request."""

    objects: list[ToDelete]
    is_quiet: bool


def read_deletion(data: bytes) -> Deletion:
    """Read the body of DeleteObjects: 1 to 1,000 objects; raise `S3Error`."""
    raise NotImplementedError


class NamedPart(NamedTuple):
    """A part that a CompleteMultipartUpload request names.

    Attributes:
        etag: without quotes.
        checksums: base64 by the algorithms of `checksums.ALGORITHMS`.
    """

    number: int
    etag: str
    checksums: dict[str, str]


def read_completion(data: bytes) -> list[NamedPart]:
    """Read the body of CompleteMultipartUpload: 1 to 10,000 parts, ascending; raise `S3Error`."""
    raise NotImplementedError


def leaf(name: str, value: str | int) -> Markup:  # bools are written true and false
    """Return an element with text."""
    raise NotImplementedError


def branch(name: str, children: Iterable[Markup]) -> Markup:
    """Return an element with elements in it."""
    return Markup(f"<{name}>{''.join(children)}</{name}>")


def document(root: str, children: Iterable[Markup], *, namespace: str = NAMESPACE) -> bytes:
    """Return a whole document."""
    raise NotImplementedError


def name_of(path: bytes, *, encoding: str = "") -> str:
    """Return the name of an object or prefix for an answer.

    Args:
        encoding: ``url`` for names percent-encoded as in a URL; ``""``: as they are.

    Raises:
        S3Error: InvalidArgument; XML cannot contain the name as it is, so the client must ask with
            ``encoding-type=url``.
    """
    raise NotImplementedError


def visible(text: str) -> str:
    """Return a text of an error with a replacement for what XML cannot contain."""
    raise NotImplementedError
