"""Parsing of untrusted JSON, TOML and YAML, with limits for size, depth and digits.

The parsers of the standard library trust their input: deep nesting exhausts the stack, a long
number takes quadratic time or raises another error, and ``1e400`` becomes infinity. The functions
of this module raise `Unparsable` for every such document.
"""

import json
import os
import re
from collections.abc import Iterator
from math import isfinite
from typing import IO, Any, AnyStr, Final, NoReturn

from lakecli.base.directories import StrPath

MAX_SIZE: Final = 1 << 20
"""Default limit of a document, in bytes."""

MAX_TOML_SIZE: Final = 64 << 10
"""Longest TOML document, in characters: the parser takes quadratic time for dotted keys."""

MAX_DEPTH: Final = 32
"""Deepest nesting of arrays and objects."""

MAX_DIGITS: Final = 40
"""Longest number, in characters."""

_TOKENS: Final = rb'"(?:[^"\\]|\\.)*"?|[\[{\]}]'


class Unparsable(ValueError):
    """A document is malformed or exceeds a limit; the message names the defect or the limit."""


def read_text(path: StrPath, *, errors: str = "strict") -> str:
    """Return the text of a file, truncated to `MAX_SIZE` + 1 bytes.

    Args:
        errors: how to decode bytes that are not UTF-8, as for `bytes.decode`.

    Raises:
        UnicodeDecodeError: the file is not UTF-8.
    """
    return read_bytes(path, MAX_SIZE).decode("utf-8", errors)


def read_bytes(path: StrPath, max_size: int) -> bytes:
    """Return the bytes of a file, truncated to `max_size` + 1 bytes.

    The limit protects against devices, which may never end. A pipe without a writer is read as
    empty; opening it does not block.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        os.set_blocking(descriptor, True)
        data = bytearray()
        while piece := os.read(descriptor, min(max_size + 1 - len(data), MAX_SIZE)):
            data += piece
        return bytes(data)
    finally:
        os.close(descriptor)


class RecordLines(Iterator[AnyStr]):
    """The lines of a file of records, with a limit for the size of each record.

    The caller calls `end_record` at the end of each record. Iteration raises `Unparsable` if a
    record is larger than `max_size`, and never keeps more than `max_size` in memory.

    Args:
        max_size: size limit of a record, in bytes or characters.
    """

    def __init__(self, file: IO[AnyStr], max_size: int = MAX_SIZE) -> None:
        self._file: IO[AnyStr] = file
        self._max_size = max_size
        self._left = max_size

    def __next__(self) -> AnyStr:
        """Return the next line."""
        line = self._file.readline(self._left + 1)
        if not line:
            raise StopIteration
        self._left -= len(line)
        if self._left < 0:
            raise Unparsable(f"it has more than {self._max_size:,} bytes")
        return line

    def end_record(self) -> None:
        """Mark the end of a record: the next line is the first one of another record."""
        self._left = self._max_size


def parse_json(data: bytes | str, *, max_size: int = MAX_SIZE, max_depth: int = MAX_DEPTH) -> Any:  # noqa: ANN401 - whatever JSON can be
    """Parse a JSON document.

    Raises:
        Unparsable: the document is too large, too deep or not JSON; or one of its numbers is too
            long or not finite; or an object has a field twice.
    """
    encoded = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if len(encoded) > max_size:
        raise Unparsable(f"it has {len(encoded):,} bytes, at most {max_size:,} are read")
    _check_depth(encoded, max_depth)
    try:
        text = encoded.decode() if isinstance(data, bytes) else data
        return json.loads(
            text,
            parse_int=lambda digits: int(_bounded(digits)),
            parse_float=_fraction,
            parse_constant=_constant,
            object_pairs_hook=_object,
        )
    except Unparsable:
        raise
    except UnicodeDecodeError:
        raise Unparsable("it is not UTF-8") from None
    except (ValueError, RecursionError):
        raise Unparsable("it is not JSON") from None


def parse_json_object(data: bytes | str, *, max_size: int = MAX_SIZE) -> dict[str, Any]:
    """Return the fields of a JSON document that is an object.

    Raises:
        Unparsable: `parse_json` refuses the document, or the document is not an object.
    """
    found = parse_json(data, max_size=max_size)
    if not isinstance(found, dict):
        raise Unparsable("it is not a JSON object")
    return found


def parse_toml(text: str, *, max_size: int = MAX_TOML_SIZE) -> dict[str, Any]:
    """Return the tables of a TOML document.

    Raises:
        Unparsable: the document is too large, too deep or not TOML, or has a number that is too
            long. The message names the line if the parser reports it.
    """
    import tomllib

    _check_size(text, max_size)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise Unparsable("it is nested too deep") from None
    except ValueError as error:  # includes numbers with too many digits
        raise Unparsable(str(error)) from None


def parse_yaml(text: str, *, max_size: int = MAX_TOML_SIZE) -> dict[Any, Any]:
    """Return the mapping of a YAML document, with every scalar as text; ``{}`` if it is empty.

    With aliases, one value can appear in very many places, so a caller that walks through the
    values must limit the number of steps.

    Raises:
        Unparsable: the document is too large, too deep, not YAML, or not a mapping.
    """
    import yaml

    _check_size(text, max_size)
    try:
        # This loader creates only texts, lists and mappings.
        found = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506
    except RecursionError:
        raise Unparsable("it is nested too deep") from None
    except (yaml.YAMLError, ValueError) as error:
        raise Unparsable(" ".join(str(error).split())) from None
    if found is None or found == "":
        return {}
    if not isinstance(found, dict):
        raise Unparsable("it is not a mapping")
    return found


def _check_size(text: str, max_size: int) -> None:
    if len(text) > max_size:
        raise Unparsable(f"it has {len(text):,} characters, at most {max_size:,} are read")


def _check_depth(data: bytes, limit: int) -> None:
    if data.count(b"[") + data.count(b"{") <= limit:
        return
    depth = 0
    for found in re.finditer(_TOKENS, data, re.DOTALL):
        token = found[0]
        if token in (b"[", b"{"):
            depth += 1
            if depth > limit:
                raise Unparsable(f"it is nested deeper than {limit} levels")
        elif token in (b"]", b"}"):
            depth -= 1


def _bounded(digits: str) -> str:
    if len(digits) > MAX_DIGITS:
        raise Unparsable(f"it has a number of {len(digits):,} characters")
    return digits


def _fraction(digits: str) -> float:
    number = float(_bounded(digits))
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
