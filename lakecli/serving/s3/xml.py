"""Reads and writes the XML documents in S3's requests and responses.

Anyone with a presigned URL can send a document. So a document with a DTD is refused before its
entities are read, and the size and the number of tags are limited. Elements are matched without
their namespace, because many clients leave it out.
"""

import re
from codecs import BOM_UTF8
from typing import Final, NamedTuple
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers.expat import ExpatError, ParserCreate
from xml.sax.saxutils import escape

from lakecli.serving.s3.errors import S3Error

NAMESPACE: Final = "http://s3.amazonaws.com/doc/2006-03-01/"

MOST_DELETED: Final = 1000
MOST_PARTS: Final = 10_000
LARGEST: Final = 8 << 20
"""Maximum size of a document in bytes.

There is room for 1,000 keys of 1,024 bytes as character references, and for 10,000 parts with all
their checksums.
"""

_START: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'
_MOST_TAGS: Final = 200_000
_NOT_PLAIN: Final = re.compile("[^ -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NOT_IN_XML: Final = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ENCODED_BYTE: Final = re.compile(rb"[^A-Za-z0-9_.~/-]")
_PERCENT: Final = [b"%%%02X" % byte for byte in range(256)]
"""The percent-encoded form of each byte; for names that need it, `urllib` is five times slower."""


class _Builder(TreeBuilder):
    """Builds elements without namespaces and attributes."""

    def start(self, tag: str, _: object, /) -> Element:
        return super().start(tag.rpartition(":")[2], {})

    def end(self, tag: str, /) -> Element:
        return super().end(tag.rpartition(":")[2])


def _refuse(*_: object) -> None:
    raise ExpatError


def parse(data: bytes, root: str) -> Element:
    """Return the root element of a document.

    Args:
        root: the name that the root must have.

    Raises:
        S3Error: MalformedXML.
    """
    if data.count(b"<") > _MOST_TAGS:
        raise malformed("it has too many tags")
    builder = _Builder()
    # Unlike `XMLParser`, expat without namespaces does not put a possibly long one in every name.
    parser = ParserCreate("UTF-8")
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = parser.ProcessingInstructionHandler = _refuse
    try:
        parser.Parse(data.removeprefix(BOM_UTF8), True)  # noqa: FBT003 - pyexpat takes no keywords
        found = builder.close()
    except ExpatError:
        found = Element("")
    if found.tag != root:
        raise malformed(f"expected was a document {root}")
    return found


def malformed(problem: str) -> S3Error:
    """Return the error for a document that cannot be used."""
    return S3Error("MalformedXML", f"The XML is malformed, or not of S3: {problem}.")


def text_of(element: Element, name: str) -> str:
    """Return the text of a child element without blanks around it; ``""`` if there is none."""
    return element.findtext(name, "").strip()


class ToDelete(NamedTuple):
    """An object in a DeleteObjects request.

    Attributes:
        etag: the ETag that the object must have; ``""`` for any.
    """

    key: str
    etag: str


def read_deletion(data: bytes) -> tuple[list[ToDelete], bool]:
    """Return the 1 to 1,000 objects in the body of DeleteObjects, and whether it is quiet.

    Raises:
        S3Error: MalformedXML; or InvalidArgument, if one has a version ID.
    """
    root = parse(data, "Delete")
    objects = [
        ToDelete(each.findtext("Key", ""), text_of(each, "ETag"))
        for each in root.iterfind("Object")
    ]
    if root.find("Object/VersionId") is not None:
        raise S3Error("InvalidArgument", "objects have no version IDs")
    if not 1 <= len(objects) <= MOST_DELETED:
        raise malformed(f"a request deletes 1 to {MOST_DELETED} objects")
    if not all(each.key for each in objects):
        raise malformed("an Object has no Key")
    return objects, text_of(root, "Quiet").lower() == "true"


class Markup(str):
    """Text that is already XML, so it must not be escaped."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    """Return a text escaped for XML; characters that XML cannot contain are replaced.

    For names of objects use `name_of`, which refuses such characters.
    """
    return Markup(_NOT_IN_XML.sub("\ufffd", escape(text, {"\r": "&#13;"})))


def elements(**named: str | int | list[Markup] | None) -> Markup:
    """Return XML elements in the given order.

    A list becomes one element per item; a boolean becomes ``true`` or ``false``; ``None`` is left
    out.
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
"""The owner of all buckets, objects and uploads."""


def document(root: str, /, **named: str | int | list[Markup] | None) -> bytes:
    """Return an XML document in S3's namespace; `elements` describes the elements of its root."""
    return f'{_START}<{root} xmlns="{NAMESPACE}">{elements(**named)}</{root}>'.encode()


def error_document(error: S3Error, **more: str) -> bytes:
    """Return the document of an error, with additional elements."""
    written = elements(Code=error.code, Message=error.message, **more)
    return f"{_START}<Error>{written}</Error>".encode()


def name_of(path: bytes, *, encoding: str = "") -> Markup:
    """Return the name of an object or prefix as XML.

    Args:
        path: the name as bytes.
        encoding: ``url`` to percent-encode the name as in a URL; ``""`` to leave it as it is.

    Raises:
        S3Error: InvalidArgument; XML cannot contain the name unencoded, so the client must request
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
