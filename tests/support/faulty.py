"""A store in memory with the faults that a test sets."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import RLock
from typing import TYPE_CHECKING, Any, BinaryIO

from lakecli.doctor.probe import FetchedUrl
from lakecli.errors import PermissionDenied, Unreachable
from lakecli.stores.contract import ABSENT, ANY, PLAIN, Attributes, Match, ObjectNotFound, Version
from lakecli.stores.presigned_urls import PresignedUrl
from tests.support.memory_store import MemoryBucket, MemoryStore, MemoryUploads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lakecli.errors import LakeError
    from lakecli.stores.capabilities import UnfinishedUpload, UploadedPart, UploadId
    from lakecli.stores.contract import Condition, ObjectInfo
    from lakecli.stores.presigned_urls import PresignRequest

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def denied(operation: str) -> PermissionDenied:
    """Return the error of a store that forbids an operation."""
    return PermissionDenied(f"the store refused {operation}", hint=f"grant test:{operation}")


class FaultyStore(MemoryStore):
    """A store with the faults that its attributes set; by default it has none.

    Attributes:
        errors: what an operation raises: ``list``, ``get``, ``head``, ``put``, ``overwrite``,
            ``delete``, ``presign``, ``upload``, ``unfinished``; a callable is asked each time.
        ignores: conditions that are not looked at: ``ABSENT``, ``Match``, ``stale`` for versions.
        calls: how often each operation was asked for.
        offset: how far the store's clock is ahead.
        lists_late: what was just written is not listed.
        reads_late: what was just replaced is read as it was.
        garbles: `get` and URLs give other bytes.
        status: what a URL answers with.
    """

    def __init__(self, **settings: Any) -> None:
        self.offset = timedelta(0)
        self.bucket = MemoryBucket(clock=lambda: NOW + self.offset)
        super().__init__(self.bucket, "ns/")
        self.errors: dict[str, LakeError | Callable[[], None]] = {}
        self.ignores: frozenset[str] = frozenset()
        self.calls: Counter[str] = Counter()
        self.lists_late = False
        self.reads_late = False
        self.garbles = False
        self.takes_garbled = False
        self.lies_about_versions = False
        self.forgets = False
        self.cors = {"access-control-allow-origin": "*", "access-control-allow-methods": "GET, PUT"}
        self.status = 200
        self._previous: dict[str, bytes] = {}
        self._urls: dict[str, str] = {}
        self._faulty_lock = RLock()
        for name, value in settings.items():
            assert hasattr(self, name), name
            setattr(self, name, value)

    def ask(self, operation: str) -> None:
        """Count an operation, and raise the error that is set for it."""
        with self._faulty_lock:
            self.calls[operation] += 1
        error = self.errors.get(operation)
        if callable(error):
            error()
        elif error is not None:
            raise error

    def get(
        self, key: str, *, start: int = 0, length: int | None = None, matching: str = ""
    ) -> bytes:
        self.ask("get")
        body = super().get(key, start=start, length=length, matching=matching)
        if self.reads_late:
            return self._previous.get(key, body)
        return body[::-1] if self.garbles else body

    def get_versioned(self, key: str, *, length: int | None = None) -> tuple[bytes, Version]:
        version = super().head(key).version
        return self.get(key, length=length), version

    def head(self, key: str) -> ObjectInfo:
        self.ask("head")
        return super().head(key)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        self.ask("list")
        return iter(()) if self.lists_late else super().list(prefix, after=after)

    def put(
        self, key: str, body: bytes | BinaryIO, condition: Condition, attributes: Attributes = PLAIN
    ) -> Version:
        self.ask("put")
        if f"ns/{key}" in self.bucket.objects:
            self.ask("overwrite")
            self._previous[key] = super().get(key)
        if (condition == ABSENT and "ABSENT" in self.ignores) or (
            isinstance(condition, Match) and "Match" in self.ignores
        ):
            condition = ANY
        version = super().put(key, body, condition, attributes)
        if self.forgets:
            super().delete([key])
        return Version(f"other-{version}") if self.lies_about_versions else version

    def delete(self, keys: Iterable[str]) -> None:
        self.ask("delete")
        super().delete(keys)

    def presign(self, key: str, request: PresignRequest, *, now: datetime) -> PresignedUrl:
        self.ask("presign")
        url = f"http://store.example/{len(self._urls)}"
        self._urls[url] = key
        return PresignedUrl(url, now + request.expires_in)

    def fetch(self, url: str, *, preflight: bool = False) -> FetchedUrl:
        """Answer a signed URL."""
        self.ask("fetch")
        headers = {"date": f"{NOW + self.offset:%a, %d %b %Y %H:%M:%S GMT}"}
        if preflight:
            return FetchedUrl(200 if self.cors else 403, b"", headers | self.cors)
        try:
            body = super().get(self._urls[url])
        except ObjectNotFound:
            return FetchedUrl(404, b"<Error><Code>NoSuchKey</Code></Error>", headers)
        if self.status != 200:
            return FetchedUrl(self.status, b"<Error><Code>AccessDenied</Code></Error>", headers)
        return FetchedUrl(200, body[::-1] if self.garbles else body, headers)

    def uploads(self) -> MemoryUploads:
        return FaultyUploads(self, self.bucket, "ns/")

    def put_behind_its_back(self, key: str, body: bytes, *, age: timedelta) -> None:
        """Write an object as another client did `age` ago."""
        super().put(key, body, ANY)
        stored = self.bucket.objects[f"ns/{key}"]
        info = stored.info._replace(modified_at=NOW - age)
        self.bucket.objects[f"ns/{key}"] = replace(stored, info=info)

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys of the bucket."""
        return tuple(sorted(self.bucket.objects))


class FaultyUploads(MemoryUploads):
    """The uploads of a `FaultyStore`."""

    def __init__(self, store: FaultyStore, bucket: MemoryBucket, prefix: str) -> None:
        super().__init__(MemoryStore(bucket, prefix), bucket, prefix)
        self._faulty = store

    def start(self, key: str, *, by_urls: bool = False) -> UploadId:
        self._faulty.ask("upload")
        return super().start(key)

    def put_part(
        self, key: str, upload: UploadId, number: int, body: bytes | BinaryIO, *, crc32c: int
    ) -> UploadedPart:
        self._faulty.ask("part")
        if self._faulty.takes_garbled:
            from google_crc32c import value

            assert isinstance(body, bytes)
            crc32c = value(body)
        return super().put_part(key, upload, number, body, crc32c=crc32c)

    def complete(self, key: str, upload: UploadId, parts: Sequence[UploadedPart]) -> Version:
        self._faulty.ask("complete")
        return super().complete(key, upload, parts)

    def parts(self, key: str, upload: UploadId) -> Iterator[UploadedPart]:
        self._faulty.ask("parts")
        return super().parts(key, upload)

    def abort(self, key: str, upload: UploadId) -> None:
        self._faulty.ask("abort")
        super().abort(key, upload)

    def iter_unfinished(self, prefix: str = "") -> Iterator[UnfinishedUpload]:
        self._faulty.ask("unfinished")
        return super().iter_unfinished(prefix)


def unreachable() -> Unreachable:
    """Return the error of a store that does not answer."""
    return Unreachable("the store does not answer", hint="wait")
