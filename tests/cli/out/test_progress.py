"""Progress without a terminal: rate and time left."""

from __future__ import annotations

import pytest

from lakecli.cli.out.progress import PlainProgress
from lakecli.cli.out.text import human_seconds


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_rate_and_remaining_time_are_shown() -> None:
    clock = Clock()
    lines: list[str] = []
    progress = PlainProgress("upload", lines.append, items=None, clock=clock)
    progress.expect(items=100, size=100_000_000)
    for _ in range(30):
        clock.now += 1
        progress.advance(items=1, size=1_000_000)
    assert lines[0] == "upload: 5 of 100 objects, 5.0 MB of 100.0 MB, 1.0 MB/s, 1m35s left"
    assert len(lines) == 6
    clock.now += 15  # it hangs, then goes on
    progress.advance(items=1, size=1_000_000)
    rate = lines[-1].split(", ")[2]
    assert float(rate.removesuffix(" kB/s")) < 600


def test_no_bytes_are_shown_where_none_moved() -> None:
    clock = Clock()
    lines: list[str] = []
    progress = PlainProgress("download", lines.append, items=None, clock=clock)
    clock.now += 6
    progress.advance(items=3)
    assert lines == ["download: 3 objects, 0.5 objects/s"]


def test_objects_are_counted_by_the_second_where_no_bytes_move() -> None:
    clock = Clock()
    lines: list[str] = []
    progress = PlainProgress("import", lines.append, items=None, clock=clock)
    for _ in range(5):
        clock.now += 1
        progress.advance(items=20_000)
    progress.expect(items=400_000)
    for _ in range(5):
        clock.now += 1
        progress.advance(items=20_000)
    assert lines == [
        "import: 100000 objects, 20,000 objects/s",
        "import: 200000 of 400000 objects, 20,000 objects/s, 10s left",
    ]


def test_parts_are_the_total_where_the_number_of_objects_is_unknown() -> None:
    clock = Clock()
    lines: list[str] = []
    progress = PlainProgress("import", lines.append, items=None, clock=clock)
    progress.expect(parts=40)
    for _ in range(5):
        clock.now += 1
        progress.advance(items=1_000, parts=2)
    assert lines == ["import: 5000 objects, 10 of 40 parts, 1,000 objects/s, 15s left"]
    progress.expect(parts=-40)
    progress.advance(items=-5_000, parts=-10)
    progress.expect(parts=20)
    clock.now += 5
    progress.advance(parts=5)
    assert lines[1].startswith("import: 5 of 20 parts")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "0s"), (59.9, "59s"), (88, "1m28s"), (11_100, "3h05m")]
)
def test_durations_are_readable(seconds: float, text: str) -> None:
    assert human_seconds(seconds) == text
