from __future__ import annotations

import re
from statistics import median
from time import process_time
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.committed.values import encode_entry
from lakecli.repository import branch, commit, tag
from lakecli.repository.staged.stager import Stager
from lakecli.serving.s3 import listing
from tests.support import lakes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.serving.s3.site import Site

NAMES = [
    "a",
    "a/",
    "a/1",
    "a/b/2",
    "a b+c&<d>",
    "a0",
    "b//x",
    "ä",
    "z/1",
    "z/2",
    "\U0001f600",
    "\ue000",
]


def fill(site: Site, names: Iterable[str], ref: str = "main") -> list[str]:
    contents: dict[bytes, bytes | None] = {name.encode(): name.encode() for name in names}
    lakes.stage(site.demo, ref, contents)
    return sorted((f"{ref}/{name}" for name in names), key=str.encode)


def model(keys: list[str], prefix: str, delimiter: str, after: str) -> list[str]:
    """List as S3 does: objects, and common prefixes once."""
    found: list[str] = []
    for key in keys:
        if not key.startswith(prefix):
            continue
        at = key.find(delimiter, len(prefix)) if delimiter else -1
        name = key if at < 0 else key[: at + len(delimiter)]
        if name.encode() > after.encode() and name not in found and not after.startswith(name):
            found.append(name)
    return found


@pytest.mark.parametrize("delimiter", ["", "/", "b", "//"])
def test_a_listing_has_what_s3_lists(site: Site, delimiter: str) -> None:
    keys = fill(site, NAMES)
    for prefix in ("main/", "main/a", "main/a/", "main/z", "main/none", "ma", ""):
        if delimiter == "/" and "/" not in prefix:
            expected = ["main/"]
        else:
            expected = model(keys, prefix, delimiter, "")
        for most in ("1000", "1", "3"):
            found = site.keys(prefix=prefix, delimiter=delimiter, max_keys=most)
            assert sorted(found, key=str.encode) == expected, (prefix, most)
            assert most != "1" or found == expected


def test_names_are_listed_percent_encoded_on_request(site: Site) -> None:
    fill(site, ["a b+c", "x\ny"])
    lakes.stage(site.demo, "main", {b"\xff": b""})

    assert site("GET", list_type="2", prefix="main/").code == "InvalidArgument"
    answer = site("GET", list_type="2", prefix="main/", encoding_type="url")

    assert answer.texts("Contents/Key") == ["main/a%20b%2Bc", "main/x%0Ay", "main/%FF"]
    assert answer.texts("EncodingType") == ["url"]


def test_start_after_and_markers(site: Site) -> None:
    keys = fill(site, NAMES)

    assert site.keys(prefix="main/", start_after="main/a0") == model(keys, "main/", "", "main/a0")
    assert site.keys(start_after="n") == []
    assert site.keys(start_after="a") == keys
    first = site("GET", prefix="main/", delimiter="/", max_keys="3")
    marker = first.texts("NextMarker")[0]
    second = site("GET", prefix="main/", delimiter="/", marker=marker, max_keys="100")
    named = [answer.texts("Contents/Key") for answer in (first, second)]
    assert "main/a/" in first.texts("CommonPrefixes/Prefix")
    assert "main/a/" not in second.texts("CommonPrefixes/Prefix")
    assert sorted(named[0] + named[1], key=str.encode) == [
        key for key in model(keys, "main/", "/", "") if not key.endswith("/")
    ]


def test_no_names_and_wrong_parameters(site: Site) -> None:
    fill(site, ["a"])

    empty = site("GET", list_type="2", max_keys="0")
    assert (empty.texts("KeyCount"), empty.texts("IsTruncated")) == (["0"], ["false"])
    wrong: list[dict[str, Any]] = [{"max_keys": "x"}, {"max_keys": "-1"}, {"encoding_type": "x"}]
    for query in wrong:
        assert site("GET", list_type="2", **query).code == "InvalidArgument"
    assert site("GET", list_type="1").code == "InvalidArgument"
    for token in ("", "x", "\u00e9", "=" * 9, "abcde"):
        assert site("GET", list_type="2", continuation_token=token).code == "InvalidArgument"
    assert site("GET", list_type="2", bucket="none").code == "NoSuchBucket"
    assert site("GET", list_type="2", bucket="none", prefix="main/").code == "NoSuchBucket"
    assert site("GET", list_type="2", bucket="none", max_keys="0").code == "NoSuchBucket"
    past = site("GET", list_type="2", bucket="none", prefix="main/", start_after="z")
    assert past.code == "NoSuchBucket"


