"""Machines on one bucket in memory, which can be restored to a snapshot quickly.

Clocks stand still, and IDs depend on the command line and on how often it has run. So the same
commands in the same order have the same outcome, and in another order the same IDs.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, Self

from lakecli.cli.context import Environment
from lakecli.cli.run import run
from lakecli.kv.local_store import LocalStore, Table
from tests.support.memory_store import BUCKETS, MemoryBucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.support.memory_store import MemoryUpload, Stored

BUCKET = "meetings"
NAMESPACE = f"memory://{BUCKET}/demo"
LAKEFS = f"memory://{BUCKET}/lakefs"
"""A namespace of lakeFS, with a dump of its refs."""
START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
MACHINES = ("ada", "bob")
MANY = 10_000
"""Objects whose digests are kept."""


class Reply(NamedTuple):
    """The exit code and the output of one command."""

    exit_code: int
    stdout: str
    stderr: str


class File(NamedTuple):
    """A file of a snapshot."""

    body: bytes
    mtime_ns: int
    mode: int


class Snapshot(NamedTuple):
    """The state of both machines and the bucket at one moment."""

    now: datetime
    objects: Mapping[str, Stored]
    uploads: Mapping[str, MemoryUpload]
    writes: int
    runs: Mapping[tuple[str, ...], int]
    files: Mapping[str, File]
    directories: frozenset[str]


class Machines:
    """Homes, one for each person's machine, and the bucket that they share.

    Use it as a context manager: it keeps the local stores open between commands, as opening one
    takes longer than most commands.

    Args:
        directory: for homes and files; in memory where tests should be fast.

    Attributes:
        now: the time by the bucket's clock.
        ahead: by how much the clock of a machine differs from it.
    """

    def __init__(self, directory: Path) -> None:
        self.live = directory / "live"
        self.now = START
        self.ahead: dict[str, timedelta] = {}
        self._runs: Counter[tuple[str, ...]] = Counter()
        self._open: dict[str, LocalStore] = {}
        self._digests: dict[int, tuple[Stored, bytes]] = {}
        self._restored: dict[str, tuple[File, int]] = {}
        self.live.mkdir(parents=True)
        self.reset()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin again with an empty bucket and no homes."""
        self.close_stores()
        shutil.rmtree(self.live, ignore_errors=True)
        self.live.mkdir(parents=True)
        self._restored.clear()
        self.now = START
        bucket = BUCKETS.setdefault(BUCKET, MemoryBucket())  # stores that are kept go on using it
        bucket._clock = self._clock
        bucket.objects.clear()
        bucket.uploads.clear()
        bucket.writes = 0

    def close_stores(self) -> None:
        """Close the local stores; the next command opens them again."""
        while self._open:
            self._open.popitem()[1].close()

    @property
    def bucket(self) -> MemoryBucket:
        return BUCKETS[BUCKET]

    def files(self, machine: str) -> Path:
        """Return the directory of a machine's files outside the lake."""
        path = self.live / machine / "files"
        path.mkdir(parents=True, exist_ok=True)
        return path

    def home(self, machine: str) -> Path:
        return self.live / machine / "lakecli"

    def time_of(self, machine: str) -> datetime:
        """Return the time by a machine's clock."""
        return self.now + self.ahead.get(machine, timedelta())

    def pass_time(self, by: timedelta) -> None:
        """Advance all clocks."""
        self.now += by

    def __call__(
        self,
        machine: str,
        argv: Sequence[str],
        *,
        sync: bool = False,
        on_step: Callable[[str], None] = lambda _name: None,
        environ: Mapping[str, str] | None = None,
    ) -> Reply:
        """Run a command on a machine, in this process.

        Args:
            machine: whose home it has.
            argv: the command line.
            sync: whether sharing is automatic.
            on_step: called with the name of each step that the command announces.
            environ: its environment; ``None``: that of a user of the machine.
        """
        out, err = io.BytesIO(), io.BytesIO()
        stdin, stdout, stderr = (
            io.TextIOWrapper(each, encoding="utf-8", errors="surrogateescape")
            for each in (io.BytesIO(), out, err)
        )
        world = Environment(
            self._environment(machine, sync=sync) if environ is None else environ,
            stdin,
            stdout,
            stderr,
            now=lambda: self.time_of(machine),
            new_id=self._ids(machine, argv),
            on_step=on_step,
        )
        if (self.home(machine) / "store").is_dir():
            self._store(machine)
        code = run(list(argv), world)
        stdout.flush()
        stderr.flush()
        texts = [each.getvalue().decode("utf-8", "surrogateescape") for each in (out, err)]
        return Reply(int(code), *texts)

    def ok(self, machine: str, *argv: str, sync: bool = False) -> str:
        """Run a command that must succeed, and return its output."""
        reply = self(machine, argv, sync=sync)
        assert reply.exit_code == 0, (machine, argv, reply)
        return reply.stdout

    def save(self) -> Snapshot:
        """Return a snapshot of the present state."""
        self.close_stores()
        bucket = self.bucket
        return Snapshot(
            self.now,
            dict(bucket.objects),
            dict(bucket.uploads),
            bucket.writes,
            dict(self._runs),
            {name: self._read(name, status) for name, status in self._iter_files()},
            frozenset(self._iter_directories()),
        )

    def restore(self, saved: Snapshot) -> None:
        """Return to the state of a snapshot; only files that differ from it are written."""
        self.close_stores()
        self.now = saved.now
        self._runs = Counter(saved.runs)
        self.bucket.objects.clear()
        self.bucket.objects.update(saved.objects)
        self.bucket.uploads.clear()
        self.bucket.uploads.update(saved.uploads)
        self.bucket.writes = saved.writes
        for name in [*self._iter_directories()]:
            if name not in saved.directories:
                shutil.rmtree(self.live / name, ignore_errors=True)
        for name in sorted(saved.directories):
            (self.live / name).mkdir(exist_ok=True)
        present = dict(self._iter_files())
        for name in present.keys() - saved.files.keys():
            (self.live / name).unlink()
        for name, file in saved.files.items():
            if name not in present or self._read(name, present[name]) is not file:
                self._write(name, file)

    def _read(self, name: str, status: os.stat_result) -> File:
        """Return a file; the one that it was restored from, if nobody has written it since."""
        file, inode = self._restored.get(name, (None, 0))
        same = (inode, file.mtime_ns, len(file.body)) if file is not None else None
        if file is None or same != (status.st_ino, status.st_mtime_ns, status.st_size):
            # Nobody reads the times of a store's files: with 0 every later write shows.
            time = 0 if name.split("/")[2] == "store" else status.st_mtime_ns
            return File((self.live / name).read_bytes(), time, status.st_mode)
        return file

    def _write(self, name: str, file: File) -> None:
        path = self.live / name
        path.write_bytes(file.body)
        path.chmod(file.mode)
        os.utime(path, ns=(file.mtime_ns, file.mtime_ns))
        self._restored[name] = (file, path.stat().st_ino)

    def fingerprint(self) -> bytes:
        """Return a digest of all that a later command's outcome can depend on."""
        digest = hashlib.blake2b(digest_size=32)
        digest.update(repr((self.now, self.ahead, len(self.bucket.uploads))).encode())
        for key, stored in sorted(self.bucket.objects.items()):
            digest.update(key.encode("utf-8", "surrogateescape") + self._digest_of(stored))
        for name, status in sorted(self._iter_files()):
            place = name.split("/")
            if place[2] in {"store", "directories"}:
                continue  # indexes of working directories have inodes and times of this machine
            # Files of the cache are named by their contents.
            body = b"" if place[2] == "cache" else (self.live / name).read_bytes()
            digest.update(f"{name} {len(body)} {status.st_mode}".encode() + body)
        for machine in self._machines_with_stores():
            digest.update(machine.encode())
            with self._store(machine).read() as txn:
                for table in Table:
                    if table is Table.FILE_HASHES:
                        continue  # they have inodes and times of this machine
                    for record, value in txn.scan(table):
                        digest.update(b"%d %d " % (len(record), len(value)))
                        digest.update(table + record + value)
        return digest.digest()

    def keys_of_contents(self) -> frozenset[str]:
        """Return the keys of the data, trees and packs in the bucket, named by their contents."""
        return frozenset(
            key
            for key in self.bucket.objects
            if "/data/" in key or "/_lakefs/" in key or "/_lakecli/commits/" in key
        )

    def _digest_of(self, stored: Stored) -> bytes:
        known = self._digests.get(id(stored))
        if known is None:
            if len(self._digests) > MANY:
                self._digests.clear()
            content = repr((stored.info, sorted(stored.info.metadata.items()))).encode()
            known = stored, hashlib.blake2b(content + stored.body).digest()
            self._digests[id(stored)] = known  # with the object, so that its ID is not used again
        return known[1]

    def _iter_files(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yield the files of all machines; LMDB makes its lock file anew at every opening."""
        for entry in self._walk(self.live):
            if not entry.is_dir(follow_symlinks=False) and entry.name != "lock.mdb":
                yield self._name(entry), entry.stat()

    def _iter_directories(self) -> Iterator[str]:
        for entry in self._walk(self.live):
            if entry.is_dir(follow_symlinks=False):
                yield self._name(entry)

    def _name(self, entry: os.DirEntry[str]) -> str:
        return entry.path[len(str(self.live)) + 1 :]

    def _walk(self, directory: str | Path) -> Iterator[os.DirEntry[str]]:
        with os.scandir(directory) as entries:
            for entry in entries:
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    yield from self._walk(entry.path)

    def _machines_with_stores(self) -> list[str]:
        return sorted(
            each.name for each in self.live.iterdir() if (each / "lakecli" / "store").is_dir()
        )

    def _store(self, machine: str) -> LocalStore:
        """Return the local store of a machine, which stays open for the commands that follow."""
        store = self._open.get(machine)
        if store is None:
            store = self._open[machine] = LocalStore.open(self.home(machine) / "store")
        return store

    def _clock(self) -> datetime:
        return self.now

    def _environment(self, machine: str, *, sync: bool) -> Mapping[str, str]:
        return {
            **os.environ,
            "LAKECLI_HOME": str(self.home(machine)),
            "LAKECLI_USER_NAME": machine.title(),
            "LAKECLI_USER_EMAIL": f"{machine}@example.com",
            "LAKECLI_SYNC": "auto" if sync else "manual",
            "HOME": str(self.live / machine),
        }

    def _ids(self, machine: str, argv: Sequence[str]) -> Callable[[], bytes]:
        """Return a source of IDs that no other run shares since the last snapshot."""
        self._runs[machine, *argv] += 1
        run_number, count = self._runs[machine, *argv], 0

        def new_id() -> bytes:
            nonlocal count
            count += 1
            text = f"{machine} {run_number} {count} {argv}"
            return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()

        return new_id
