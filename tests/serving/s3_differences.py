"""Where servers answer other than S3: the cases by reason.

A case that is named here must fail. One that does no longer is taken out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tests.serving.s3_cases_objects import KINDS

_RANGES: Final = tuple(
    f"Range: {span}, which is not in the object"
    for span in ("bytes=10-", "bytes=99-100", "bytes=-0", "bytes=0-0")
)
_BEHIND: Final = tuple(f"a {kind} behind the body" for kind in KINDS)

OURS: Final[Mapping[str, Sequence[str]]] = {
    "what is not there is answered as not implemented, not as empty": (
        "no policy",
        "no website",
        "no life cycle",
        "no tags of a bucket",
    ),
    "a repository is deleted by lakecli or lakeFS's API, not by programs that know only S3": (
        "a bucket with objects is not deleted",
    ),
    "commits take the place of versions": ("version null", "a source with version null"),
    "as in lakeFS": ("the type of bytes of unknown type",),
    "an entry has one checksum, BLAKE3; others are verified when they come, and not kept": (
        "the checksum is kept",
    ),
    "uploads are listed one by one": ("uploads by directories",),
    "the condition is judged as RFC 9110 says": ("If-None-Match with an ETag",),
    "the bucket of the namespace decides about the storage class": (
        "a storage class that is none",
    ),
}
"""Where `lakecli serve` differs, on purpose."""

MOTO: Final[Mapping[str, Sequence[str]]] = {
    "signatures, dates and digests are not verified": (
        "a body with another digest",
        "a digest that is none",
        "no digest",
        "a chunk with another signature",
        "a chunk with other bytes",
        "a checksum behind with another signature",
        "nobody",
        "an unknown key",
        "another secret",
        "another date",
        "another header",
        "without a date",
        "an Authorization that ends early",
        "a URL for another method",
        "a URL that has ended",
        "a URL of the future",
        "a URL for more than a week",
        "a URL with more in its query",
    ),
    "checksums and MD5s are not verified": (
        "a wrong Content-MD5",
        "a Content-MD5 that is none",
        *(f"a wrong {kind} of the object" for kind in KINDS),
        *(f"a wrong {kind} behind the body" for kind in KINDS),
        "a checksum that is none",
        "two checksums",
        "a wrong MD5 of the keys",
        "a part with a wrong MD5",
        "a part with a wrong CRC32C",
        "a wrong checksum behind signed chunks",
        "a checksum that was announced and is missing",
    ),
    "a checksum is kept only where x-amz-sdk-checksum-algorithm is sent": (
        "the checksum is answered",
        "the checksum is kept",
    ),
    "lengths and frames of chunks are not verified": (
        "chunks without their length",
        "chunks of more than was announced",
        "chunks of less than was announced",
        "a chunk whose size is none",
        "chunks that end early",
    ),
    "an internal error, or none, where S3 refuses": (
        "a method that S3 has not",
        "no keys",
        "a document that ends early",
        "no document",
        "another document",
        "entities",
        "a document that is none",
        "a source that is only a name",
        "a directive that is none",
        "an unknown upload",
        "an upload that is not known",
        "a completed upload is over",
        "number 0",
        "a number that is none",
        "another object's upload is not aborted",
        "a part of a missing object",
        "max-keys below 0",
        "max-keys that is none",
        "a token that is none",
        "an encoding that is none",
        "a range that is not in the object",
        "parts out of order",
    ),
    "no limits of sizes and numbers": (
        "too much user metadata",
        "a key of more than 1,024 bytes",
        "more than a thousand keys",
    ),
    "blanks at the end of a value are kept": ("user metadata", "a header with blanks"),
    "416 without Content-Range": _RANGES,
    "any unit of a range counts": ("Range: lines=1-2, which says nothing",),
    "conditions are left out, or one of two counts": (
        "If-None-Match with an ETag",
        "If-Match",
        "If-Match of several",
        "If-Match goes before If-Unmodified-Since",
        "an ETag that is not the object's",
        "if the source matches",
        "if the source is old",
        "a copy that replaces nothing",
        "If-Match of another object by parts",
    ),
    "Quiet is left out": ("quiet: only errors are answered",),
    "listings lack elements, pages or directories": (
        "uploads by directories",
        "uploads page by page",
        "page by page",
        "an empty marker",
        "pages with directories have a next marker",
        "pages without directories have none",
    ),
}
"""What moto 5.2 does otherwise."""

VERSITYGW: Final[Mapping[str, Sequence[str]]] = {
    "a key is a path of the file system": (
        "a key with two slashes",
        "a key with a slash at its end",
        "a key with 300 bytes in a segment",
        "a key of 1,024 bytes",
        "a key of more than 1,024 bytes",
        "a key beside a directory of its name",
        "only the object of that name",
        "a prefix that is a name",
        "a directory named by its slash twice",
    ),
    "not implemented": ("no life cycle", "the owner of an object"),
    "a storage class is not checked": ("a storage class that is none",),
    "the error does not name the key": ("a missing object",),
    "416 without Content-Range": _RANGES,
    "an ETag is one, and compared as text": ("If-Match of several",),
    "304 without an ETag": ("If-None-Match",),
    "times of files are compared to the nanosecond": ("If-Modified-Since", "If-Unmodified-Since"),
    "Quiet is left out": ("quiet: only errors are answered",),
    "documents are hardly checked": (
        "more than a thousand keys",
        "no keys",
        "a document that ends early",
        "no document",
        "another document",
        "entities",
        "an upload that is not known",
    ),
    "conditions are left out": ("an ETag that is not the object's", "a copy that replaces nothing"),
    "a copy that is not to be made is 304": ("if the source matches not",),
    "without versions, no version is null": ("a source with version null",),
    "a marker of uploads is refused": ("uploads page by page",),
    "tokens and encodings are not checked": ("a token that is none", "an encoding that is none"),
    "encoding-type is left out": (
        "names in the encoding of URLs",
        "URL encoding by the first version",
    ),
    "listings lack elements, or have more": (
        "an empty marker",
        "pages without directories have none",
    ),
    "aws-chunked is kept as the encoding of the object": (
        "signed chunks",
        "signed chunks with a checksum behind",
        *_BEHIND,
        "an empty line too many behind the checksum",
        "chunks of something compressed",
    ),
    "another code": ("a checksum behind with another signature", "an unknown key"),
    "a URL may be of the future": ("a URL of the future",),
}
"""What versitygw 1.8 does otherwise, over a directory."""

DIFFERENCES: Final = {
    name: {case: reason for reason, cases in by_reason.items() for case in cases}
    for name, by_reason in (("lakecli", OURS), ("moto", MOTO), ("versitygw", VERSITYGW))
}
"""The reasons by server and case."""
