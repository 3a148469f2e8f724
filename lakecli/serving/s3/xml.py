"""Documents of S3: bodies of requests are read, answers are written.

A request may come from anyone who has a presigned URL. So a document with a DTD is refused before
any entity of it is read, and its size, depth and number of elements are bounded. Names of elements
count without their namespace, which many clients leave out.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from typing import Final, NamedTuple
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers.expat import ExpatError, ParserCreate
from xml.sax.saxutils import escape

from lakecli.serving.s3.checksums import ALGORITHMS
from lakecli.serving.s3.errors import S3Error

NAMESPACE: Final = "http://s3.amazonaws.com/doc/2006-03-01/"

MOST_DELETED: Final = 1000
MOST_PARTS: Final = 10_000
LARGEST_DELETION: Final = 8 << 20
"""Largest body of DeleteObjects in bytes: 1,000 keys of 1,024 bytes, each byte as a reference."""

LARGEST_COMPLETION: Final = 8 << 20
"""Largest body of CompleteMultipartUpload in bytes: 10,000 parts with all their checksums."""

_START: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'
_DEEPEST: Final = 8
_MOST_ELEMENTS: Final = 100_000
_NUMBER: Final = re.compile("[0-9]{1,9}", re.ASCII)
_SPECIAL: Final = re.compile("[^ -%'-;=?-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NOT_PLAIN: Final = re.compile("[^ -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NOT_IN_XML: Final = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ENCODED_BYTE: Final = re.compile(rb"[^A-Za-z0-9_.~/-]")
_PERCENT: Final = [b"%%%02X" % byte for byte in range(256)]
"""The form of each byte in a URL; `urllib` takes five times as long for a name with one of them."""


class _Builder(TreeBuilder):
    """Builds elements without namespaces, and refuses what S3's documents never have."""

    def __init__(self) -> None:
        super().__init__()
        self._open = self._made = 0

    def start(self, tag: str, _: object, /) -> Element:
        self._open += 1
        self._made += 1
        if self._open > _DEEPEST or self._made > _MOST_ELEMENTS:
            self.refuse()
        return super().start(tag.rpartition(":")[2], {})

    def end(self, tag: str, /) -> Element:
        self._open -= 1
        return super().end(tag.rpartition(":")[2])

    def refuse(self, *_: object) -> None:
        raise ExpatError


def parse(data: bytes, root: str) -> Element:
    """Return the root element of a document; raise `S3Error`: MalformedXML.

    Args:
        root: the name that the root must have.
    """
    builder = _Builder()
    # Unlike `XMLParser`, this one does not put the namespace before every name: it may be long.
    parser = ParserCreate("UTF-8")
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = parser.ProcessingInstructionHandler = builder.refuse
    try:
        parser.Parse(data.removeprefix(BOM_UTF8), True)  # noqa: FBT003 - pyexpat takes no keywords
        found = builder.close()
    except ExpatError:
        found = Element("")
    if found.tag != root:
        raise _malformed(f"expected was a document {root}")
    return found


def _malformed(problem: str) -> S3Error:
    return S3Error("MalformedXML", f"The XML is malformed, or not of S3: {problem}.")


def _text(element: Element, name: str) -> str:
    return element.findtext(name, "").strip()


class ToDelete(NamedTuple):
    """An object that a DeleteObjects request names; ``""`` for no condition, no version."""

    key: str
    etag: str
    version_id: str


def read_deletion(data: bytes) -> tuple[list[ToDelete], bool]:
    """Read the body of DeleteObjects: 1 to 1,000 objects, and whether it is quiet; or `S3Error`."""
    root = parse(data, "Delete")
    objects = [
        ToDelete(each.findtext("Key", ""), _text(each, "ETag"), _text(each, "VersionId"))
        for each in root.iterfind("Object")
    ]
    if not 1 <= len(objects) <= MOST_DELETED:
        raise _malformed(f"a request deletes 1 to {MOST_DELETED} objects")
    if not all(each.key for each in objects):
        raise _malformed("an Object has no Key")
    return objects, _text(root, "Quiet").lower() == "true"


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
    for each in parse(data, "CompleteMultipartUpload").iterfind("Part"):
        number, etag = _text(each, "PartNumber"), _text(each, "ETag")
        if _NUMBER.fullmatch(number) is None or not 1 <= int(number) <= MOST_PARTS or not etag:
            raise _malformed(f"a Part needs an ETag and a PartNumber of 1 to {MOST_PARTS}")
        if parts and parts[-1].number >= int(number):
            raise S3Error("InvalidPartOrder", "The parts are not in ascending order.")
        found = ((name, _text(each, f"Checksum{name.upper()}")) for name in ALGORITHMS)
        parts.append(
            NamedPart(int(number), etag.strip('"'), {n: text for n, text in found if text})
        )
    if not parts:
        raise _malformed("it names no parts")
    return parts


class Markup(str):
    """Text that is XML already."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    """Return a text as XML; what XML cannot contain is replaced.

    `name_of` refuses such names that clients use.
    """
    if _SPECIAL.search(text):
        text = _NOT_IN_XML.sub("\ufffd", escape(text, {"\r": "&#13;"}))
    return Markup(text)


def elements(**named: str | int | list[Markup] | None) -> Markup:
    """Return elements in the given order.

    A list becomes an element for each of its items, a boolean ``true`` or ``false``, and ``None``
    nothing.
    """
    written = []
    for name, value in named.items():
        for each in value if isinstance(value, list) else () if value is None else (value,):
            if isinstance(each, bool):
                text = "true" if each else "false"
            else:
                text = each if isinstance(each, Markup) else escaped(str(each))
            written.append(f"<{name}>{text}</{name}>")
    return Markup("".join(written))


OWNER: Final = elements(ID="lakecli", DisplayName="lakecli")
"""The owner of everything; there are no others."""


def document(root: str, text: str = "", /, **named: str | int | list[Markup] | None) -> bytes:
    """Return a whole document with a text or elements, in S3's namespace."""
    inner = escaped(text) + elements(**named)
    return f'{_START}<{root} xmlns="{NAMESPACE}">{inner}</{root}>'.encode()


def error_document(error: S3Error, **more: str) -> bytes:
    """Return the document of an error with further elements."""
    written = elements(Code=error.code, Message=error.message, **{**error.details, **more})
    return f"{_START}<Error>{written}</Error>".encode()


def name_of(path: bytes, *, encoding: str = "") -> Markup:
    """Return the name of an object or prefix for an answer.

    Args:
        encoding: ``url`` for names percent-encoded as in a URL; ``""``: as they are.

    Raises:
        S3Error: InvalidArgument; XML cannot contain the name as it is, so the client must ask with
            ``encoding-type=url``.
    """
    if encoding:
        return Markup(_ENCODED_BYTE.sub(lambda found: _PERCENT[found[0][0]], path).decode())
    try:
        text = path.decode()
    except UnicodeDecodeError:
        text = "\0"
    if _NOT_PLAIN.search(text):
        raise S3Error(
            "InvalidArgument",
            "A name has characters that XML cannot contain: repeat with encoding-type=url.",
        )
    return escaped(text)
