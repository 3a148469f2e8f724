from __future__ import annotations

import gc
from concurrent.futures import Future, ThreadPoolExecutor
from errno import EIO
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from lakecli.base.layout import data_key
from lakecli.errors import Unreachable
from lakecli.repository.reading.view import open_view
from lakecli.serving.s3 import multipart, parts
from lakecli.serving.s3.errors import S3Error
from lakecli.serving.s3.multipart import Uploads
from lakecli.serving.s3.parts import UploadPart
from lakecli.serving.writes import BranchWriter
from lakecli.stores.contract import size_of
from lakecli.stores.local import files as local_files
from lakecli.stores.local.batch import LocalBatch
from lakecli.stores.local.files import SyncError
from tests.serving.s3_wire import digest64
from tests.support.memory_store import MemoryUploads

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.serving.s3.site import Site
    from tests.serving.s3_wire import Answer

SIZE = 5 << 20
BODIES = [bytes([at]) * SIZE for at in range(4)] + [b"the end"]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let parts be small, so that tests are fast; the limit has its own test."""
    monkeypatch.setattr(multipart, "SMALLEST", 5 << 10)


def body_of(number: int, size: int = 5 << 10) -> bytes:
    return bytes([number]) * size


class Uploading:
    """An upload of one object."""

    def __init__(
        self, site: Site, key: str = "main/a", headers: Mapping[str, str] | None = None
    ) -> None:
        self.site = site
        self.key = key
        answer = site("POST", key, headers=headers, uploads="")
        assert answer.status == 200, answer
        self.id = answer.texts("UploadId")[0]
        self.tags: dict[int, str] = {}

    def send(self, number: int, body: bytes, **headers: str) -> Answer:
        """Send a part."""
        answer = self.site("PUT", self.key, body, headers, uploadId=self.id, partNumber=str(number))
        if answer.status == 200:
            self.tags[number] = answer.headers["etag"]
        return answer

    def copy(self, number: int, source: str, span: str = "") -> Answer:
        """Copy a part."""
        headers = {"x-amz-copy-source": source}
        if span:
            headers["x-amz-copy-source-range"] = span
        answer = self.site("PUT", self.key, b"", headers, uploadId=self.id, partNumber=str(number))
        if answer.status == 200:
            self.tags[number] = answer.texts("ETag")[0]
        return answer

    def complete(
        self, *numbers: int, tags: Mapping[int, str] | None = None, **headers: str
    ) -> Answer:
        """Complete the upload with all parts, or some."""
        chosen = {each: self.tags[each] for each in numbers or sorted(self.tags)}
        items = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>"
            for number, tag in (tags or chosen).items()
        )
        document = f"<CompleteMultipartUpload>{items}</CompleteMultipartUpload>"
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return self.site("POST", self.key, document.encode(), named, uploadId=self.id)

    def abort(self) -> Answer:
        """End the upload."""
        return self.site("DELETE", self.key, uploadId=self.id)


def temporary_files(site: Site) -> list[Path]:
    root = Path(site.demo.store.uri.removeprefix("local://"))
    found = (root / "_lakecli" / "tmp").rglob("*")
    return [each for each in found if each.is_file() and each.name != "lock"]


def left(site: Site) -> list[str]:
    """Return what was stored and is nobody's object."""
    store = site.demo.store
    if store.uri.startswith("local:"):
        return list(map(str, temporary_files(site)))
    unfinished = [each.key for each in store.uploads().iter_unfinished()]  # type: ignore[attr-defined]
    return unfinished + [each.key for each in store.list("_lakecli/incoming/")]


@pytest.mark.parametrize(
    "order", [[1, 2, 3], [3, 2, 1], [2, 3, 1], [3, 1, 2], [1, 2, 3, 2], [3, 1, 2, 1, 3]], ids=str
)
def test_parts_arrive_in_any_order(either: Site, order: list[int]) -> None:
    upload = Uploading(either, headers={"x-amz-meta-k": "v", "Content-Type": "a/b"})
    sent = {}
    for turn, number in enumerate(order):
        sent[number] = body_of(number + 10 * turn, 7 if number == 3 else 5 << 10)
        assert upload.send(number, sent[number]).status == 200

    done = upload.complete()

    expected = b"".join(sent[number] for number in sorted(sent))
    got = either("GET", "main/a")
    assert (got.body == expected, got.headers["etag"]) == (True, done.texts("ETag")[0])
    assert (got.headers["x-amz-meta-k"], got.headers["content-type"]) == ("v", "a/b")
    with open_view(either.demo, "main") as view:
        found = view.entry(b"a")
    assert found.physical_address == data_key(found.checksum)
    assert done.texts("Key") == ["main/a"]
    assert left(either) == []


