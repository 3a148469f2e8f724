"""Cases of deletions, copies and uploads in parts."""

from __future__ import annotations

import re
from typing import Any, Final

from tests.serving.s3_case import (
    TEXT,
    Request,
    Step,
    copy,
    delete,
    get,
    group,
    head,
    listing,
    put,
    step,
)
from tests.serving.s3_cases_objects import ETAG, ISO, LATER, PAST
from tests.serving.s3_wire import Answer, Wire, digest64

NONE: Final = "no-such-upload-id"
PART: Final = b"0123456789abcdef" * (5 << 16)  # 5 MiB, the smallest that is not the last
TAIL: Final = b"the end"


def _deletion(*keys: str, quiet: bool = False, body: bytes = b"", **more: object) -> Step:
    """Return a DeleteObjects with its MD5."""
    objects = "".join(f"<Object><Key>«p»{key}</Key></Object>" for key in keys)
    how = "<Quiet>true</Quiet>" if quiet else ""
    document = body or f"<Delete>{how}{objects}</Delete>".encode()
    return step("POST", query={"delete": ""}, body=document, **{"by": _with_md5, **more})


def _with_md5(wire: Wire, request: Request) -> Answer:
    md5 = {"Content-MD5": digest64("md5", request.body)}
    return wire.send(*request._replace(headers={**md5, **request.headers}))


def _with_crc32(wire: Wire, request: Request) -> Answer:
    crc = {
        "x-amz-checksum-crc32": digest64("crc32", request.body),
        "x-amz-sdk-checksum-algorithm": "CRC32",
    }
    return wire.send(*request._replace(headers={**crc, **request.headers}))


BROKEN: Final[dict[str, Any]] = {"status": 400, "code": "MalformedXML"}
_BOMB: Final = b'<!DOCTYPE d [<!ENTITY e "k">]><Delete><Object><Key>&e;</Key></Object></Delete>'

DELETES = group(
    "DeleteObject",
    {
        "an object is deleted": [put(), delete(text=b""), get(status=404, code="NoSuchKey")],
        "a missing object is deleted": [delete()],
        "a deleted object is not listed": [
            put(),
            put("l"),
            delete(),
            listing(xml={"KeyCount": ["1"]}),
        ],
        "only the object of that name": [put("a"), put("a/b"), delete("a"), get("a/b", text=TEXT)],
        "If-Match deletes the known object": [
            put(keep={"etag": "ETag"}),
            delete(headers={"If-Match": "«etag»"}),
            head(status=404),
        ],
        "If-Match keeps another object from deletion": [
            put(),
            delete(headers={"If-Match": '"0123"'}, status=412, code="PreconditionFailed"),
            get(text=TEXT),
        ],
    },
) + group(
    "DeleteObjects",
    {
        "each key is answered": [
            put("a"),
            put("b"),
            _deletion("a", "b", xml={"Deleted/Key": ["«p»a", "«p»b"], "Error": []}),
            listing(xml={"KeyCount": ["0"]}),
        ],
        "quiet: only errors are answered": [
            put("a"),
            _deletion("a", quiet=True, xml={"Deleted": [], "Error": []}),
            head("a", status=404),
        ],
        "a missing key counts as deleted": [_deletion("a", xml={"Deleted/Key": ["«p»a"]})],
        "keys are escaped": [
            put("a&b<c> é.csv"),
            _deletion("a&amp;b&lt;c> é.csv", xml={"Deleted/Key": ["«p»a&b<c> é.csv"]}),
            head("a&b<c> é.csv", status=404),
        ],
        "with a namespace and a declaration": [
            put("a"),
            _deletion(
                body=b"<?xml version='1.0' encoding='UTF-8'?>\n"
                b"<Delete xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>\n"
                b" <Object>\n  <Key>\xc2\xabp\xc2\xbba</Key>\n </Object>\n</Delete>",
                xml={"Deleted/Key": ["«p»a"]},
            ),
        ],
        "a thousand keys": [
            _deletion(*map("k{}".format, range(1_000)), quiet=True, xml={"Error": []})
        ],
        "more than a thousand keys": [_deletion(*map("k{}".format, range(1_001)), **BROKEN)],
        "no keys": [_deletion(body=b"<Delete></Delete>", **BROKEN)],
        "a document that ends early": [_deletion(body=b"<Delete><Object><Key>k", **BROKEN)],
        "no document": [_deletion(body=b"k", **BROKEN)],
        "another document": [_deletion(body=b"<Create><Key>k</Key></Create>", **BROKEN)],
        "entities": [_deletion(body=_BOMB, **BROKEN)],
        "a wrong MD5 of the keys": [
            put("a"),
            _deletion(
                "a", headers={"Content-MD5": digest64("md5", b"x")}, status=400, code="BadDigest"
            ),
            head("a"),
        ],
        "a CRC32 of the keys in place of an MD5": [
            put("a"),
            _deletion("a", by=_with_crc32, xml={"Deleted/Key": ["«p»a"]}),
        ],
        "an ETag that is not the object's": [
            put("a"),
            _deletion(
                body='<Delete><Object><Key>«p»a</Key><ETag>"0123"</ETag></Object></Delete>'.encode(),
                xml={"Error/Key": ["«p»a"], "Error/Code": ["PreconditionFailed"], "Deleted": []},
            ),
            head("a"),
        ],
    },
)


