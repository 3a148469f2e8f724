"""Keep large results of parts outside of memory: in the namespace, or in a file of the driver.

Large results of executors are written to the namespace, so that only their names go through Spark:
Spark aborts a job whose results have more than ``spark.driver.maxResultSize`` bytes in total. The
driver reads one result at a time. It deletes the results only when it closes its runner, because
parts with equal results share one object. If the driver is killed, `gc run` removes the results as
garbage.

A result is a pickle, and a pickle could run code. So a result is unpickled only if its bytes have
the digest that the executor returned through Spark, or if this process wrote it to a temporary file
without a name.

Parts finish in any order; `in_order` yields their results in the order of the parts.
"""

import os
import pickle
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar

from lakecli.base.identity import blake3_of
from lakecli.base.layout import scratch_key, scratch_prefix
from lakecli.engine.runner import StoreLocation
from lakecli.errors import IntegrityError, LakeError, NotFound, PermissionDenied
from lakecli.stores.contract import ANY

R = TypeVar("R")

LIMIT: Final = 64 << 10
"""Maximum size in bytes of a result that goes through Spark."""


def dump_value(value: Any) -> bytes:  # noqa: ANN401 - of any class
    """Return a value as bytes, for a column of a DataFrame."""
    return pickle.dumps(value)


def load_value(body: bytes) -> Any:  # noqa: ANN401 - as above
    """Return the value that `dump_value` encoded.

    The bytes must come from this job (through Spark, or verified by digest), as they are a pickle.
    """
    return pickle.loads(body)  # noqa: S301 - they came through Spark, or have a digest that did


class Kept(NamedTuple):
    """The name of a result in the namespace: its digest, and its size in bytes."""

    digest: bytes
    size: int


class Scratch(NamedTuple):
    """The prefix in the namespace to which the results of one runner are written.

    Attributes:
        run: a random ID of 16 bytes.
    """

    location: StoreLocation
    run: bytes

    def is_writable(self) -> bool:
        """Return whether this process may write to the prefix."""
        try:
            self.write(b"")
        except PermissionDenied:
            return False
        return True

    def write(self, body: bytes) -> Kept:
        """Write a result of any size; raise `PermissionDenied` if the prefix is not writable."""
        digest = blake3_of(body)
        self.location.store().put(scratch_key(self.run, digest), body, ANY)
        return Kept(digest, len(body))

    def keep(self, body: bytes, *, above: int | None = None) -> Kept | None:
        """Write a large result; return ``None`` if it is small, or the prefix is not writable.

        Args:
            above: the maximum size of a small result, in bytes; `LIMIT` by default.
        """
        if len(body) <= (LIMIT if above is None else above):
            return None
        try:
            return self.write(body)
        except PermissionDenied:
            return None

    def take(self, kept: Kept) -> bytes:
        """Read a result; raise `IntegrityError` if it is missing, or its digest differs."""
        store, key = self.location.store(), scratch_key(self.run, kept.digest)
        try:
            body = store.get(key, start=0, length=kept.size + 1)
        except NotFound:
            body = b""
        if blake3_of(body) != kept.digest:
            hint = "run it again"
            raise IntegrityError(f"the result of an executor is lost or damaged: {key}", hint=hint)
        return body

    def clear(self) -> None:
        """Delete all results of the runner."""
        with suppress(LakeError):
            store = self.location.store()
            store.delete([info.key for info in store.list(scratch_prefix(self.run))])


def keep_value(scratch: Scratch | None, value: Any) -> Any:  # noqa: ANN401 - as above
    """Return a task's result or, if it is large, write it to `scratch` and return its name."""
    kept = None if scratch is None else scratch.keep(dump_value(value))
    return value if kept is None else kept


def take_value(scratch: Scratch | None, value: Any) -> Any:  # noqa: ANN401 - as above
    """Return the result for a value that `keep_value` returned; read it if the value is a name."""
    if scratch is None or not isinstance(value, Kept):
        return value
    return load_value(scratch.take(value))


WAITING_SIZE: Final = 64 << 20
"""Maximum bytes of results that wait in memory for earlier parts; more results wait in a file."""


def in_order(results: Iterable[tuple[int, R]]) -> Iterator[R]:
    """Yield numbered results, which arrive in any order, in the order of their numbers.

    Results that arrive early wait as pickles in memory or, beyond a limit, in a temporary file that
    is deleted when the process ends.
    """
    expected = 0
    waiting: dict[int, tuple[int, int]] = {}  # the position and size of each result in the file
    with tempfile.SpooledTemporaryFile(WAITING_SIZE) as file:
        for number, result in results:
            if number != expected:
                body = dump_value(result)
                waiting[number] = file.seek(0, os.SEEK_END), len(body)
                file.write(body)
                continue
            expected += 1
            yield result
            while expected in waiting:
                start, size = waiting.pop(expected)
                file.seek(start)
                expected += 1
                yield load_value(file.read(size))