def test_parts_of_all_sizes(either: Site) -> None:
    upload = Uploading(either)
    bodies = [body_of(1, 6_000), body_of(2, 9_000), body_of(3, 5_120), body_of(4, 9_000), b""]
    for number in (3, 1, 5, 4, 2):
        upload.send(number * 3, bodies[number - 1])

    assert upload.complete().status == 200

    assert either("GET", "main/a").body == b"".join(bodies)


def test_large_parts_are_written_where_they_stay(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multipart, "SMALLEST", SIZE)
    upload = Uploading(site)
    for number in (2, 1, 5, 3, 4):
        assert upload.send(number, BODIES[number - 1]).status == 200
    (file,) = temporary_files(site)
    inode = file.stat().st_ino

    assert upload.complete().status == 200

    (found,) = site.demo.store.list("data/")
    path = site.demo.store.local_path(found.key)
    assert path is not None
    assert Path(path).stat().st_ino == inode
    got = site("GET", "main/a")
    assert sha256(got.body).digest() == sha256(b"".join(BODIES)).digest()


def test_only_the_last_part_may_be_small(either: Site) -> None:
    upload = Uploading(either)
    upload.send(1, b"small")
    upload.send(2, b"small")

    assert upload.complete().code == "EntityTooSmall"
    assert upload.complete(2).status == 200
    assert either("GET", "main/a").body == b"small"


def test_the_limit_is_that_of_s3() -> None:
    assert SIZE == 5_242_880


def test_wrong_requests(site: Site) -> None:
    upload = Uploading(site)
    upload.send(1, body_of(1))
    upload.send(2, body_of(2))

    assert upload.complete(tags={3: '"x"'}).code == "InvalidPart"
    assert upload.complete(tags={1: '"x"'}).code == "InvalidPart"
    assert upload.complete(tags={2: upload.tags[2], 1: upload.tags[1]}).code == "InvalidPartOrder"
    assert upload.send(0, b"").code == "InvalidArgument"
    assert upload.send(10_001, b"").code == "InvalidArgument"
    assert site("POST", "main/a", b"<x/>", uploadId=upload.id).code == "MalformedXML"
    assert upload.complete(x_amz_mp_object_size="7").code == "InvalidRequest"
    for method in ("DELETE", "GET"):
        assert site(method, "main/b", uploadId=upload.id).code == "NoSuchUpload"
        assert site(method, "main/a", uploadId="none").code == "NoSuchUpload"
    assert upload.complete().status == 200


def named(number: object, etag: str, more: str = "") -> str:
    return f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag>{more}</Part>"


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ("", "MalformedXML"),
        (named(0, "«1»"), "InvalidPart"),
        (named("", "«1»"), "InvalidPart"),
        (named("-1", "«1»"), "InvalidPart"),
        (named("01", "«1»"), "InvalidPart"),
        (named("9" * 5_000, "«1»"), "InvalidPart"),
        (named(1, ""), "InvalidPart"),
        (named(1, "«2»"), "InvalidPart"),
        (named(1, "«1»", "<ChecksumCRC32>AAAAAA==</ChecksumCRC32>"), "InvalidPart"),
        (named(1, "«1»") * 2, "InvalidPartOrder"),
        (named(2, "«2»") + named(1, "«1»"), "InvalidPartOrder"),
    ],
)
def test_parts_that_cannot_be_joined(site: Site, parts: str, code: str) -> None:
    upload = Uploading(site)
    for number in (1, 2):
        upload.send(number, body_of(number), **sum_of(body_of(number)))
        parts = parts.replace(f"«{number}»", upload.tags[number])
    document = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>"
    assert site("POST", "main/a", document.encode(), uploadId=upload.id).code == code

    checksum = f"<ChecksumCRC32>{digest64('crc32', body_of(1))}</ChecksumCRC32>"
    right = named(" 1 ", f" {upload.tags[1][1:-1]} ", checksum)
    document = f"<CompleteMultipartUpload>{right}</CompleteMultipartUpload>"
    assert site("POST", "main/a", document.encode(), uploadId=upload.id).status == 200