_ITSELF: Final[dict[str, Any]] = {"status": 400, "code": "InvalidRequest"}
_REPLACE: Final = {"x-amz-metadata-directive": "REPLACE"}
COPIES = group(
    "CopyObject",
    {
        "a copy is the object": [
            put(headers={"Content-Type": "text/csv", "x-amz-meta-a": "1"}),
            copy("k", xml={"ETag": [ETAG], "LastModified": [ISO]}),
            get("copy", text=TEXT, has={"Content-Type": "text/csv", "x-amz-meta-a": "1"}),
            get(text=TEXT),
        ],
        "other metadata": [
            put(headers={"Content-Type": "text/csv", "x-amz-meta-a": "1"}),
            copy("k", headers={**_REPLACE, "Content-Type": "text/tab", "x-amz-meta-b": "2"}),
            head(
                "copy", has={"Content-Type": "text/tab", "x-amz-meta-a": None, "x-amz-meta-b": "2"}
            ),
        ],
        "a copy keeps metadata whatever its own headers say": [
            put(headers={"x-amz-meta-a": "1"}),
            copy("k", headers={"x-amz-meta-b": "2"}),
            head("copy", has={"x-amz-meta-a": "1", "x-amz-meta-b": None}),
        ],
        "onto itself": [put(), copy("k", "k", **_ITSELF)],
        "onto itself with other metadata": [
            put(headers={"x-amz-meta-a": "1"}),
            copy("k", "k", headers={**_REPLACE, "x-amz-meta-a": "2"}),
            get(text=TEXT, has={"x-amz-meta-a": "2"}),
        ],
        "of a missing object": [copy("k", status=404, code="NoSuchKey")],
        "from a missing bucket": [
            copy(
                "k",
                headers={"x-amz-copy-source": "/no-such-bucket-x/main/k"},
                status=404,
                code="NoSuchBucket",
            )
        ],
        "a source without a slash before": [
            put(),
            copy("k", headers={"x-amz-copy-source": "«bucket»/«p»k"}),
            get("copy", text=TEXT),
        ],
        "a source with a percent-encoded name": [
            put("a b+é%.csv"),
            copy("a%20b%2B%C3%A9%25.csv"),
            get("copy", text=TEXT),
        ],
        "a source with version null": [put(), copy("k?versionId=null"), get("copy", text=TEXT)],
        "a source that is only a name": [
            copy("k", headers={"x-amz-copy-source": "k"}, status=400, code="InvalidArgument")
        ],
        "a directive that is none": [
            put(),
            copy(
                "k",
                headers={"x-amz-metadata-directive": "KEEP"},
                status=400,
                code="InvalidArgument",
            ),
        ],
        "if the source matches": [
            put(keep={"etag": "ETag"}),
            copy("k", headers={"x-amz-copy-source-if-match": "«etag»"}),
            copy(
                "k",
                headers={"x-amz-copy-source-if-match": '"0123"'},
                status=412,
                code="PreconditionFailed",
            ),
        ],
        "if the source matches not": [
            put(keep={"etag": "ETag"}),
            copy(
                "k",
                headers={"x-amz-copy-source-if-none-match": "«etag»"},
                status=412,
                code="PreconditionFailed",
            ),
            head("copy", status=404),
        ],
        "if the source is old": [
            put(),
            copy("k", headers={"x-amz-copy-source-if-unmodified-since": LATER}),
            copy(
                "k",
                headers={"x-amz-copy-source-if-unmodified-since": PAST},
                status=412,
                code="PreconditionFailed",
            ),
        ],
        "a copy that replaces nothing": [
            put(),
            put("copy", b"old"),
            copy("k", headers={"If-None-Match": "*"}, status=412, code="PreconditionFailed"),
            get("copy", text=b"old"),
        ],
        "an empty object is copied": [put("k", b""), copy("k"), get("copy", text=b"")],
    },
)


