"""Machines on one bucket in memory, which can be put back to where they were, in no time.

Clocks stand still and IDs are numbered for each run of a command, so that the same commands in
the same order end in the same commits.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from lakecli.cli.app import run
from lakecli.cli.context import Environment
from lakecli.objectstore.memory.store import BUCKETS, MemoryBucket

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

BUCKET = "meetings"
NAMESPACE = f"memory://{BUCKET}/demo"
START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
MACHINES = ("ada", "bob")


class Reply(NamedTuple):
    """What one command answered."""

    exit_code: int
    stdout: str
    stderr: str


class Saved(NamedTuple):
    """A moment to go back to."""

    now: datetime
    objects: Mapping[str, Any]
    uploads: Mapping[str, Any]
    writes: int
    directory: Path


class Machines:
    """Homes, each of a person who has a machine of their own, and the bucket that they share.

    Args:
        directory: for homes and files; in memory where tests should be fast.

    Attributes:
        now: the time by the bucket's clock.
        ahead: by how much the clock of a machine differs from it.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.live = directory / "live"
        self.now = START
        self.ahead: dict[str, timedelta] = {}
        self._saved = 0
        self._count = 0
        self.live.mkdir(parents=True)
        self.reset()

    def reset(self) -> None:
        """Begin with an empty bucket, at the first moment."""
        self.now = START
        bucket = BUCKETS.setdefault(BUCKET, MemoryBucket())  # stores that are kept go on using it
        bucket._clock = self._clock
        bucket.objects.clear()
        bucket.uploads.clear()
        bucket.writes = 0

    def close(self) -> None:
        """Empty the bucket."""
        self.reset()

    @property
    def bucket(self) -> MemoryBucket:
        return BUCKETS[BUCKET]

    def files(self, machine: str) -> Path:
        """The directory that a machine's commands read files from and write them to."""
        path = self.live / machine / "files"
        path.mkdir(parents=True, exist_ok=True)
        return path

    def home(self, machine: str) -> Path:
        return self.live / machine / "lakecli"

    def time_of(self, machine: str) -> datetime:
        """Return the time by a machine's clock."""
        return self.now + self.ahead.get(machine, timedelta())

    def pass_time(self, by: timedelta) -> None:
        self.now += by

    def __call__(
        self,
        machine: str,
        argv: Sequence[str],
        *,
        sync: bool = False,
        on_step: Callable[[str], None] = lambda _name: None,
    ) -> Reply:
        """Run a command on a machine, in this process."""
        out, err = io.BytesIO(), io.BytesIO()
        stdin, stdout, stderr = (
            io.TextIOWrapper(each, encoding="utf-8", errors="surrogateescape")
            for each in (io.BytesIO(), out, err)
        )
        world = Environment(
            self._environment(machine, sync=sync),
            stdin,
            stdout,
            stderr,
            now=lambda: self.time_of(machine),
            new_id=self._ids(machine, argv),
            on_step=on_step,
        )
        code = run(list(argv), world)
        stdout.flush()
        stderr.flush()
        texts = [each.getvalue().decode("utf-8", "surrogateescape") for each in (out, err)]
        return Reply(int(code), *texts)

    def ok(self, machine: str, *argv: str, sync: bool = False) -> str:
        """Run a command that has to succeed, and return what it answered."""
        reply = self(machine, argv, sync=sync)
        assert reply.exit_code == 0, (machine, argv, reply)
        return reply.stdout

    def save(self) -> Saved:
        """Remember everything as it is."""
        self._saved += 1
        directory = self.directory / f"saved-{self._saved}"
        shutil.copytree(self.live, directory)
        bucket = self.bucket
        return Saved(self.now, dict(bucket.objects), dict(bucket.uploads), bucket.writes, directory)

    def restore(self, saved: Saved) -> None:
        """Put everything back."""
        self.now = saved.now
        self.bucket.objects.clear()
        self.bucket.objects.update(saved.objects)
        self.bucket.uploads.clear()
        self.bucket.uploads.update(saved.uploads)
        self.bucket.writes = saved.writes
        shutil.rmtree(self.live)
        shutil.copytree(saved.directory, self.live)

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
        """Return a source of IDs that no other run shares."""
        self._count += 1
        run_number, count = self._count, 0

        def new_id() -> bytes:
            nonlocal count
            count += 1
            text = f"{machine} {run_number} {count} {argv}"
            return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()

        return new_id
