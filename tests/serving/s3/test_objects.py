from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import Mock
from urllib.parse import quote

import pytest
from starlette.requests import Request as StarletteRequest

from lakecli.base.layout import data_key
from lakecli.base.model import Entry
from lakecli.errors import Unreachable
from lakecli.repository import branch, tag
from lakecli.repository.handoff.incoming import record_object
from lakecli.repository.reading.view import open_view
from lakecli.repository.staged.stager import stage_entry
from lakecli.repository.transfer.parallel import Memory
from lakecli.serving.context import Options
from lakecli.serving.s3 import call, objects
from lakecli.serving.s3.errors import S3Error
from lakecli.serving.s3.objects import etag_of
from lakecli.serving.writes import BranchWriter
from lakecli.stores.contract import ANY
from lakecli.stores.presigned_urls import PresignedUrl
from tests.serving.s3.site import Site
from tests.serving.s3_wire import now
from tests.support import lakes

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGE = bytes(range(251)) * 20_000  # five pieces


def entry(site: Site, path: bytes, ref: str = "main") -> Entry:
    with open_view(site.demo, ref) as view:
        return view.entry(path)


def test_a_body_of_unknown_size_is_refused_before_it_is_read(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Mock()
    monkeypatch.setattr(call, "pieces_of", read)
    monkeypatch.setattr(StarletteRequest, "body", read)
    missing = Mock(side_effect=S3Error("MissingContentLength", ""))
    monkeypatch.setattr(call, "announced_size", missing)
    assert site("PUT", "main/a", b"x" * 100_000).code == "MissingContentLength"
    assert not read.called


@pytest.mark.parametrize("body", [b"", b"x", LARGE], ids=len)
def test_what_the_namespace_has_lost_is_an_error(either: Site, body: bytes) -> None:
    either("PUT", "main/a", body)
    (found,) = either.demo.store.list("data/")
    either.demo.store.delete([found.key])
    assert either("GET", "main/a").code == "InternalError"


@pytest.mark.parametrize("body", [b"", b"x", b"y" * (1 << 20), LARGE], ids=len)
def test_what_is_written_is_read(either: Site, body: bytes) -> None:
    etag = either.put("main/dir/a b+ü", body)

    got = either("GET", "main/dir/a b+ü")

    assert (got.status, got.body, got.headers["etag"]) == (200, body, etag)
    assert got.headers["content-length"] == str(len(body))
    head = either("HEAD", "main/dir/a b+ü")
    assert (head.body, head.headers["content-length"]) == (b"", str(len(body)))
    found = entry(either, "dir/a b+ü".encode())
    assert etag == f'"{found.checksum}-1"'
    assert found.physical_address == data_key(found.checksum)


@pytest.mark.parametrize(
    ("span", "start", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=5-", 5, None),
        ("bytes=-7", -7, None),
        ("bytes=100-3000000", 100, 3_000_001),
        ("bytes=0-99999999", 0, None),
    ],
)
def test_ranges(either: Site, span: str, start: int, end: int | None) -> None:
    either.put("main/a", LARGE)
    expected = LARGE[start:end]

    got = either("GET", "main/a", headers={"Range": span})

    first = start % len(LARGE)
    assert (got.status, got.body == expected) == (206, True)
    assert got.headers["content-range"] == (
        f"bytes {first}-{first + len(expected) - 1}/{len(LARGE)}"
    )


def test_a_range_behind_the_end(site: Site) -> None:
    site.put("main/a", b"0123456789")

    got = site("GET", "main/a", headers={"Range": "bytes=10-"})

    assert (got.status, got.code, got.headers["content-range"]) == (
        416, "InvalidRange", "bytes */10",
    )  # fmt: skip


def test_an_object_has_one_part(site: Site) -> None:
    site.put("main/a", b"0123456789")

    got = site("GET", "main/a", partNumber="1")

    assert (got.status, got.body) == (206, b"0123456789")
    assert site("GET", "main/a", partNumber="2").status == 416


def test_headers_and_metadata_are_kept(site: Site) -> None:
    sent = {
        "Content-Type": "text/x-own",
        "Content-Encoding": "aws-chunked,gzip",
        "Cache-Control": "no-cache",
        "Content-Disposition": 'attachment; filename="x"',
        "Content-Language": "de",
        "Expires": "Thu, 01 Dec 2033 16:00:00 GMT",
        "x-amz-meta-Key": "a value",
        "x-amz-meta-cache-control": "mine",
        "x-amz-meta-umlaut": "ä",
        "x-amz-meta-coded": "=?UTF-8?B?w6Q=?=",
    }
    site("PUT", "main/a", b"x", sent)

    got = site("GET", "main/a").headers

    kept = {name.lower(): text for name, text in sent.items()} | {"content-encoding": "gzip"}
    kept["x-amz-meta-umlaut"] = "=?UTF-8?B?w6Q=?="
    assert {name: got[name] for name in kept} == kept
    assert entry(site, b"a").metadata == {
        "content-encoding": "gzip", "cache-control": "no-cache", "content-language": "de",
        "content-disposition": 'attachment; filename="x"',
        "expires": "Thu, 01 Dec 2033 16:00:00 GMT",
        "key": "a value", "X-Amz-Meta-cache-control": "mine", "umlaut": "ä",
        "coded": "=?UTF-8?B?w6Q=?=",
    }  # fmt: skip


def test_metadata_of_others(site: Site) -> None:
    made = lakes.entry_of(b"x")
    site.demo.store.put(made.physical_address, b"x", ANY)
    metadata = {"X-Amz-Meta-Owner": "me", "Plain": "1", "::lakefs::client-mtime": "7", "ä b": "2"}
    stage_entry(site.demo, "main", b"a", made._replace(metadata=metadata, content_type=""))

    got = site("HEAD", "main/a").headers

    assert {name: text for name, text in got.items() if "meta" in name} == {
        "x-amz-meta-owner": "me", "x-amz-meta-plain": "1",
    }  # fmt: skip
    assert got["content-type"] == "application/octet-stream"


def test_the_client_chooses_headers(site: Site) -> None:
    site.put("main/a.csv")

    got = site("GET", "main/a.csv", response_content_type="text/own", response_expires="never")
    assert (got.headers["content-type"], got.headers["expires"]) == ("text/own", "never")
    assert site("GET", "main/a.csv").headers["content-type"] == "text/csv"
    wrong = site("GET", "main/a.csv", response_content_type="a\r\nb: c")
    assert wrong.code == "InvalidArgument"


def test_conditions_of_reads(site: Site) -> None:
    etag = site.put("main/a")
    modified = entry(site, b"a").modified_at
    later = format_datetime(modified + timedelta(hours=1), usegmt=True)

    assert site("GET", "main/a", headers={"If-None-Match": etag}).status == 304
    assert site("GET", "main/a", headers={"If-Match": '"other"'}).code == "PreconditionFailed"
    assert site("GET", "main/a", headers={"If-Modified-Since": later}).status == 304
    assert site("HEAD", "main/a", headers={"If-Unmodified-Since": later}).status == 200


def test_what_is_not_there(site: Site) -> None:
    for key in ("main/none", "main", "main/", "none/a", "main~7/a", "ma@in/a"):
        got = site("GET", key)
        assert (got.status, got.code) == (404, "NoSuchKey"), key
        assert site("HEAD", key).status == 404
    assert site("GET", "main/a", bucket="none").code == "NoSuchBucket"
    assert site("DELETE", "main/none").status == 204
    assert site("GET", "main/a", versionId="1").code == "InvalidArgument"


def test_only_branches_are_written(site: Site) -> None:
    site.put("main/a")
    commit = site.commit()
    tag.create(site.demo, "v1", "main")

    for ref in ("v1", commit, "main~0", "main@"):
        assert site("GET", f"{ref}/a").body == b"x"
        for method, key, body in (("PUT", "a", b"y"), ("PUT", "b", LARGE), ("DELETE", "a", b"")):
            got = site(method, f"{ref}/{key}", body)
            assert (got.status, got.code) == (405, "MethodNotAllowed"), (ref, method)
        assert site("POST", f"{ref}/a", uploads="").code == "MethodNotAllowed"
    assert site("PUT", "none/a", b"y").code == "NoSuchKey"
    assert site("PUT", "a", b"y").code == "InvalidArgument"
    site.served.read_only = True
    assert site("PUT", "main/b", b"y").status == 405


def test_past_states_are_read(site: Site) -> None:
    site.put("main/a", b"1")
    site.commit()
    site.put("main/a", b"2")
    site.commit()
    site.put("main/a", b"3")

    assert [site("GET", f"main{end}/a").body for end in ("", "@", "~1")] == [b"3", b"2", b"1"]
    encoded = f"/demo/{quote('main~1', safe='')}/a"
    assert site("GET", path=encoded).body == b"1"
    site.served.committed = True
    assert site("GET", "main/a").body == b"2"


@pytest.mark.parametrize("body", [b"x", LARGE], ids=["small", "large"])
def test_conditions_of_writes(either: Site, body: bytes) -> None:
    create = {"If-None-Match": "*"}
    assert either("PUT", "main/a", body, create).status == 200
    assert either("PUT", "main/a", b"y", create).code == "PreconditionFailed"
    etag = either("HEAD", "main/a").headers["etag"]
    assert either("PUT", "main/a", b"y", {"If-Match": etag}).status == 200
    assert either("PUT", "main/a", body, {"If-Match": etag}).code == "PreconditionFailed"
    assert either("PUT", "main/b", body, {"If-Match": etag}).code == "NoSuchKey"
    assert either("DELETE", "main/a", headers={"If-Match": etag}).code == "PreconditionFailed"
    assert either("GET", "main/a").body == b"y"


def test_a_body_that_ends_early_leaves_nothing(either: Site) -> None:
    for size in (10, 3 << 20):
        assert either("PUT", "main/a", LARGE, ends_after=size).status == 0
    wrong = either("PUT", "main/b", LARGE, {"Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA=="})

    assert wrong.code == "BadDigest"
    assert either.keys() == []
    assert [each.key for each in either.demo.store.list("data/")] == []


def test_a_full_disk_is_told(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def deposit(_writer: object, source: Iterator[bytes]) -> None:
        assert len(next(source)) < len(LARGE)
        raise Unreachable("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(BranchWriter, "deposit", deposit)
        got = site("PUT", "main/a", LARGE)

    assert (got.status, got.code) == (503, "ServiceUnavailable")
    assert site("PUT", "main/a", LARGE).status == 200


def test_directories_as_hadoop_marks_them(site: Site) -> None:
    site.put("main/dir/", b"")
    site.put("main/", b"")

    assert site("HEAD", "main/dir/").headers["content-length"] == "0"
    assert site("HEAD", "main/dir").status == 404
    assert site.keys(prefix="main/", delimiter="/") == ["main/dir/"]
    assert site("DELETE", "main/dir/").status == 204
    assert site("DELETE", "main/").status == 204
    assert site.keys() == []
    assert site("PUT", "main/", b"x").code == "InvalidArgument"


def test_objects_are_deleted_together(site: Site) -> None:
    etag = site.put("main/a&b")
    site.put("main/c")
    site.commit()
    tag.create(site.demo, "v1", "main")
    names = ["main/a&amp;b", "main/none", "v1/c", "none/c", "main/"]
    items = "".join(f"<Object><Key>{name}</Key></Object>" for name in names)
    items += "<Object><Key>main/c</Key><ETag>other</ETag></Object>"

    got = site("POST", body=f"<Delete>{items}</Delete>".encode(), delete="")

    assert got.texts("Deleted/Key") == ["main/a&b", "main/none", "main/"]
    assert got.texts("Error/Key") == ["v1/c", "none/c", "main/c"]
    assert got.texts("Error/Code") == ["MethodNotAllowed", "NoSuchKey", "PreconditionFailed"]
    assert site.keys(prefix="main/") == ["main/c"]
    right = f"<Object><Key>main/c</Key><ETag>{etag}</ETag></Object><Quiet>true</Quiet>"
    quiet = site("POST", body=f"<Delete>{right}</Delete>".encode(), delete="")
    assert (quiet.status, quiet.texts("Deleted")) == (200, [])
    assert site.keys(prefix="main/") == []


def test_a_copy_is_an_entry(either: Site) -> None:
    either("PUT", "main/a", b"x", {"x-amz-meta-k": "v", "Cache-Control": "no-cache"})
    commit = either.commit()
    source = {"x-amz-copy-source": f"/demo/{commit}/a"}
    objects = [each.key for each in either.demo.store.list("data/")]

    copied = either("PUT", "main/b", headers=source)
    assert copied.texts("ETag") == [either("HEAD", "main/a").headers["etag"]]
    kept = either("HEAD", "main/b").headers
    assert (kept["x-amz-meta-k"], kept["cache-control"]) == ("v", "no-cache")
    new = {"x-amz-metadata-directive": "REPLACE", "x-amz-meta-n": "w", "Content-Type": "a/b"}
    assert either("PUT", "main/c", headers=source | new).status == 200
    found = entry(either, b"c")
    assert (found.metadata, found.content_type) == ({"n": "w"}, "a/b")
    assert [each.key for each in either.demo.store.list("data/")] == objects


def test_copies_that_are_refused(site: Site) -> None:
    etag = site.put("main/a b")
    source = {"x-amz-copy-source": "demo/main/a%20b"}

    assert site("PUT", "main/a b", headers=source).code == "InvalidRequest"
    replaces = {"x-amz-metadata-directive": "REPLACE"}
    assert site("PUT", "main/a b", headers=source | replaces).status == 200
    for header, code in (
        ({"x-amz-copy-source-if-match": '"other"'}, "PreconditionFailed"),
        ({"x-amz-copy-source-if-none-match": etag}, "PreconditionFailed"),
        ({"x-amz-copy-source": "demo/main/none"}, "NoSuchKey"),
        ({"x-amz-copy-source": "none/main/a"}, "NoSuchBucket"),
        ({"x-amz-copy-source": "demo"}, "InvalidArgument"),
        ({"x-amz-copy-source": "demo/main/a?versionId=1"}, "InvalidArgument"),
        ({"x-amz-metadata-directive": "x"}, "InvalidArgument"),
    ):
        assert site("PUT", "main/c", headers=source | header).code == code, header
    assert site("PUT", "main/c", headers=source | {"If-None-Match": "*"}).status == 200
    assert site("PUT", "main/c", headers=source | {"If-None-Match": "*"}).status == 412


def test_conditions_are_about_what_is_staged_whatever_is_shown(tmp_path: Path) -> None:
    site = Site(tmp_path, committed=True)
    site.put("main/a")
    site.commit()
    site("DELETE", "main/a")
    for body in (b"small", LARGE):
        assert site("GET", "main/a").status == 200
        assert site("PUT", "main/a", body, {"If-None-Match": "*"}).status == 200
        assert site("PUT", "main/a", body, {"If-None-Match": "*"}).status == 412
        site("DELETE", "main/a")
    site.close()


def test_a_copy_from_another_repository(site: Site, tmp_path: Path) -> None:
    site.make("other", str(tmp_path / "other"))
    site("PUT", "main/a", LARGE, {"x-amz-meta-k": "v"}, bucket="other")

    assert site("PUT", "main/b", headers={"x-amz-copy-source": "/other/main/a"}).status == 200

    got = site("GET", "main/b")
    assert (got.body == LARGE, got.headers["x-amz-meta-k"]) == (True, "v")


def test_damaged_objects_are_not_served_as_whole(site: Site) -> None:
    for name, body in (("small", b"xyz"), ("large", LARGE)):
        site.put(f"main/{name}", body)
        path = site.demo.store.local_path(entry(site, name.encode()).physical_address)
        assert path is not None
        Path(path).chmod(0o600)
        Path(path).write_bytes(body[:-1] + b"!")

    assert site("GET", "main/small").code == "InternalError"
    assert len(site("GET", "main/large").body) < len(LARGE)
    (error,) = site.errors
    assert "damaged" in str(error)
    site.errors.clear()
    site.demo.store.delete([entry(site, b"small").physical_address])
    assert site("GET", "main/small").code == "InternalError"


def test_objects_of_other_places(site: Site, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a").write_bytes(b"0123456789")
    record_object(
        site.demo, "main", b"a", location=f"local://{tmp_path}/outside/a", size=10,
        checksum="", content_type="", metadata={}, modified_at=None,
    )  # fmt: skip
    assert site("GET", "main/a").body == b"0123456789"
    assert site("GET", "main/a", headers={"Range": "bytes=2-3"}).body == b"23"


def test_etags_of_others() -> None:
    made = lakes.entry_of(b"x")
    for checksum, etag in (
        ("0" * 32, "0" * 32 + "-1"),
        ('"abc-7"', "abc-7"),
        ("0x8D<&>", None),
        ("", None),
    ):
        found = etag_of(made._replace(checksum=checksum))
        assert found == etag or (etag is None and found.endswith("-1") and len(found) == 66)


def test_fixed_answers(site: Site) -> None:
    site.put("main/a")

    assert site("GET", path="/").texts("Buckets/Bucket/Name") == ["demo"]
    assert site("HEAD").headers["x-amz-bucket-region"] == "us-east-1"
    assert site("HEAD", bucket="none").status == 404
    assert b"<LocationConstraint" in site("GET", location="").body
    assert site("GET", versioning="").texts("Status") == []
    for key in (None, "main/a"):
        assert site("GET", key, acl="").texts("AccessControlList/Grant/Permission") == [
            "FULL_CONTROL"
        ]
        assert site("PUT", key, b"", acl="").status == 501
    assert site("GET", "main/a", tagging="").texts("TagSet") == [""]
    assert site("PUT", "main/a", b"", tagging="").status == 501
    assert site("PUT", bucket="demo").code == "BucketAlreadyOwnedByYou"
    assert site("GET", bucket="new", policy="").status == 501
    for method in ("PUT", "DELETE"):
        assert site(method, bucket="new").status == 501


def test_what_cannot_be_kept_is_refused(site: Site) -> None:
    for name, code in (
        ("x-amz-tagging", "NotImplemented"),
        ("x-amz-server-side-encryption-customer-algorithm", "NotImplemented"),
    ):
        assert site("PUT", "main/a", b"x", {name: "AES256"}).code == code
    assert site("PUT", "main/a", b"x", {"x-amz-meta-k": "v" * 2048}).code == "MetadataTooLarge"
    assert site("PUT", "main/" + "k" * 1025, b"x").code == "KeyTooLongError"
    assert site("PUT", "main/" + "k" * 1024, b"x").status == 200


def test_clients_that_follow_are_sent_to_the_bucket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path, options=Options(redirect=True))
    site.put("main/large", LARGE)
    site.put("main/small")
    signed = PresignedUrl("https://bucket.test/x?signed", now())
    monkeypatch.setattr(objects, "presign_entry", lambda *_, **__: signed)

    for agent in ("curl/8.5.0", "rclone/v1.70", "duckdb/v1.4", "object_store/0.12"):
        got = site("GET", "main/large", headers={"User-Agent": agent})
        assert (got.status, got.headers["location"], got.body) == (307, signed.url, b"")
    curl = {"User-Agent": "curl/8.5.0"}
    assert site("GET", "main/small", headers=curl).status == 200
    assert site("HEAD", "main/large", headers=curl).status == 200
    assert site("GET", "main/large", headers=curl, response_expires="x").status == 200
    assert site("GET", "main/large", headers=curl | {"If-Match": '"x"'}).status == 412
    for agent in ("Boto3/1.40", "aws-sdk-java/2", "s3fs/1.9 (libcurl)"):
        assert site("GET", "main/large", headers={"User-Agent": agent}).status == 200
    site.close()


def test_directories_have_no_urls_to_send_clients_to(tmp_path: Path) -> None:
    site = Site(tmp_path, options=Options(redirect=True))
    site.put("main/a", LARGE)

    assert site("GET", "main/a", headers={"User-Agent": "curl/8"}).body == LARGE
    site.close()


def test_all_large_objects_together_have_a_limit_on_memory(
    either: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    branch.create(either.demo, "dev", source="main")
    held, limits = Memory.held, []

    def hold(limit: Memory, size: int) -> AbstractContextManager[None]:
        limits.append(limit)
        return held(limit, size)

    monkeypatch.setattr(Memory, "held", hold)
    for at, key in enumerate(("main/a", "main/b", "dev/a")):
        either.put(key, bytes([at]) * (3 << 20))

    is_bucket = either.demo.store.uri.startswith("memory:")
    assert limits == limits[:1] * (3 if is_bucket else 0)