def test_a_repeated_completion_has_the_same_answer(either: Site) -> None:
    upload = Uploading(either)
    upload.send(1, b"x")
    first = upload.complete()
    either.put("main/a", b"other")

    again = upload.complete()

    assert (again.status, again.texts("ETag")) == (200, first.texts("ETag"))
    assert either("GET", "main/a").body == b"other"
    assert upload.send(1, b"x").code == "NoSuchUpload"
    assert upload.abort().code == "NoSuchUpload"


def test_conditions_are_judged_when_it_is_completed(either: Site) -> None:
    upload = Uploading(either)
    upload.send(1, b"x")
    etag = either.put("main/a", b"other")

    assert upload.complete(If_None_Match="*").code == "PreconditionFailed"
    assert upload.complete(If_Match='"none"').code == "PreconditionFailed"
    assert upload.complete(If_Match=etag).status == 200
    assert either("GET", "main/a").body == b"x"


def test_an_aborted_upload_leaves_nothing(either: Site) -> None:
    upload = Uploading(either)
    upload.send(2, body_of(2))
    upload.send(1, body_of(1))
    upload.send(1, body_of(3))

    assert upload.abort().status == 204
    assert upload.abort().code == "NoSuchUpload"
    assert upload.complete().code == "NoSuchUpload"
    assert left(either) == []
    assert either.keys() == []


def test_the_end_of_the_endpoint_ends_uploads(either: Site) -> None:
    upload = Uploading(either)
    upload.send(1, body_of(1))
    assert left(either)

    either.context._owned.clear()
    gc.collect()

    assert left(either) == []


def test_a_part_that_fails_is_not_there(either: Site) -> None:
    upload = Uploading(either)
    large = body_of(1, 3 << 20)
    answer = upload.send(1, large, **{"Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA=="})
    assert answer.code == "BadDigest"
    gone = either("PUT", "main/a", large, uploadId=upload.id, partNumber="1", ends_after=2 << 20)
    assert gone.status == 0
    assert upload.complete(tags={1: '"x"'}).code == "InvalidPart"

    upload.send(1, large + b"more")
    assert upload.complete().status == 200
    assert either("GET", "main/a").body == large + b"more"
    assert left(either) == []


def test_parts_are_copied(either: Site) -> None:
    either.put("main/source", body_of(7, 20_000))
    upload = Uploading(either)
    upload.send(1, body_of(1))
    upload.copy(2, "/demo/main/source", "bytes=0-9999")
    upload.copy(3, "/demo/main/source")

    assert upload.copy(4, "/demo/main/source", "bytes=0-20000").status in {400, 416}
    assert upload.complete().status == 200
    assert either("GET", "main/a").body == body_of(1) + body_of(7, 30_000)


def test_a_whole_object_copied_in_parts_is_an_entry(either: Site) -> None:
    either("PUT", "main/source", body_of(7, 20_000), {"x-amz-meta-k": "v"})
    objects = [each.key for each in either.demo.store.list("data/")]
    upload = Uploading(either, headers={"x-amz-meta-n": "w"})
    upload.copy(1, "/demo/main/source", "bytes=0-9999")
    upload.copy(2, "/demo/main/source", "bytes=10000-19999")

    assert upload.complete().status == 200

    got = either("GET", "main/a")
    assert (got.body, got.headers["x-amz-meta-n"]) == (body_of(7, 20_000), "w")
    assert "x-amz-meta-k" not in got.headers
    assert [each.key for each in either.demo.store.list("data/")] == objects
    assert left(either) == []


def sum_of(body: bytes) -> dict[str, Any]:
    return {"x-amz-checksum-crc32": digest64("crc32", body)}


def test_checksums_of_parts_and_of_the_object(either: Site) -> None:
    upload = Uploading(either, headers={"x-amz-checksum-algorithm": "CRC32"})
    bodies = [body_of(1), b"end"]
    for number, body in enumerate(bodies, 1):
        answer = upload.send(number, body, **sum_of(body))
        assert answer.headers["x-amz-checksum-crc32"] == digest64("crc32", body)
    whole: dict[str, Any] = {"x-amz-checksum-type": "FULL_OBJECT"}

    wrong = upload.complete(**whole, **sum_of(b"x"))
    assert wrong.code == "BadDigest"
    assert upload.complete(**whole, **sum_of(b"".join(bodies))).status == 200


