"""Values that an attacker may write into a field, and documents that break parsers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

VALUES: dict[str, Any] = {
    "null": None,
    "empty": "",
    "short": "a",
    "short ID": "a" * 31,
    "uneven ID": "a" * 33,
    "long ID": "a" * 65,
    "capitals": "A" * 64,
    "newline after an ID": "a" * 64 + "\n",
    "long": "a" * 5_000,
    "absolute path": "/etc/passwd",
    "absolute path of the size of an ID": "/" + "a" * 63,
    "absolute path of the size of a UUID": "/" + "a" * 31,
    "parent": "..",
    "parents": "../" * 10 + "canary",
    "NUL": "a\0b",
    "NUL in an ID": "a" * 63 + "\0",
    "lone surrogate": "\ud800",
    "number": 7,
    "zero": 0,
    "negative": -1,
    "fraction": 1.5,
    "huge": 10**30,
    "true": True,
    "list": [],
    "list of lists": [[]],
    "object": {},
}
"""Values that are invalid for most fields; a test lists those that are valid in its field."""

DOCUMENTS: dict[str, bytes] = {
    "empty": b"",
    "blank": b"  \n",
    "NUL": b"\0",
    "no UTF-8": b"\xff\xfe\x00",
    "UTF-16": '{"format": 1}'.encode("utf-16"),
    "null": b"null",
    "true": b"true",
    "number": b"1",
    "text": b'"text"',
    "array": b"[]",
    "no fields": b"{}",
    "cut": b'{"format": 1, "uu',
    "two documents": b"{} {}",
    "100,000 arrays": b"[" * 100_000,
    "100,000 arrays, closed": b"[" * 100_000 + b"]" * 100_000,
    "100,000 objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "deep under a field": b'{"format": 1, "deep": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    "number of 5,000 digits": b'{"format": ' + b"9" * 5_000 + b"}",
    "1e400": b'{"format": 1e400, "range_entries": 1e400, "epoch": 1e400, "sequence": 1e400}',
    "-1e400": b'{"format": -1e400}',
    "NaN": b'{"format": NaN}',
    "Infinity": b'{"format": Infinity}',
    "field twice": b'{"format": 1, "format": 1}',
    "lone surrogate as a value": b'{"format": "\\ud800", "uuid": "\\ud800"}',
    "lone surrogate as a field": b'{"\\ud800": 1}',
    "large": b'{"format": 1, "large": "' + b"a" * (2 << 20) + b'"}',
}
"""Documents in the place of a JSON object."""


def broken(
    fields: Mapping[str, Any], legal: Mapping[str, set[str]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the record with each field broken in each way, and with each field missing.

    Args:
        fields: a sound record.
        legal: by the name of a field, the keys of `VALUES` that are allowed in it; ``missing``
            where the field may be absent.
    """
    for name in fields:
        allowed = legal.get(name, set())
        if "missing" not in allowed:
            yield (
                f"{name} missing",
                {other: value for other, value in fields.items() if other != name},
            )
        for forgery, value in VALUES.items():
            if forgery not in allowed:
                yield f"{name} {forgery}", {**fields, name: value}
