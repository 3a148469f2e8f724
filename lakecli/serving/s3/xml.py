"""Documents of S3: bodies of requests are read, answers are written.

A request may come from anyone who has a presigned URL. So a document with a DTD is refused before
any entity of it is read, and its size, depth and number of elements are bounded. Names of elements
count without their namespace, which many clients leave out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, NewType
from xml.parsers.expat import ExpatError, ParserCreate
from xml.sax.saxutils import escape

from lakecli.serving.s3.checksums import ALGORITHMS
from lakecli.serving.s3.errors import NOT_IN_XML, S3Error

Markup = NewType("Markup", str)
"""Text that is XML already."""

NAMESPACE: Final = "http://s3.amazonaws.com/doc/2006-03-01/"

MOST_DELETED: Final = 1000
MOST_PARTS: Final = 10_000
LARGEST_DELETION: Final = 8 << 20
"""Largest body of DeleteObjects in bytes: 1,000 keys of 1,024 bytes, each byte as a reference."""

LARGEST_COMPLETION: Final = 8 << 20
"""Largest body of CompleteMultipartUpload in bytes: 10,000 parts with all their checksums."""

_DEEPEST: Final = 8
_MOST_ELEMENTS: Final = 100_000
_NUMBER: Final = re.compile("[0-9]{1,9}", re.ASCII)
_SPECIAL: Final = re.compile("[^ -%'-;=?-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NOT_PLAIN: Final = re.compile("[^ -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ENCODED_BYTE: Final = re.compile(rb"[^A-Za-z0-9_.~/-]")
_PERCENT: Final = [b"%%%02X" % byte for byte in range(256)]
"""The form of each byte in a URL; `urllib` takes five times as long for a name with one of them."""

_BOM: Final = b"\xef\xbb\xbf"


class Element:
    """An element of a document that was read.

    Attributes:
        name: its name without the namespace.
        text: the text directly in it.
    """

    __slots__ = ("children", "name", "text")

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


class _UnusualError(Exception):
    """The document has what S3's documents never have."""


class _Builder:
    """Builds elements from the events of a parser."""

    def __init__(self) -> None:
        self.root = Element("")
        self._open: list[tuple[Element, list[str]]] = [(self.root, [])]
        self._made = 0

    def start(self, name: str, _: object) -> None:
        self._made += 1
        if len(self._open) > _DEEPEST or self._made > _MOST_ELEMENTS:
            raise _UnusualError
        made = Element(name.rpartition(":")[2])
        self._open[-1][0].children.append(made)
        self._open.append((made, []))

    def end(self, _: str) -> None:
        element, texts = self._open.pop()
        element.text = "".join(texts)

    def text(self, text: str) -> None:
        self._open[-1][1].append(text)

    def refuse(self, *_: object) -> None:
        raise _UnusualError


def parse(data: bytes, root: str, *, limit: int) -> Element:
    """Return the root element of a document.

    Args:
        root: the name that the root must have.
        limit: the largest size in bytes.

    Raises:
        S3Error: MalformedXML, or EntityTooLarge.
    """
    if len(data) > limit:
        raise S3Error("EntityTooLarge", f"The document is larger than {limit} bytes.")
    builder = _Builder()
    parser = ParserCreate("UTF-8")
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.text
    parser.StartDoctypeDeclHandler = builder.refuse
    parser.ProcessingInstructionHandler = builder.refuse
    try:
        parser.Parse(data.removeprefix(_BOM), True)  # noqa: FBT003 - pyexpat takes no keywords
    except (ExpatError, _UnusualError):
        raise _malformed(f"expected was a document {root}") from None
    found = builder.root.children[0]
    if found.name != root:
        raise _malformed(f"expected was a document {root}")
    return found


def _malformed(problem: str) -> S3Error:
    return S3Error("MalformedXML", f"The XML is malformed, or not of S3: {problem}.")


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
    root = parse(data, "Delete", limit=LARGEST_DELETION)
    objects = [
        ToDelete(
            each.find("Key") or "",
            (each.find("ETag") or "").strip(),
            (each.find("VersionId") or "").strip(),
        )
        for each in root.all("Object")
    ]
    if not 1 <= len(objects) <= MOST_DELETED:
        raise _malformed(f"a request deletes 1 to {MOST_DELETED} objects")
    if not all(each.key for each in objects):
        raise _malformed("an Object has no Key")
    return Deletion(objects, (root.find("Quiet") or "").strip().lower() == "true")


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
    parts: list[NamedPart] = []
    for each in parse(data, "CompleteMultipartUpload", limit=LARGEST_COMPLETION).all("Part"):
        number, etag = (each.find("PartNumber") or "").strip(), (each.find("ETag") or "").strip()
        if _NUMBER.fullmatch(number) is None or not 1 <= int(number) <= MOST_PARTS or not etag:
            raise _malformed(f"a Part needs an ETag and a PartNumber of 1 to {MOST_PARTS}")
        if parts and parts[-1].number >= int(number):
            raise S3Error("InvalidPartOrder", "The parts are not in ascending order.")
        found = ((name, each.find(f"Checksum{name.upper()}")) for name in ALGORITHMS)
        sums = {name: value.strip() for name, value in found if value}
        parts.append(NamedPart(int(number), etag.strip('"'), sums))
    if not parts:
        raise _malformed("it names no parts")
    return parts


def leaf(name: str, value: str | int) -> Markup:
    """Return an element with text; a boolean becomes ``true`` or ``false``.

    What XML cannot contain is replaced; `name_of` refuses it for names that clients use.
    """
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if _SPECIAL.search(text):
        text = NOT_IN_XML.sub("\ufffd", escape(text, {"\r": "&#13;"}))
    return Markup(f"<{name}>{text}</{name}>")


def branch(name: str, children: Iterable[Markup]) -> Markup:
    """Return an element with elements in it."""
    return Markup(f"<{name}>{''.join(children)}</{name}>")


def document(root: str, children: Iterable[Markup]) -> bytes:
    """Return a whole document, in S3's namespace."""
    start = f'<?xml version="1.0" encoding="UTF-8"?>\n<{root} xmlns="{NAMESPACE}">'
    return f"{start}{''.join(children)}</{root}>".encode()


def name_of(path: bytes, *, encoding: str = "") -> str:
    """Return the name of an object or prefix for an answer.

    Args:
        encoding: ``url`` for names percent-encoded as in a URL; ``""``: as they are.

    Raises:
        S3Error: InvalidArgument; XML cannot contain the name as it is, so the client must ask with
            ``encoding-type=url``.
    """
    if encoding:
        return _ENCODED_BYTE.sub(lambda found: _PERCENT[found[0][0]], path).decode()
    try:
        text = path.decode()
    except UnicodeDecodeError:
        text = "\0"
    if _NOT_PLAIN.search(text):
        raise S3Error(
            "InvalidArgument",
            "A name has characters that XML cannot contain: repeat with encoding-type=url.",
        )
    return text
