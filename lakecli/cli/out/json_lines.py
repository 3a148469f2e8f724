"""Records as lines of JSON."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from functools import cache, lru_cache
from json import JSONEncoder

from lakecli.cli.out.text import rfc3339


def to_json(record: Mapping[str, object]) -> str:
    """Return one line of JSON: times as RFC 3339, bytes as text with surrogate escapes."""
    return _json_encoder().encode(record)


_rfc3339 = lru_cache(maxsize=256)(rfc3339)
"""What was written together has few dates."""


@cache
def _json_encoder() -> JSONEncoder:

    return JSONEncoder(default=_json_default)


def _json_default(value: object) -> object:
    if isinstance(value, bytes):
        return os.fsdecode(value)

    if isinstance(value, datetime):
        return _rfc3339(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"no JSON for {value!r}")