def test_a_token_continues_a_listing(site: Site) -> None:
    fill(site, ["a", "b"])
    token = site("GET", list_type="2", max_keys="1").texts("NextContinuationToken")[0]

    assert site("GET", list_type="2", continuation_token=token).texts("Contents/Key") == ["main/b"]


def test_the_root_lists_branches_and_tags(site: Site) -> None:
    fill(site, ["x/1"])
    site.commit()
    branch.create(site.demo, "dev", source="main")
    branch.create(site.demo, "main-2", source="main~1")
    tag.create(site.demo, "v1", "main")
    fill(site, ["x/2"], "dev")

    assert site.keys(delimiter="/") == ["dev/", "main-2/", "main/", "v1/"]
    assert site.keys(delimiter="/", prefix="main") == ["main-2/", "main/"]
    assert site.keys(delimiter="/", max_keys="1") == ["dev/", "main-2/", "main/", "v1/"]
    assert site.keys() == ["dev/x/1", "dev/x/2", "main/x/1", "v1/x/1"]
    assert site.keys(max_keys="1") == site.keys()
    assert site.keys(delimiter="x") == ["dev/x", "main/x", "v1/x"]
    assert site.keys(delimiter="e") == site.keys()  # only a slash counts in names of refs


def test_a_branch_that_is_deleted_meanwhile_hides_no_other(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(site, ["a"])
    monkeypatch.setattr(listing, "_refs", lambda *_: [b"gone/", b"main/", b"old/"])

    assert site.keys() == ["main/a"]


def test_expressions_are_listed_by_their_prefix(site: Site) -> None:
    fill(site, ["old"])
    old = site.commit()
    fill(site, ["new"])
    site.commit()

    assert site.keys(prefix="main~1/") == ["main~1/old"]
    assert site.keys(prefix=f"{old[:12]}/o") == [f"{old[:12]}/old"]
    assert site.keys(prefix="none/") == []
    assert site.keys(prefix="main~9/") == []


def test_staged_changes_are_listed_unless_only_commits_are_served(site: Site) -> None:
    fill(site, ["a", "b"])
    site.commit()
    fill(site, ["c"])
    lakes.stage(site.demo, "main", {b"a": None})

    assert site.keys() == ["main/b", "main/c"]
    site.served.committed = True
    assert site.keys() == ["main/a", "main/b"]


def test_what_a_listing_says_of_an_object(site: Site) -> None:
    etag = site.put("main/a", b"0123456789")

    answer = site("GET", list_type="2", fetch_owner="true")

    assert answer.texts("Contents/ETag") == [etag]
    assert answer.texts("Contents/Size") == ["10"]
    assert answer.texts("Contents/Owner/ID") == ["lakecli"]
    assert answer.texts("Contents/LastModified")[0].endswith(".000Z")
    assert site("GET", list_type="2").texts("Contents/Owner") == []


@pytest.mark.nightly
def test_pages_of_many_objects_cost_the_same(site: Site) -> None:
    value = encode_entry(lakes.entry_of(b""))
    names = (f"{at // 1000:03d}/{at:06d}".encode() for at in range(200_000))
    big = site.make("big", f"{site.demo.store.uri}-big", range_entries=4096)
    Stager(big, "main").write(lakes.unclaimed((name, value) for name in names), kind="upload")
    commit.commit(big, "main", message="all", committer="tester")

    costs: list[float] = []
    token: dict[str, Any] = {}
    count = 0
    while True:
        began = process_time()
        page = site("GET", bucket="big", list_type="2", prefix="main/", **token)
        costs.append(process_time() - began)
        count += page.body.count(b"<Key>")
        following = re.search(b"<NextContinuationToken>(.*?)</", page.body)
        if following is None:
            break
        token = {"continuation_token": following[1].decode()}
    began = process_time()
    assert len(site.keys(bucket="big", prefix="main/", delimiter="/")) == 200
    prefixes = process_time() - began

    assert (count, len(costs)) == (200_000, 200)
    assert median(costs[-50:]) < 3 * median(costs[:50])
    assert sum(costs) < 15
    assert prefixes < 1