def test_the_checksum_of_the_object_is_verified_though_nothing_announced_it(either: Site) -> None:
    upload = Uploading(either)
    bodies = [body_of(1), b"end"]
    for number, body in enumerate(bodies, 1):
        upload.send(number, body)

    assert upload.complete(**sum_of(b"x")).code == "BadDigest"
    assert upload.complete(**sum_of(b"".join(bodies))).status == 200
    assert either("GET", "main/a").body == b"".join(bodies)
    assert left(either) == []


def test_the_checksum_of_an_object_copied_in_parts_is_verified(either: Site) -> None:
    either("PUT", "main/source", body_of(7, 20_000))
    upload = Uploading(either)
    upload.copy(1, "/demo/main/source")

    assert upload.complete(**sum_of(b"x")).code == "BadDigest"
    assert upload.complete(**sum_of(body_of(7, 20_000))).status == 200
    assert left(either) == []


def test_an_upload_that_is_aborted_after_a_wrong_checksum_leaves_nothing(either: Site) -> None:
    upload = Uploading(either)
    upload.send(1, body_of(1))

    assert upload.complete(**sum_of(b"x")).code == "BadDigest"
    assert upload.abort().status == 204
    assert left(either) == []


def test_parts_and_uploads_are_listed(site: Site) -> None:
    uploads = [Uploading(site, key) for key in ("main/b/1", "main/a", "main/b/2", "main/a")]
    for number in (3, 1, 2):
        uploads[1].send(number, body_of(number))

    page = site("GET", "main/a", uploadId=uploads[1].id, max_parts="2")
    assert page.texts("Part/PartNumber") == ["1", "2"]
    assert (page.texts("IsTruncated"), page.texts("NextPartNumberMarker")) == (["true"], ["2"])
    rest = site("GET", "main/a", uploadId=uploads[1].id, part_number_marker="2")
    assert (rest.texts("Part/Size"), rest.texts("Part/ETag")) == (["5120"], [uploads[1].tags[3]])

    everything = site("GET", uploads="")
    ordered = ["main/a", "main/a", "main/b/1", "main/b/2"]
    assert everything.texts("Upload/Key") == ordered
    found: list[str] = []
    marker: dict[str, Any] = {}
    while True:
        page = site("GET", uploads="", max_uploads="1", **marker)
        found += page.texts("Upload/UploadId")
        if page.texts("IsTruncated") == ["false"]:
            break
        marker = {
            "key_marker": page.texts("NextKeyMarker")[0],
            "upload_id_marker": page.texts("NextUploadIdMarker")[0],
        }
    assert found == everything.texts("Upload/UploadId")
    assert site("GET", uploads="", key_marker="main/a").texts("Upload/Key") == ordered[2:]


def test_too_many_parts_that_wait_are_read_again(
    either: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "MOST_WAITING", 2)
    upload = Uploading(either, headers={"x-amz-checksum-algorithm": "CRC32"})
    for number in range(8, 0, -1):
        upload.send(number, body_of(number))
    body = b"".join(map(body_of, range(1, 9)))

    assert upload.complete(**sum_of(b"x")).code == "BadDigest"
    assert upload.complete(**sum_of(body)).status == 200
    assert either("GET", "main/a").body == body


def test_contents_that_are_there_already_are_stored_once(either: Site) -> None:
    for key in ("main/a", "main/b"):
        upload = Uploading(either, key)
        upload.send(1, b"joined")
        assert upload.complete().status == 200
        assert either("GET", key).body == b"joined"

    assert len(list(either.demo.store.list("data/"))) == 1
    assert left(either) == []


def test_a_completion_that_failed_is_repeated(
    either: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = Uploading(either)
    upload.send(1, body_of(1))
    upload.send(2, b"end")

    def fail(*_: object, **__: object) -> None:
        raise Unreachable("away")

    for owner, name in ((parts, "take_over"), (BranchWriter, "apply")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, fail)
            if name == "apply" or either.demo.store.uri.startswith("memory:"):
                assert upload.complete().code == "ServiceUnavailable"

    assert upload.complete(1).code == "InvalidPart"
    assert upload.complete().status == 200
    assert either("GET", "main/a").body == body_of(1) + b"end"
    assert left(either) == []


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_completion_is_repeated_if_the_response_of_the_bucket_was_lost(
    either: Site, monkeypatch: pytest.MonkeyPatch, *, is_whole: bool
) -> None:
    upload = Uploading(either)
    for number in (1, 2):
        upload.send(number, body_of(number))
    complete, numbers = MemoryUploads.complete, (1, 2) if is_whole else (2,)

    def lose(*given: Any) -> None:
        complete(*given)
        raise Unreachable("no response")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryUploads, "complete", lose)
        is_lost = upload.complete(*numbers).status != 200
    assert is_lost == either.demo.store.uri.startswith("memory:")
    if is_lost and not is_whole:
        for _ in range(2):
            assert upload.complete(1).code == "InvalidPart"
    assert upload.complete(*numbers).status == 200
    assert either("GET", "main/a").body == b"".join(map(body_of, numbers))


