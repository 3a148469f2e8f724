"""Parse JSON and TOML that somebody else wrote, within bounds of size, depth and digits.

The parsers of the standard library trust their input: deep nesting exhausts the stack, a long
number takes quadratic time or raises an error of its own kind, and ``1e400`` becomes infinity.
Here everything that a bucket, a file or another program can contain ends in `Unparsable`.
"""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import Any, Final, NoReturn

MAX_SIZE: Final = 1 << 20
"""Bytes of a document, at most, unless its caller knows better."""

MAX_TOML_SIZE: Final = 64 << 10
"""Characters of a TOML document, at most: its parser takes quadratic time for dotted keys."""

MAX_DEPTH: Final = 32
"""Arrays and objects within each other, at most."""

MAX_DIGITS: Final = 40
"""Characters of a number, at most."""

_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"?|[\[{\]}]', re.DOTALL)


class Unparsable(ValueError):
    """A document that is not what it should be, or exceeds the bounds; says which."""


def parse_json(data: bytes | str, *, max_size: int = MAX_SIZE) -> Any:  # noqa: ANN401 - whatever JSON can be
    """Return what a JSON document says.

    Args:
        data: the document; bytes are UTF-8.
        max_size: bytes that it may have.

    Raises:
        Unparsable: it is too large, too deep or no JSON, has a number that is too long or not
            finite, or names a field of an object twice.
    """
    encoded = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if len(encoded) > max_size:
        raise Unparsable(f"it has {len(encoded):,} bytes, at most {max_size:,} are read")
    _check_depth(encoded)
    try:
        text = encoded.decode() if isinstance(data, bytes) else data
        return json.loads(
            text,
            parse_int=_whole,
            parse_float=_fraction,
            parse_constant=_constant,
            object_pairs_hook=_object,
        )
    except Unparsable:
        raise
    except UnicodeDecodeError:
        raise Unparsable("it is not UTF-8") from None
    except (ValueError, RecursionError):
        raise Unparsable("it is no JSON") from None


def parse_json_object(data: bytes | str, *, max_size: int = MAX_SIZE) -> dict[str, Any]:
    """Return the fields of a JSON document that is an object.

    Raises:
        Unparsable: as by `parse_json`, or it is something else.
    """
    found = parse_json(data, max_size=max_size)
    if not isinstance(found, dict):
        raise Unparsable("it is no JSON object")
    return found


def parse_toml(text: str, *, max_size: int = MAX_TOML_SIZE) -> dict[str, Any]:
    """Return the tables of a TOML document.

    Raises:
        Unparsable: it is too large, too deep or no TOML, or has a number that is too long; the
            line is named where the parser knows it.
    """
    import tomllib

    if len(text) > max_size:
        raise Unparsable(f"it has {len(text):,} characters, at most {max_size:,} are read")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise Unparsable("it is nested too deep") from None
    except ValueError as error:  # of numbers with too many digits too
        raise Unparsable(str(error)) from None


def _check_depth(data: bytes) -> None:
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return
    depth = 0
    for found in _TOKENS.finditer(data):
        token = found[0]
        if token in (b"[", b"{"):
            depth += 1
            if depth > MAX_DEPTH:
                raise Unparsable(f"it is nested deeper than {MAX_DEPTH} levels")
        elif token in (b"]", b"}"):
            depth -= 1


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise Unparsable(f"it has a number of {len(digits):,} characters")
    return int(digits)


def _fraction(digits: str) -> float:
    if len(digits) > MAX_DIGITS:
        raise Unparsable(f"it has a number of {len(digits):,} characters")
    number = float(digits)
    if not isfinite(number):
        raise Unparsable(f"it has a number that is too large: {digits}")
    return number


def _constant(name: str) -> NoReturn:
    raise Unparsable(f"it has {name} where a number should be")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Unparsable("it has a field twice")
    return found
