"""The contract of uploads in parts."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING

import google_crc32c
import pytest

from lakecli.errors import IntegrityError, NotFound
from lakecli.stores.capabilities import UploadId, UploadNotFound, uploads_of
from lakecli.stores.contract import ANY, BucketNotFound, ObjectNotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.stores.capabilities import PartUploads, UploadedPart
    from lakecli.stores.contract import ObjectStore

SMALLEST = 5 << 20
"""The smallest part that S3 accepts, except as the last one."""


def part_of(
    uploads: PartUploads, key: str, upload: UploadId, number: int, body: bytes
) -> UploadedPart:
    return uploads.put_part(key, upload, number, body, crc32c=google_crc32c.value(body))


class UploadsContract:
    """A mix-in for the suite of a store, which has fixtures `make_store` and `missing_store`."""

    knows_dropped_uploads = True
    """The store refuses parts of an aborted upload."""

    outlives_others = True
    """An upload survives another write of its object."""

    @pytest.fixture
    def uploads(self, make_store: Callable[[], ObjectStore]) -> PartUploads:
        found = uploads_of(make_store())
        assert found is not None
        return found

    def test_parts_become_an_object(
        self, make_store: Callable[[], ObjectStore], uploads: PartUploads
    ) -> None:
        store = make_store()
        upload = uploads.start("data/k")
        bodies = {1: b"1" * SMALLEST, 2: b"2" * SMALLEST, 3: b"end"}
        parts = {3: part_of(uploads, "data/k", upload, 3, bodies[3])}
        stream = io.BytesIO(bodies[1])
        parts[1] = uploads.put_part(
            "data/k", upload, 1, stream, crc32c=google_crc32c.value(bodies[1])
        )
        with pytest.raises(ObjectNotFound):
            store.head("data/k")
        assert list(store.list()) == []

        # Another process resumes, and knows only the key and the ID.
        later = uploads_of(make_store())
        assert later is not None
        assert [(part.number, part.size) for part in later.parts("data/k", upload)] == [
            (1, SMALLEST),
            (3, 3),
        ]
        known = {part.number: part for part in later.parts("data/k", upload)}
        assert all(known[number].tag == parts[number].tag for number in known)
        known[2] = part_of(later, "data/k", upload, 2, bodies[2])
        version = later.complete("data/k", upload, [known[n] for n in (1, 2, 3)])
        assert store.head("data/k").version == version
        assert store.get("data/k") == bodies[1] + bodies[2] + bodies[3]
        with pytest.raises(NotFound):
            list(later.parts("data/k", upload))

    def test_a_part_may_be_sent_again(
        self, make_store: Callable[[], ObjectStore], uploads: PartUploads
    ) -> None:
        upload = uploads.start("k")
        part_of(uploads, "k", upload, 1, b"first try")
        part = part_of(uploads, "k", upload, 1, b"second")
        (listed,) = uploads.parts("k", upload)
        assert (listed.size, listed.tag) == (6, part.tag)
        uploads.complete("k", upload, [part])
        assert make_store().get("k") == b"second"

    def test_parts_can_be_sent_concurrently(
        self, make_store: Callable[[], ObjectStore], uploads: PartUploads
    ) -> None:
        upload = uploads.start("k")
        bodies = [b"%d" % number * SMALLEST for number in range(4)]
        with ThreadPoolExecutor(4) as pool:
            parts = list(
                pool.map(
                    lambda n: part_of(uploads, "k", upload, n + 1, bodies[n]), range(len(bodies))
                )
            )
        uploads.complete("k", upload, parts)
        assert make_store().get("k") == b"".join(bodies)

    def test_joined_parts_replace_an_object(
        self, make_store: Callable[[], ObjectStore], uploads: PartUploads
    ) -> None:
        if not self.outlives_others:
            return
        upload = uploads.start("k")
        part = part_of(uploads, "k", upload, 1, b"slow")
        make_store().put("k", b"fast", ANY)
        assert [each.number for each in uploads.parts("k", upload)] == [1]
        uploads.complete("k", upload, [part])
        assert make_store().get("k") == b"slow"

    def test_an_aborted_upload_is_gone(
        self, make_store: Callable[[], ObjectStore], uploads: PartUploads
    ) -> None:
        upload = uploads.start("k")
        part = part_of(uploads, "k", upload, 1, b"never")
        uploads.abort("k", upload)
        uploads.abort("k", upload)
        with pytest.raises(UploadNotFound):
            list(uploads.parts("k", upload))
        with pytest.raises(UploadNotFound):
            uploads.changed_at("k", upload)
        if self.knows_dropped_uploads:
            with pytest.raises(UploadNotFound):
                part_of(uploads, "k", upload, 1, b"never")
            with pytest.raises(UploadNotFound):
                uploads.complete("k", upload, [part])
        assert list(uploads.iter_unfinished()) == []
        assert list(make_store().list()) == []

    def test_unfinished_uploads_are_found(
        self, make_store: Callable[[], ObjectStore], uploads: PartUploads
    ) -> None:
        ids = {key: uploads.start(key) for key in ("data/aa/1", "data/bb/2", "other/3")}
        found = {each.key: each for each in uploads.iter_unfinished("data/")}
        assert {key: each.id for key, each in found.items()} == {
            key: ids[key] for key in ("data/aa/1", "data/bb/2")
        }
        assert all(each.started_at.tzinfo is not None for each in found.values())
        assert uploads.changed_at("data/aa/1", ids["data/aa/1"]) is None
        part = part_of(uploads, "data/aa/1", ids["data/aa/1"], 1, b"x")
        changed = uploads.changed_at("data/aa/1", ids["data/aa/1"])
        assert changed is not None
        assert changed >= found["data/aa/1"].started_at - timedelta(seconds=1)
        uploads.complete("data/aa/1", ids["data/aa/1"], [part])
        uploads.abort("data/bb/2", ids["data/bb/2"])
        assert [each.key for each in uploads.iter_unfinished()] == ["other/3"]

    def test_uploads_need_the_bucket(self, missing_store: ObjectStore) -> None:
        uploads = uploads_of(missing_store)
        assert uploads is not None
        with pytest.raises(BucketNotFound):
            uploads.start("k")


class CheckedPartsContract(UploadsContract):
    """Tests for stores that compare the checksum of a part."""

    def test_a_part_with_other_bytes_is_refused(self, uploads: PartUploads) -> None:
        upload = uploads.start("k")
        part = part_of(uploads, "k", upload, 1, b"right")
        for body in (b"wrong", io.BytesIO(b"wrong")):
            with pytest.raises(IntegrityError):
                uploads.put_part("k", upload, 2, body, crc32c=google_crc32c.value(b"right"))
        assert [each.tag for each in uploads.parts("k", upload)] == [part.tag]
