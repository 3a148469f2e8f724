"""Cases of single objects, and of requests on the bucket itself."""

from __future__ import annotations

import re
from typing import Final

from tests.serving.s3_case import TEXT, delete, get, group, head, listing, put, step
from tests.serving.s3_wire import digest64

ETAG: Final = re.compile(r'"[0-9a-f]{32,64}(-\d+)?"')
DATE: Final = re.compile(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT")
ISO: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z")
PAST: Final = "Tue, 01 Jan 2019 00:00:00 GMT"
LATER: Final = "Fri, 01 Jan 2100 00:00:00 GMT"
MD5: Final = digest64("md5", TEXT)
OTHER_MD5: Final = digest64("md5", b"other")
KINDS: Final = ("crc32", "crc32c", "crc64nvme", "sha1", "sha256")
SAVED: Final = {
    "Content-Type": "text/csv; charset=utf-8",
    "Cache-Control": "max-age=60",
    "Content-Disposition": 'attachment; filename="a.csv"',
    "Content-Encoding": "gzip",
    "Content-Language": "de",
}
FIVE: Final = {
    "response-content-type": "text/html",
    "response-content-disposition": "attachment",
    "response-cache-control": "no-store",
    "response-content-encoding": "br",
    "response-content-language": "fr",
    "response-expires": LATER,
}

BUCKETS = group(
    "ListBuckets",
    {
        "buckets are listed": [
            step(
                "GET",
                path="/",
                includes=["<Name>«bucket»</Name>", "<CreationDate>"],
                xml={"Owner/ID": [re.compile(".+")]},
            )
        ]
    },
) + group(
    "Bucket",
    {
        "HEAD of a bucket": [step("HEAD", text=b"")],
        "HEAD of a bucket tells the region": [
            step("HEAD", has={"x-amz-bucket-region": re.compile(".+")})
        ],
        "HEAD of a missing bucket": [step("HEAD", path="/no-such-bucket-x", status=404, text=b"")],
        "the location is announced": [
            step("GET", query={"location": ""}, has={"Content-Type": re.compile(".*xml.*")})
        ],
        "no versioning": [step("GET", query={"versioning": ""}, xml={"Status": []})],
        "a listing of a missing bucket": [
            step(
                "GET",
                path="/no-such-bucket-x",
                query={"list-type": "2"},
                status=404,
                code="NoSuchBucket",
            )
        ],
        "an object of a missing bucket": [
            step("GET", path="/no-such-bucket-x/main/k", status=404, code="NoSuchBucket")
        ],
        "a PUT to a missing bucket": [
            step("PUT", path="/no-such-bucket-x/main/k", body=TEXT, status=404, code="NoSuchBucket")
        ],
        "a bucket has an owner who may do everything": [
            step(
                "GET",
                query={"acl": ""},
                xml={"AccessControlList/Grant/Permission": ["FULL_CONTROL"]},
            )
        ],
        "no policy": [step("GET", query={"policy": ""}, status=404, code="NoSuchBucketPolicy")],
        "no website": [
            step("GET", query={"website": ""}, status=404, code="NoSuchWebsiteConfiguration")
        ],
        "no life cycle": [
            step("GET", query={"lifecycle": ""}, status=404, code="NoSuchLifecycleConfiguration")
        ],
        "no tags of a bucket": [
            step("GET", query={"tagging": ""}, status=404, code="NoSuchTagSet")
        ],
        "a bucket with objects is not deleted": [
            put(),
            step("DELETE", status=409, code="BucketNotEmpty"),
        ],
        "a method that S3 has not": [step("PATCH", "k", status=405, code="MethodNotAllowed")],
    },
)

PUTS = group(
    "PutObject",
    {
        "an object is what was put": [
            put(has={"ETag": ETAG}),
            get(text=TEXT, has={"Content-Length": "10", "ETag": ETAG}),
        ],
        "an empty object": [
            put("k", b""),
            get(text=b"", has={"Content-Length": "0"}),
            head(has={"Content-Length": "0"}),
        ],
        "the last PUT wins": [put("k", b"one"), put("k", b"two!"), get(text=b"two!")],
        "the same ETag in PUT, GET, HEAD and the listing": [
            put(keep={"etag": "ETag"}),
            get(has={"ETag": "«etag»"}),
            head(has={"ETag": "«etag»"}),
            listing(xml={"Contents/ETag": ["«etag»"], "Contents/Size": ["10"]}),
        ],
        "other bytes have another ETag": [
            put("k", b"one", keep={"etag": "ETag"}),
            put("k", b"two"),
            get(headers={"If-None-Match": "«etag»"}, text=b"two"),
        ],
        "headers are kept": [
            put(headers={**SAVED, "Expires": LATER}),
            get(has={**SAVED, "Expires": LATER}),
            head(has={**SAVED, "Expires": LATER}),
        ],
        "the type of bytes of unknown type": [
            put(),
            head(has={"Content-Type": "binary/octet-stream", "Content-Encoding": None}),
        ],
        "user metadata": [
            put(headers={"x-amz-meta-Mixed-Case": "  Some Value  ", "x-amz-meta-b": "2"}),
            get(has={"x-amz-meta-mixed-case": "Some Value", "x-amz-meta-b": "2"}),
            head(has={"x-amz-meta-mixed-case": "Some Value", "x-amz-meta-b": "2"}),
        ],
        "user metadata of an earlier PUT is gone": [
            put(headers={"x-amz-meta-a": "1"}),
            put(),
            head(has={"x-amz-meta-a": None}),
        ],
        "too much user metadata": [
            put(headers={"x-amz-meta-a": "x" * 2100}, status=400, code="MetadataTooLarge"),
            head(status=404),
        ],
        **{
            f"a key with {what}": [
                put(f"{key}"),
                get(f"{key}", text=TEXT),
                listing(xml={"Contents/Key": [f"«p»{key}"]}),
            ]
            for what, key in {
                "blanks": "a b  c.csv",
                "a plus": "a+b.csv",
                "a percent sign": "a%2Fb%.csv",
                "an ampersand and brackets": "a&b<c>'\".csv",
                "a question mark and a hash": "a?b#c.csv",
                "accents and an emoji": "é/\uff5e/\U0001f600",
                "an equals sign and a colon": "day=1/a:b;c,d",
                "two slashes": "x//y",
                "a slash at its end": "dir/",
                "a backslash": "a\\b",
                "a tilde and an asterisk": "~a*b!(c)",
                "300 bytes in a segment": "n" * 300,
            }.items()
        },
        "a key of 1,024 bytes": [
            put("d/" * 200 + "k" * 600),
            get("d/" * 200 + "k" * 600, text=TEXT),
        ],
        "a key of more than 1,024 bytes": [put("k" * 1025, status=400, code="KeyTooLongError")],
        "a key beside a directory of its name": [
            put("a"),
            put("a/b"),
            get("a", text=TEXT),
            get("a/b", text=TEXT),
        ],
        "Content-MD5": [put(headers={"Content-MD5": MD5}), get(text=TEXT)],
        "a wrong Content-MD5": [
            put(headers={"Content-MD5": OTHER_MD5}, status=400, code="BadDigest"),
            head(status=404),
        ],
        "a Content-MD5 that is none": [
            put(headers={"Content-MD5": "abc"}, status=400, code="InvalidDigest"),
            head(status=404),
        ],
        **{
            f"a {kind} of the object": [
                put(headers={f"x-amz-checksum-{kind}": digest64(kind, TEXT)}),
                get(text=TEXT),
            ]
            for kind in KINDS
        },
        **{
            f"a wrong {kind} of the object": [
                put(
                    headers={f"x-amz-checksum-{kind}": digest64(kind, b"other")},
                    status=400,
                    code="BadDigest",
                ),
                head(status=404),
            ]
            for kind in KINDS
        },
        "a checksum that is none": [
            put(headers={"x-amz-checksum-crc32": "abc"}, status=400, code="InvalidRequest"),
            head(status=404),
        ],
        "two checksums": [
            put(
                headers={f"x-amz-checksum-{kind}": digest64(kind, TEXT) for kind in KINDS[:2]},
                status=400,
                code="InvalidRequest",
            )
        ],
        "the checksum is answered": [
            put(
                headers={"x-amz-checksum-crc32": digest64("crc32", TEXT)},
                has={"x-amz-checksum-crc32": digest64("crc32", TEXT)},
            )
        ],
        "the checksum is kept": [
            put(headers={"x-amz-checksum-crc32": digest64("crc32", TEXT)}),
            get(
                headers={"x-amz-checksum-mode": "ENABLED"},
                has={"x-amz-checksum-crc32": digest64("crc32", TEXT)},
            ),
        ],
        "If-None-Match: * creates": [put(headers={"If-None-Match": "*"}), get(text=TEXT)],
        "If-None-Match: * replaces nothing": [
            put(),
            put("k", b"x", headers={"If-None-Match": "*"}, status=412, code="PreconditionFailed"),
            get(text=TEXT),
        ],
        "If-None-Match: * after a deletion": [put(), delete(), put(headers={"If-None-Match": "*"})],
        "If-None-Match with an ETag": [
            put(headers={"If-None-Match": '"abc"'}, status=501, code="NotImplemented")
        ],
        "If-Match replaces the known object": [
            put(keep={"etag": "ETag"}),
            put("k", b"new", headers={"If-Match": "«etag»"}),
            get(text=b"new"),
        ],
        "If-Match keeps another object": [
            put("k", b"old", keep={"etag": "ETag"}),
            put(),
            put("k", b"x", headers={"If-Match": "«etag»"}, status=412, code="PreconditionFailed"),
            get(text=TEXT),
        ],
        "If-Match of nothing": [
            put(headers={"If-Match": '"0123"'}, status=404, code="NoSuchKey"),
            head(status=404),
        ],
        "a storage class": [put(headers={"x-amz-storage-class": "STANDARD"}), get(text=TEXT)],
        "a storage class that is none": [
            put(headers={"x-amz-storage-class": "NONE"}, status=400, code="InvalidStorageClass")
        ],
        "a private object": [put(headers={"x-amz-acl": "private"}), get(text=TEXT)],
    },
)

GETS = group(
    "GetObject",
    {
        "the headers of an object": [
            put(),
            get(has={"Last-Modified": DATE, "Accept-Ranges": "bytes", "Content-Range": None}),
        ],
        "a missing object": [
            get(
                status=404, code="NoSuchKey", xml={"Key": ["«p»k"], "RequestId": [re.compile(".*")]}
            )
        ],
        "a directory is no object": [put("d/k"), get("d", status=404, code="NoSuchKey")],
        "a directory with a slash is no object": [
            put("d/k"),
            get("d/", status=404, code="NoSuchKey"),
        ],
        **{
            f"Range: bytes={span}": [
                put(),
                get(
                    headers={"Range": f"bytes={span}"},
                    status=206,
                    text=TEXT[first : last + 1],
                    has={
                        "Content-Range": f"bytes {first}-{last}/10",
                        "Content-Length": str(last + 1 - first),
                    },
                ),
            ]
            for span, first, last in (
                ("0-0", 0, 0),
                ("2-5", 2, 5),
                ("5-", 5, 9),
                ("-3", 7, 9),
                ("-99", 0, 9),
                ("8-99", 8, 9),
            )
        },
        **{
            f"Range: {span}, which says nothing": [
                put(),
                get(headers={"Range": span}, text=TEXT, has={"Content-Range": None}),
            ]
            for span in ("bytes=5-2", "bytes=abc", "lines=1-2", "bytes=0-1,4-5")
        },
        **{
            f"Range: {span}, which is not in the object": [
                put("k", body),
                get(
                    headers={"Range": span},
                    status=416,
                    code="InvalidRange",
                    has={"Content-Range": f"bytes */{len(body)}"},
                ),
            ]
            for span, body in (
                ("bytes=10-", TEXT),
                ("bytes=99-100", TEXT),
                ("bytes=-0", TEXT),
                ("bytes=0-0", b""),
            )
        },
        "If-Match": [
            put(keep={"etag": "ETag"}),
            get(headers={"If-Match": "«etag»"}, text=TEXT),
            get(headers={"If-Match": "*"}, text=TEXT),
        ],
        "If-Match of several": [
            put(keep={"etag": "ETag"}),
            get(headers={"If-Match": '"a", «etag»'}, text=TEXT),
        ],
        "If-Match of another": [
            put(),
            get(headers={"If-Match": '"0123"'}, status=412, code="PreconditionFailed"),
        ],
        "If-None-Match of another": [put(), get(headers={"If-None-Match": '"0123"'}, text=TEXT)],
        "If-None-Match": [
            put(keep={"etag": "ETag"}),
            get(headers={"If-None-Match": "«etag»"}, status=304, text=b"", has={"ETag": "«etag»"}),
        ],
        "If-Modified-Since": [
            put(keep={"at": "Date"}),
            get(headers={"If-Modified-Since": PAST}, text=TEXT),
            head(keep={"at": "Last-Modified"}),
            get(headers={"If-Modified-Since": "«at»"}, status=304, text=b""),
        ],
        "If-Unmodified-Since": [
            put(),
            head(keep={"at": "Last-Modified"}),
            get(headers={"If-Unmodified-Since": "«at»"}, text=TEXT),
            get(headers={"If-Unmodified-Since": PAST}, status=412, code="PreconditionFailed"),
        ],
        "If-Match goes before If-Unmodified-Since": [
            put(keep={"etag": "ETag"}),
            get(headers={"If-Match": "«etag»", "If-Unmodified-Since": PAST}, text=TEXT),
        ],
        "If-None-Match goes before If-Modified-Since": [
            put(keep={"etag": "ETag"}),
            get(headers={"If-None-Match": "«etag»", "If-Modified-Since": PAST}, status=304),
        ],
        "a range of a known object": [
            put(keep={"etag": "ETag"}),
            get(headers={"If-Match": "«etag»", "Range": "bytes=1-2"}, status=206, text=b"12"),
            get(headers={"If-Match": '"x"', "Range": "bytes=1-2"}, status=412),
        ],
        "the answer's headers by the query": [
            put(headers=SAVED),
            get(
                query=FIVE,
                text=TEXT,
                has={
                    "Content-Type": "text/html",
                    "Content-Disposition": "attachment",
                    "Cache-Control": "no-store",
                    "Content-Encoding": "br",
                    "Content-Language": "fr",
                    "Expires": LATER,
                },
            ),
        ],
        "a range has no checksum of the whole": [
            put(headers={"x-amz-checksum-crc32": digest64("crc32", TEXT)}),
            get(
                headers={"Range": "bytes=0-3", "x-amz-checksum-mode": "ENABLED"},
                status=206,
                has={"x-amz-checksum-crc32": None},
            ),
        ],
        "version null": [put(), get(query={"versionId": "null"}, text=TEXT)],
        "tags": [put(), get(query={"tagging": ""}, has={"Content-Type": re.compile(".*xml.*")})],
        "tags of a missing object": [get(query={"tagging": ""}, status=404, code="NoSuchKey")],
        "the owner of an object": [
            put(),
            get(query={"acl": ""}, xml={"AccessControlList/Grant/Permission": ["FULL_CONTROL"]}),
        ],
    },
)

HEADS = group(
    "HeadObject",
    {
        "HEAD says what GET does": [
            put(keep={"etag": "ETag"}),
            head(
                text=b"",
                has={
                    "Content-Length": "10",
                    "ETag": "«etag»",
                    "Last-Modified": DATE,
                    "Accept-Ranges": "bytes",
                },
            ),
        ],
        "HEAD of a missing object": [head(status=404, text=b"")],
        "HEAD with If-Match": [
            put(keep={"etag": "ETag"}),
            head(headers={"If-Match": "«etag»"}),
            head(headers={"If-Match": '"x"'}, status=412, text=b""),
        ],
        "HEAD with If-None-Match": [
            put(keep={"etag": "ETag"}),
            head(headers={"If-None-Match": "«etag»"}, status=304, text=b""),
        ],
        "HEAD with a range": [
            put(),
            head(
                headers={"Range": "bytes=2-4"},
                status=206,
                has={"Content-Length": "3", "Content-Range": "bytes 2-4/10"},
            ),
        ],
        "HEAD with a range that is not in the object": [
            put(),
            head(headers={"Range": "bytes=20-"}, status=416, text=b""),
        ],
        "a connection goes on after HEAD": [put(), head(), get(text=TEXT)],
    },
)
