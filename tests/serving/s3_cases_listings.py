"""Cases of listings, by both versions of the request."""

from __future__ import annotations

import re

from tests.serving.s3_case import Step, below, group, listing, old_listing, put
from tests.serving.s3_cases_objects import ETAG, ISO

SORTED = ("a-b", "a.txt", "a/x", "a0", "b", "é", "\uff5e", "\U0001f600")
"""Keys in the order of their bytes; in UTF-16 the last one would come before its neighbour."""
TREE = ("a", "d/1", "d/2", "e/1", "f")
BAD = {"status": 400, "code": "InvalidArgument"}


def _put_all(*keys: str) -> list[Step]:
    return [put(key) for key in keys]


V2 = group(
    "ListObjectsV2",
    {
        "keys in the order of bytes": [
            *_put_all(*reversed(SORTED)),
            listing(xml={"Contents/Key": below(*SORTED), "KeyCount": [str(len(SORTED))]}),
        ],
        "what is said of a key": [
            put(),
            listing(
                xml={
                    "Contents/Size": ["10"],
                    "Contents/ETag": [ETAG],
                    "Contents/LastModified": [ISO],
                    "Contents/StorageClass": ["STANDARD"],
                    "Contents/Owner": [],
                    "Name": ["«bucket»"],
                    "Prefix": ["«p»"],
                    "MaxKeys": ["1000"],
                    "IsTruncated": ["false"],
                }
            ),
        ],
        "the owner": [
            put(),
            listing({"fetch-owner": "true"}, xml={"Contents/Owner/ID": [re.compile(".+")]}),
        ],
        "nothing": [listing(xml={"Contents": [], "KeyCount": ["0"], "IsTruncated": ["false"]})],
        "a prefix that is the beginning of a name": [
            *_put_all("abc", "abd", "b"),
            listing({"prefix": "«p»ab"}, xml={"Contents/Key": below("abc", "abd")}),
        ],
        "a prefix that is a name": [
            *_put_all("a", "a/b"),
            listing({"prefix": "«p»a"}, xml={"Contents/Key": below("a", "a/b")}),
        ],
        "directories": [
            *_put_all(*TREE),
            listing(
                {"delimiter": "/"},
                xml={
                    "Contents/Key": below("a", "f"),
                    "CommonPrefixes/Prefix": below("d/", "e/"),
                    "KeyCount": ["4"],
                    "Delimiter": ["/"],
                },
            ),
        ],
        "a directory without its slash": [
            *_put_all(*TREE),
            listing(
                {"delimiter": "/", "prefix": "«p»d"},
                xml={"Contents": [], "CommonPrefixes/Prefix": below("d/")},
            ),
        ],
        "a directory with a marker": [
            put("d/", b""),
            put("d/1"),
            listing(
                {"delimiter": "/", "prefix": "«p»d/"},
                xml={"Contents/Key": below("d/", "d/1"), "CommonPrefixes": []},
            ),
        ],
        "another delimiter": [
            *_put_all("a-1", "a-2", "b"),
            listing(
                {"delimiter": "-"},
                xml={"Contents/Key": below("b"), "CommonPrefixes/Prefix": below("a-")},
            ),
        ],
        "a delimiter of two characters": [
            *_put_all("a::1", "a::2", "a:3"),
            listing(
                {"delimiter": "::"},
                xml={"Contents/Key": below("a:3"), "CommonPrefixes/Prefix": below("a::")},
            ),
        ],
        "an empty delimiter": [
            *_put_all("d/1"),
            listing({"delimiter": ""}, xml={"Contents/Key": below("d/1"), "CommonPrefixes": []}),
        ],
        "a directory named by its slash twice": [
            *_put_all("x//y", "x/z"),
            listing(
                {"delimiter": "/", "prefix": "«p»x/"},
                xml={"Contents/Key": below("x/z"), "CommonPrefixes/Prefix": below("x//")},
            ),
        ],
        "page by page": [
            *_put_all(*SORTED[:3]),
            listing(
                {"max-keys": "2"},
                xml={
                    "Contents/Key": below(*SORTED[:2]),
                    "IsTruncated": ["true"],
                    "KeyCount": ["2"],
                    "MaxKeys": ["2"],
                },
                keep={"next": "/NextContinuationToken"},
            ),
            listing(
                {"max-keys": "2", "continuation-token": "«next»"},
                xml={
                    "Contents/Key": below(SORTED[2]),
                    "IsTruncated": ["false"],
                    "NextContinuationToken": [],
                    "ContinuationToken": ["«next»"],
                },
            ),
        ],
        "a page that ends with the last key": [
            *_put_all("a", "b"),
            listing({"max-keys": "2"}, xml={"IsTruncated": ["false"], "NextContinuationToken": []}),
        ],
        "directories count and come once": [
            *_put_all(*TREE),
            listing(
                {"max-keys": "2", "delimiter": "/"},
                xml={
                    "Contents/Key": below("a"),
                    "CommonPrefixes/Prefix": below("d/"),
                    "KeyCount": ["2"],
                    "IsTruncated": ["true"],
                },
                keep={"next": "/NextContinuationToken"},
            ),
            listing(
                {"max-keys": "2", "delimiter": "/", "continuation-token": "«next»"},
                xml={
                    "Contents/Key": below("f"),
                    "CommonPrefixes/Prefix": below("e/"),
                    "IsTruncated": ["false"],
                },
            ),
        ],
        "max-keys of 0": [
            put(),
            listing({"max-keys": "0"}, xml={"Contents": [], "IsTruncated": ["false"]}),
        ],
        "max-keys above 1,000": [put(), listing({"max-keys": "5000"}, xml={"KeyCount": ["1"]})],
        "max-keys below 0": [listing({"max-keys": "-1"}, **BAD)],
        "max-keys that is none": [listing({"max-keys": "x"}, **BAD)],
        "a token that is none": [listing({"continuation-token": "x"}, **BAD)],
        "start-after": [
            *_put_all(*SORTED),
            listing({"start-after": "«p»a.txt"}, xml={"Contents/Key": below(*SORTED[2:])}),
            listing({"start-after": "«p»a/"}, xml={"Contents/Key": below(*SORTED[2:])}),
        ],
        "start-after in a directory": [
            *_put_all(*TREE),
            listing(
                {"delimiter": "/", "start-after": "«p»d/1"},
                xml={"Contents/Key": below("f")},
                includes=["<Prefix>«p»e/</Prefix>"],
            ),
        ],
        "start-after before the prefix": [
            *_put_all("a", "b"),
            listing({"start-after": "0"}, xml={"Contents/Key": below("a", "b")}),
        ],
        "the token goes before start-after": [
            *_put_all("a", "b", "c"),
            listing(
                {"max-keys": "1", "start-after": "«p»a"},
                xml={"Contents/Key": below("b")},
                keep={"next": "/NextContinuationToken"},
            ),
            listing(
                {"max-keys": "1", "start-after": "«p»a", "continuation-token": "«next»"},
                xml={"Contents/Key": below("c")},
            ),
        ],
        "names in the encoding of URLs": [
            *_put_all("a b+c&d.csv", "é/1"),
            listing(
                {"encoding-type": "url", "delimiter": "/"},
                xml={
                    "EncodingType": ["url"],
                    "Contents/Key": [re.compile(r".*/a(%20|\+)b%2Bc%26d\.csv")],
                    "CommonPrefixes/Prefix": [re.compile(".*/%C3%A9/")],
                    "Delimiter": [re.compile("/|%2F")],
                },
            ),
        ],
        "an encoding that is none": [listing({"encoding-type": "x"}, **BAD)],
        "escaped names": [put("a&b<c>\"'"), listing(xml={"Contents/Key": below("a&b<c>\"'")})],
    },
)

