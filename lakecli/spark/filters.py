"""Filters on the path: the interval of keys that can pass them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from lakecli.committed.keys import prefix_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql.datasource import Filter

_COLUMN = ("path",)


class Window(NamedTuple):
    """Keys from `start` to before `stop`; ``None``: there is no end."""

    start: bytes = b""
    stop: bytes | None = None

    def narrowed(self, other: Window) -> Window:
        """Return the intersection of two windows."""
        stops = [stop for stop in (self.stop, other.stop) if stop is not None]
        return Window(max(self.start, other.start), min(stops, default=None))

    @property
    def is_empty(self) -> bool:
        """Whether the window contains no key."""
        return self.stop is not None and self.start >= self.stop


def window_of(prefix: bytes) -> Window:
    """Return the keys that start with a prefix."""
    return Window(prefix, prefix_end(prefix))


def narrow(window: Window, filters: Iterable[Filter]) -> Window:
    """Return the part of a window whose paths can pass all filters on the path.

    It may contain paths that do not pass, so the filters have to be applied too.
    """
    for each in filters:
        rule = RULES.get(type(each).__name__)
        if rule is None or getattr(each, "attribute", None) != _COLUMN:
            continue
        value: Any = getattr(each, "value", None)
        values = value if isinstance(value, list | tuple) else [value]
        if values and all(isinstance(item, str) for item in values):
            window = window.narrowed(rule([os.fsencode(item) for item in values]))
    return window


RULES: Mapping[str, Callable[[list[bytes]], Window]] = {
    "EqualTo": lambda values: Window(values[0], values[0] + b"\0"),
    "EqualNullSafe": lambda values: Window(values[0], values[0] + b"\0"),
    "In": lambda values: Window(min(values), max(values) + b"\0"),
    "StringStartsWith": lambda values: window_of(values[0]),
    "GreaterThan": lambda values: Window(values[0] + b"\0"),
    "GreaterThanOrEqual": lambda values: Window(values[0]),
    "LessThan": lambda values: Window(stop=values[0]),
    "LessThanOrEqual": lambda values: Window(stop=values[0] + b"\0"),
}
"""The window of each filter that limits the path, by the name of its class."""
