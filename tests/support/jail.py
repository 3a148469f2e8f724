"""A jail for commands: buckets in memory, forbidden files, and a record of every access.

Buckets of every cloud are in memory, and each request is recorded with the bucket it went to.
Directories are real. An audit hook of the interpreter notes which files are opened or changed,
which sockets connect and which programs start.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from lakecli.stores import registry
from lakecli.stores.contract import ABSENT
from lakecli.stores.presigned_urls import PresignedUrl
from tests.support.lakes import START
from tests.support.memory_store import MemoryBucket, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

    import pytest

    from lakecli.stores.presigned_urls import PresignRequest
    from lakecli.stores.uri import NamespaceUri

SECRET: Final = b"CANARY-f8c1-of-the-victim"
"""Contents of every object and file that no command may read."""

_PATHS: Final = {
    "open": (0,),
    "os.chmod": (0,),
    "os.link": (0, 1),
    "os.listdir": (0,),
    "os.mkdir": (0,),
    "os.remove": (0,),
    "os.rename": (0, 1),
    "os.rmdir": (0,),
    "os.symlink": (1,),
    "os.truncate": (0,),
    "os.utime": (0,),
}
_NEVER: Final = frozenset({"socket.connect", "subprocess.Popen", "os.exec", "os.system"})

NAMED: Final = ["true"]
"""The program that command lines and settings name; nothing else may be run."""


class _Watch:
    """The listener of the audit hook, which Python cannot remove again."""

    def __init__(self) -> None:
        self.jail: Jail | None = None
        self.installed = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.jail is None:
            return
        if event in _NEVER and arguments[1:2] != (NAMED,):
            self.jail.seen.append(f"{event} {arguments!r}"[:200])
        for at in _PATHS.get(event, ()):
            path = arguments[at]
            if isinstance(path, str | bytes | os.PathLike):
                self.jail.note(event, os.fsdecode(path))


_WATCH: Final = _Watch()


class JailStore(MemoryStore):
    """A namespace in a recorded bucket."""

    def __init__(self, jail: Jail, uri: NamespaceUri) -> None:
        prefix = f"{uri.path}/" if uri.path else ""
        self._jail = jail
        self._where = f"{uri.scheme}://{uri.bucket}"
        self._uri = str(uri)
        super().__init__(jail.bucket(self._where), prefix)

    @property
    def uri(self) -> str:
        return self._uri

    def prepare(self) -> str:
        return ""

    def presign(self, key: str, request: PresignRequest, *, now: datetime) -> PresignedUrl:
        self._jail.requests.add(self._where)
        self._jail.signed.append(f"{self._uri}/{key}")
        return PresignedUrl("https://signed.invalid/x", now + request.expires_in)

    def _check_bucket(self) -> None:
        self._jail.requests.add(self._where)
        super()._check_bucket()


class Jail:
    """The buckets and files of one run of commands.

    Attributes:
        root: everything is below it.
        requests: buckets that were asked for anything.
        signed: objects that URLs were signed for.
        seen: accesses to what is forbidden.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.buckets: dict[str, MemoryBucket] = {}
        self.requests: set[str] = set()
        self.signed: list[str] = []
        self.seen: list[str] = []
        self.canaries = [
            root / "canary",
            root / "home" / "canary",
            root / "home" / ".ssh" / "id_rsa",
            root / "work" / "canary",
        ]

    def bucket(self, where: str) -> MemoryBucket:
        """Return a bucket, which is made on first use."""
        return self.buckets.setdefault(where, MemoryBucket(clock=lambda: START))

    def plant(self) -> None:
        """Write the canaries, also into a second bucket."""
        for path in self.canaries:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(SECRET)
        store = MemoryStore(self.bucket("s3://secret"))
        for key in ("canary", "ns/canary", "data/canary"):
            store.put(key, SECRET, ABSENT)
        self._before = self._state()

    def note(self, event: str, path: str) -> None:
        """Record an access to a file if it is forbidden."""
        name = path.rpartition("/")[2]
        if name in {"canary", "id_rsa", "passwd"}:
            self.seen.append(f"{event} {path}")

    def _state(self) -> dict[str, object]:
        files: dict[str, object] = {}
        for folder in (self.root, self.root / "home"):
            # Commands may change only their own files.
            names = sorted(path.name for path in folder.iterdir())
            files[str(folder)] = [name for name in names if name not in {"work", "lakecli"}]
        for path in self.canaries:
            status = path.stat() if path.exists() else None
            files[str(path)] = status and (status.st_mtime_ns, status.st_ino, path.read_bytes())
        bucket = self.bucket("s3://secret")
        files["s3://secret"] = {key: stored.body for key, stored in bucket.objects.items()}
        return files

    def trespasses(self, *, allowed: set[str]) -> list[str]:
        """Return the forbidden accesses."""
        _WATCH.jail = None
        found = list(self.seen)
        found += [f"request to {where}" for where in sorted(self.requests - allowed)]
        found += [
            f"signed {uri}" for uri in self.signed if not uri.startswith(tuple(sorted(allowed)))
        ]
        after = self._state()
        found += [f"{name} changed" for name in after if after[name] != self._before[name]]
        return found

    @contextmanager
    def closed(self, patch: pytest.MonkeyPatch) -> Iterator[None]:
        """Run the block with the stores of the jail, without waiting, and record every access."""
        if not _WATCH.installed:
            sys.addaudithook(_WATCH)
            _WATCH.installed = True
        real = registry._open

        def opened(uri: NamespaceUri, *options: Any) -> registry.NamespaceStore:
            return real(uri, *options) if uri.scheme == "local" else JailStore(self, uri)

        patch.setattr(registry, "_open", opened)
        _WATCH.jail = self
        try:
            yield
        finally:
            _WATCH.jail = None
