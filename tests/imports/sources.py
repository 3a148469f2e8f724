"""Sources made of literals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lakecli.base.model import Entry
from lakecli.committed.values import encode_entry
from lakecli.imports.model import Failures, ImportPart, Rows
from tests.support.lakes import START

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakecli.engine.runner import Runner
    from lakecli.imports.model import Task


def rows_of(contents: dict[bytes, int]) -> Rows:
    """Return objects by their keys; the number stands for the contents."""
    keys = sorted(contents)
    return Rows(
        keys,
        [b"s3://elsewhere/%d" % contents[key] for key in keys],
        [contents[key] for key in keys],
        [b"etag-%d" % contents[key] for key in keys],
        [int(START.timestamp())] * len(keys),
    )


def value_of(number: int) -> bytes:
    """Return what an import of such an object records."""
    return encode_entry(Entry(f"s3://elsewhere/{number}", number, f"etag-{number}", START))


class Literal(NamedTuple):
    """Some objects, yielded a few at a time."""

    objects: tuple[tuple[bytes, int], ...]
    at_once: int = 3
    tag: str = ""

    def rows(self, task: Task, failures: Failures) -> Iterator[Rows]:
        whole = rows_of(dict(self.objects))
        for start in range(0, len(whole), self.at_once):
            yield whole.take(range(len(whole))[start : start + self.at_once])

    def identity(self) -> list[Any]:
        return [[key.hex(), number] for key, number in self.objects] + [self.tag]


class Split(NamedTuple):
    """Objects in several parts that begin at the given keys."""

    contents: dict[bytes, int]
    bounds: Sequence[bytes] = ()
    at_once: int = 3

    def plan(self, task: Task, runner: Runner, high: bytes | None) -> Iterator[ImportPart]:
        bounds = sorted({bound for bound in self.bounds if bound})
        lows = [b"", *bounds]
        for low, following in zip(lows, [*bounds, None], strict=True):
            inside = tuple(
                (key, number)
                for key, number in sorted(self.contents.items())
                if key >= low and (following is None or key < following)
            )
            ends = high if following is None else task.prefix + following
            yield ImportPart(task.prefix + low, ends, Literal(inside, self.at_once))

    def recount(self, task: Task) -> int:
        return len(self.contents)
