"""One transfer in a process of its own, killed after so many parts.

python -m tests.repository.transfer_worker DIRECTORY upload|download PARALLELISM KILL_AFTER LOG

Every part that begins and ends is a line in LOG: ``begin KEY NUMBER`` and ``end KEY NUMBER``.
"""

from __future__ import annotations

import os
import signal
import sys
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from lakecli.repository.download import DownloadOptions, download_tree
from lakecli.repository.upload import UploadOptions, upload_tree
from tests.support.lakes import Numbered, open_lake

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.objectstore.base import ObjectStore

PART_SIZE = 5 << 20


class Watch:
    """Notes parts, and kills the process once so many have ended."""

    def __init__(self, log: Path, kill_after: int) -> None:
        self._log = log.open("a", buffering=1)
        self._left = kill_after
        self._lock = Lock()

    def part(self, key: str, number: int, move: Callable[[], Any]) -> Any:
        with self._lock:
            self._log.write(f"begin {key} {number}\n")
        moved = move()
        with self._lock:
            self._log.write(f"end {key} {number}\n")
            self._left -= 1
            if not self._left:
                os.kill(os.getpid(), signal.SIGKILL)
        return moved


class WatchedUploads:
    def __init__(self, inner: Any, watch: Watch) -> None:
        self._inner = inner
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def put_part(self, key: str, upload: str, number: int, body: Any, *, crc32c: int) -> Any:
        return self._watch.part(
            key, number, lambda: self._inner.put_part(key, upload, number, body, crc32c=crc32c)
        )


class WatchedStore:
    def __init__(self, inner: ObjectStore, watch: Watch) -> None:
        self._inner = inner
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def uploads(self) -> WatchedUploads:
        inner: Any = self._inner
        return WatchedUploads(inner.uploads(), self._watch)

    def open_range(self, key: str, *, start: int, length: int) -> BytesIO:
        def read() -> bytes:
            inner: Any = self._inner
            with inner.open_range(key, start=start, length=length) as stream:
                return b"".join(iter(lambda: stream.read(1 << 20), b""))

        return BytesIO(self._watch.part(key, start // PART_SIZE + 1, read))


def main() -> None:
    directory, command, parallelism, kill_after, log = sys.argv[1:]
    root = Path(directory)
    with open_lake(root, new_id=Numbered(log)) as lake:
        repository = lake.repository("demo")
        repository.__dict__["store"] = WatchedStore(
            repository.store, Watch(Path(log), int(kill_after))
        )
        if command == "upload":
            upload = UploadOptions(parallelism=int(parallelism), part_size=PART_SIZE)
            report = upload_tree(repository, "main", b"", source=root / "source", options=upload)
            assert not report.failures, report.failures
        else:
            download = DownloadOptions(parallelism=int(parallelism), part_size=PART_SIZE)
            fetched = download_tree(
                repository, "main", b"", target=root / "target", options=download
            )
            assert not fetched.failures, fetched.failures


if __name__ == "__main__":
    main()