def test_a_completion_that_failed_loses_no_other_upload(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):
        Uploading(site, f"main/{number}").send(1, body_of(number))
    first, second = site.context.own(Uploads).listed("demo")
    flush, adopted = LocalBatch.flush, Event()
    with ThreadPoolExecutor(2) as pool:

        def fail(batch: LocalBatch) -> None:
            monkeypatch.setattr(LocalBatch, "flush", wait)
            joined.append(pool.submit(second.join, [second.parts[1]], {}))
            adopted.wait(0.05)  # nothing is adopted between another upload's file and its flush
            with monkeypatch.context() as patch:
                patch.setattr(local_files, "sync_file", Mock(side_effect=SyncError(EIO, "lost")))
                flush(batch)

        def wait(batch: LocalBatch) -> None:
            adopted.set()
            failed.exception()
            flush(batch)

        monkeypatch.setattr(LocalBatch, "flush", fail)
        joined: list[Future[Any]] = []
        failed = pool.submit(first.join, [first.parts[1]], {})
        assert isinstance(failed.exception(), Unreachable)
        address, _, size = joined[0].result()
    assert size_of(site.demo.store, address) == size


@pytest.mark.parametrize("number", [2, 3])
def test_a_part_that_still_arrives_does_not_change_the_object(site: Site, number: int) -> None:
    """A part is sent twice, or is not named: what arrives late is not written into the object."""
    upload = Uploading(site)
    upload.send(1, body_of(1))
    (found,) = site.context.own(Uploads).listed("demo")
    begun, completed = Event(), Event()

    def pieces() -> Iterator[bytes]:
        begun.set()
        completed.wait(10)
        yield body_of(9)

    late = UploadPart(number, 5 << 10, "late", site.context.clock(), 1 << 30)
    with ThreadPoolExecutor(1) as pool:
        storing = pool.submit(found.store, late, pieces())
        begun.wait(10)
        upload.send(2, body_of(2))
        done = upload.complete()
        completed.set()
        storing.exception()

    assert done.status == 200
    assert site("GET", "main/a").body == body_of(1) + body_of(2)


def test_unfinished_uploads_are_limited(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multipart, "MOST_UPLOADS", 2)
    first, _ = Uploading(site), Uploading(site)

    assert site("POST", "main/a", uploads="").code == "SlowDown"
    first.abort()
    assert Uploading(site).id


def test_after_a_wrong_checksum_other_parts_are_never_the_object(either: Site) -> None:
    upload = Uploading(either)
    for number in (1, 2, 3):
        upload.send(number, body_of(number))

    assert upload.complete(**sum_of(b"other")).code == "BadDigest"
    done = upload.complete(1, 3)

    if either.demo.store.uri.startswith("memory:"):  # the bucket has joined all parts already
        assert done.code == "InvalidPart"
        assert upload.complete(**sum_of(b"".join(map(body_of, (1, 2, 3))))).status == 200
        assert either("GET", "main/a").body == b"".join(map(body_of, (1, 2, 3)))
    else:
        assert done.status == 200
        assert either("GET", "main/a").body == body_of(1) + body_of(3)
    assert left(either) == []


def test_a_part_that_was_sent_again_stays_if_its_first_copy_arrives_late(either: Site) -> None:
    """As if the client had waited too long for a slow bucket, and repeated the request."""
    upload = Uploading(either)
    (found,) = either.context.own(Uploads).listed("demo")
    first = UploadPart(1, 5 << 10, "first", either.context.clock(), -1)
    found.store(first, [body_of(1)])
    upload.send(1, body_of(1))
    found.record(first)

    assert upload.complete().status == 200
    assert either("GET", "main/a").body == body_of(1)


def test_an_upload_that_was_aborted_meanwhile_is_not_completed(either: Site) -> None:
    upload = Uploading(either)
    upload.send(2, body_of(2))
    (found,) = either.context.own(Uploads).listed("demo")
    upload.abort()

    with pytest.raises(S3Error, match="NoSuchUpload"):
        found.join([found.parts[2]], {})
    assert left(either) == []