def _create(key: str = "k", **more: object) -> Step:
    """Begin an upload; its name is kept."""
    keep = {"upload": "/UploadId"}
    return step("POST", key, query={"uploads": ""}, **{"keep": keep, **more})


def _part(number: int, body: bytes = PART, key: str = "k", **more: object) -> Step:
    query = {"partNumber": str(number), "uploadId": str(more.pop("upload", "«upload»"))}
    return step("PUT", key, query=query, body=body, **{"keep": {f"e{number}": "ETag"}, **more})


def _complete(*numbers: int, etag: str = "", key: str = "k", **more: object) -> Step:
    parts = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{etag or f'«e{number}»'}</ETag></Part>"
        for number in numbers
    )
    document = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
    query = {"uploadId": str(more.pop("upload", "«upload»"))}
    return step("POST", key, query=query, **{"body": document, **more})


def _abort(**more: object) -> Step:
    return step(
        "DELETE",
        "k",
        query={"uploadId": str(more.pop("upload", "«upload»"))},
        **{"status": 204, **more},
    )


def _parts(query: dict[str, str] | None = None, **more: object) -> Step:
    upload = str(more.pop("upload", "«upload»"))
    return step("GET", "k", query={"uploadId": upload, **(query or {})}, **more)


def _copied_part(number: int, source: str, span: str = "", **more: object) -> Step:
    ranges = {"x-amz-copy-source-range": span} if span else {}
    headers = {"x-amz-copy-source": f"/«bucket»/«p»{source}", **ranges}
    query = {"partNumber": str(number), "uploadId": "«upload»"}
    keep = {f"e{number}": "/ETag"}
    return step("PUT", "k", query=query, headers=headers, **{"keep": keep, **more})