V1 = group(
    "ListObjects",
    {
        "keys by the first version": [
            *_put_all(*TREE),
            old_listing(
                xml={"Contents/Key": below(*TREE), "IsTruncated": ["false"], "KeyCount": []}
            ),
        ],
        "owners by the first version": [
            put(),
            old_listing(xml={"Contents/Owner/ID": [re.compile(".+")]}),
        ],
        "an empty marker": [old_listing(xml={"Marker": [""]})],
        "a marker": [
            *_put_all(*TREE),
            old_listing({"marker": "«p»d/1"}, xml={"Contents/Key": below("d/2", "e/1", "f")}),
        ],
        "pages with directories have a next marker": [
            *_put_all(*TREE),
            old_listing(
                {"delimiter": "/", "max-keys": "2"},
                xml={
                    "Contents/Key": below("a"),
                    "CommonPrefixes/Prefix": below("d/"),
                    "IsTruncated": ["true"],
                    "NextMarker": ["«p»d/"],
                },
            ),
            old_listing(
                {"delimiter": "/", "max-keys": "2", "marker": "«p»d/"},
                xml={"Contents/Key": below("f"), "CommonPrefixes/Prefix": below("e/")},
            ),
        ],
        "pages without directories have none": [
            *_put_all(*TREE),
            old_listing({"max-keys": "2"}, xml={"IsTruncated": ["true"], "NextMarker": []}),
        ],
        "max-keys of 0 by the first version": [
            put(),
            old_listing({"max-keys": "0"}, xml={"Contents": [], "IsTruncated": ["false"]}),
        ],
        "URL encoding by the first version": [
            put("a b"),
            old_listing(
                {"encoding-type": "url"}, xml={"Contents/Key": [re.compile(r".*/a(%20|\+)b")]}
            ),
        ],
    },
)