_GONE: Final[dict[str, Any]] = {"status": 404, "code": "NoSuchUpload"}
_WRONG: Final[dict[str, Any]] = {"status": 400, "code": "InvalidPart"}
_LATE: Final[dict[str, Any]] = {"status": 412, "code": "PreconditionFailed"}
_BAD: Final[dict[str, Any]] = {"status": 400, "code": "InvalidArgument"}
PARTS = (
    group(
        "CreateMultipartUpload",
        {
            "an upload has a name": [
                _create(
                    xml={"Bucket": ["«bucket»"], "Key": ["«p»k"], "UploadId": [re.compile(".+")]}
                ),
                head(status=404),
                _abort(),
            ],
            "headers of the object": [
                _create(headers={"Content-Type": "text/csv", "x-amz-meta-a": "1"}),
                _part(1, TAIL),
                _complete(1),
                get(text=TAIL, has={"Content-Type": "text/csv", "x-amz-meta-a": "1"}),
            ],
        },
    )
    + group(
        "UploadPart",
        {
            "a part has an ETag": [_create(), _part(1, TAIL, has={"ETag": ETAG}), _abort()],
            "the last one of a number counts": [
                _create(),
                _part(1, b"first"),
                _part(1, TAIL),
                _complete(1),
                get(text=TAIL),
            ],
            "an unknown upload": [_part(1, TAIL, upload=NONE, **_GONE)],
            "number 0": [_create(), _part(0, TAIL, **_BAD), _abort()],
            "number 10,001": [_create(), _part(10_001, TAIL, **_BAD), _abort()],
            "a number that is none": [
                _create(),
                step(
                    "PUT", "k", query={"partNumber": "x", "uploadId": "«upload»"}, body=TAIL, **_BAD
                ),
                _abort(),
            ],
            "a part with a wrong MD5": [
                _create(),
                _part(
                    1,
                    TAIL,
                    headers={"Content-MD5": digest64("md5", b"x")},
                    status=400,
                    code="BadDigest",
                ),
                _parts(xml={"Part": []}),
                _abort(),
            ],
            "a part with a wrong CRC32C": [
                _create(headers={"x-amz-checksum-algorithm": "CRC32C"}),
                _part(
                    1,
                    TAIL,
                    headers={"x-amz-checksum-crc32c": digest64("crc32c", b"x")},
                    status=400,
                    code="BadDigest",
                ),
                _parts(xml={"Part": []}),
                _abort(),
            ],
        },
    )
    + group(
        "CompleteMultipartUpload",
        {
            "the parts in their order": [
                _create(),
                _part(2, TAIL),
                _part(1),
                _complete(
                    1,
                    2,
                    xml={"Bucket": ["«bucket»"], "Key": ["«p»k"], "ETag": [ETAG]},
                    keep={"etag": "/ETag"},
                ),
                get(text=PART + TAIL, has={"ETag": "«etag»"}),
                head(has={"Content-Length": str(len(PART + TAIL)), "ETag": "«etag»"}),
                listing(xml={"Contents/ETag": ["«etag»"]}),
            ],
            "its ETag has a dash": [
                _create(),
                _part(1, TAIL),
                _complete(1, xml={"ETag": [re.compile(r'"[0-9a-f]+-\d+"')]}),
            ],
            "numbers with gaps": [
                _create(),
                _part(3),
                _part(7),
                _part(9_999, TAIL),
                _complete(3, 7, 9_999),
                get(text=PART + PART + TAIL),
            ],
            "only the parts that are named": [
                _create(),
                _part(1),
                _part(2),
                _part(3, TAIL),
                _complete(1, 3),
                get(text=PART + TAIL),
            ],
            "an empty part alone": [_create(), _part(1, b""), _complete(1), get(text=b"")],
            "a range over two parts": [
                _create(),
                _part(1),
                _part(2, TAIL),
                _complete(1, 2),
                get(
                    headers={"Range": f"bytes={len(PART) - 4}-{len(PART) + 2}"},
                    status=206,
                    text=b"cdefthe",
                ),
            ],
            "a small part that is not the last": [
                _create(),
                _part(1, TAIL),
                _part(2, TAIL),
                _complete(1, 2, status=400, code="EntityTooSmall"),
                _abort(),
            ],
            "a part that is not there": [
                _create(),
                _part(1, TAIL),
                _complete(1, 2, etag='"0"', **_WRONG),
                _abort(),
            ],
            "a part with another ETag": [
                _create(),
                _part(1, TAIL),
                _complete(1, etag='"0123"', **_WRONG),
                _abort(),
            ],
            "parts out of order": [
                _create(),
                _part(1),
                _part(2),
                _complete(2, 1, status=400, code="InvalidPartOrder"),
                _abort(),
            ],
            "no part": [_create(), _part(1, TAIL), _complete(**BROKEN), _abort()],
            "a document that is none": [
                _create(),
                _complete(body=b"<Complete", **BROKEN),
                _abort(),
            ],
            "an upload that is not known": [_complete(1, etag='"0"', upload=NONE, **_GONE)],
            "after a mistake the upload goes on": [
                _create(),
                _part(1, TAIL),
                _complete(1, etag='"0123"', **_WRONG),
                _complete(1),
                get(text=TAIL),
            ],
            "a completed upload is over": [
                _create(),
                _part(1, TAIL),
                _complete(1),
                _part(2, TAIL, **_GONE),
            ],
            "it replaces an object": [
                put(),
                _create(),
                _part(1, TAIL),
                _complete(1),
                get(text=TAIL),
            ],
            "If-None-Match: * replaces nothing by parts": [
                put(),
                _create(),
                _part(1, TAIL),
                _complete(1, headers={"If-None-Match": "*"}, **_LATE),
                get(text=TEXT),
                _abort(),
            ],
            "If-None-Match: * creates by parts": [
                _create(),
                _part(1, TAIL),
                _complete(1, headers={"If-None-Match": "*"}),
                get(text=TAIL),
            ],
            "If-Match of another object by parts": [
                put(),
                _create(),
                _part(1, TAIL),
                _complete(1, headers={"If-Match": '"0123"'}, **_LATE),
                get(text=TEXT),
                _abort(),
            ],
            "If-Match by parts": [
                put(keep={"etag": "ETag"}),
                _create(),
                _part(1, TAIL),
                _complete(1, headers={"If-Match": "«etag»"}),
                get(text=TAIL),
            ],
        },
    )
    + group(
        "AbortMultipartUpload",
        {
            "an upload is aborted": [
                _create(),
                _part(1, TAIL),
                _abort(text=b""),
                _parts(**_GONE),
                head(status=404),
            ],
            "an unknown upload is not aborted": [_abort(upload=NONE, **_GONE)],
            "another object's upload is not aborted": [
                _create("other"),
                _abort(**_GONE),
                step("DELETE", "other", query={"uploadId": "«upload»"}, status=204),
            ],
        },
    )
    + group(
        "ListParts",
        {
            "parts with their sizes": [
                _create(),
                _part(2, TEXT),
                _part(1, TAIL),
                _parts(
                    xml={
                        "Part/PartNumber": ["1", "2"],
                        "Part/Size": ["7", "10"],
                        "Part/ETag": ["«e1»", "«e2»"],
                        "Part/LastModified": [ISO, ISO],
                        "UploadId": ["«upload»"],
                        "IsTruncated": ["false"],
                    }
                ),
                _abort(),
            ],
            "parts page by page": [
                _create(),
                _part(1, TAIL),
                _part(2, TAIL),
                _part(3, TAIL),
                _parts(
                    {"max-parts": "2"},
                    xml={
                        "Part/PartNumber": ["1", "2"],
                        "IsTruncated": ["true"],
                        "NextPartNumberMarker": ["2"],
                    },
                ),
                _parts(
                    {"max-parts": "2", "part-number-marker": "2"},
                    xml={"Part/PartNumber": ["3"], "IsTruncated": ["false"]},
                ),
                _abort(),
            ],
            "of an unknown upload": [_parts(upload=NONE, **_GONE)],
        },
    )
    + group(
        "ListMultipartUploads",
        {
            "uploads below a prefix": [
                _create("a/k", keep={"u1": "/UploadId"}),
                _create("b", keep={"u2": "/UploadId"}),
                step(
                    "GET",
                    query={"uploads": "", "prefix": "«p»"},
                    xml={"Upload/Key": ["«p»a/k", "«p»b"], "Upload/UploadId": ["«u1»", "«u2»"]},
                ),
                step("GET", query={"uploads": "", "prefix": "«p»b"}, xml={"Upload/Key": ["«p»b"]}),
            ],
            "uploads by directories": [
                _create("a/k"),
                _create("b"),
                step(
                    "GET",
                    query={"uploads": "", "prefix": "«p»", "delimiter": "/"},
                    xml={"Upload/Key": ["«p»b"], "CommonPrefixes/Prefix": ["«p»a/"]},
                ),
            ],
            "uploads page by page": [
                _create("a"),
                _create("b"),
                step(
                    "GET",
                    query={"uploads": "", "prefix": "«p»", "max-uploads": "1"},
                    xml={"Upload/Key": ["«p»a"], "IsTruncated": ["true"]},
                    keep={"key": "/NextKeyMarker", "id": "/NextUploadIdMarker"},
                ),
                step(
                    "GET",
                    query={
                        "uploads": "",
                        "prefix": "«p»",
                        "max-uploads": "1",
                        "key-marker": "«key»",
                        "upload-id-marker": "«id»",
                    },
                    xml={"Upload/Key": ["«p»b"], "IsTruncated": ["false"]},
                ),
            ],
            "an upload is no object": [_create("d/k"), listing(xml={"KeyCount": ["0"]})],
            "a completed upload is not listed": [
                _create(),
                _part(1, TAIL),
                _complete(1),
                step("GET", query={"uploads": "", "prefix": "«p»"}, xml={"Upload": []}),
            ],
        },
    )
    + group(
        "UploadPartCopy",
        {
            "a part is an object": [
                put("source", TEXT),
                _create(),
                _copied_part(1, "source", xml={"ETag": [ETAG], "LastModified": [ISO]}),
                _complete(1),
                get(text=TEXT),
            ],
            "a part is a range of an object": [
                put("source", TEXT),
                _create(),
                _copied_part(1, "source", "bytes=2-5"),
                _complete(1),
                get(text=b"2345"),
            ],
            "a range that is not in the object": [
                put("source", TEXT),
                _create(),
                _copied_part(
                    1,
                    "source",
                    "bytes=5-20",
                    status=(400, 416),
                    code=("InvalidArgument", "InvalidRange"),
                ),
                _abort(),
            ],
            "a part of a missing object": [
                _create(),
                _copied_part(1, "source", status=404, code="NoSuchKey"),
                _abort(),
            ],
        },
    )
)
