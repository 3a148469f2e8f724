"""What a dry run would do with each path, as bytes: what parts return, and files hold.

Each step is a header (action, size of the object, sizes of the path and of the error), the path and
the error.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from io import BytesIO
from struct import Struct
from typing import BinaryIO, Final

from lakecli.repository.transfer.plan import PathAction, PathStep

_HEADER: Final = Struct(">BQII")
_ACTIONS: Final = tuple(PathAction)


def encode_step(step: PathStep) -> bytes:
    """Return a step as bytes."""
    error = step.error.encode("utf-8", "surrogateescape")
    number = _ACTIONS.index(step.action)
    return _HEADER.pack(number, step.size, len(step.path), len(error)) + step.path + error


def read_steps(file: BinaryIO) -> Iterator[PathStep]:
    """Yield the steps of a file that consists of encoded steps."""
    while header := file.read(_HEADER.size):
        action, size, path, error = _HEADER.unpack(header)
        name = file.read(path)
        yield PathStep(
            _ACTIONS[action], name, size, file.read(error).decode("utf-8", "surrogateescape")
        )


def pack_steps(steps: Iterable[PathStep]) -> bytes:
    """Return steps, compressed; ``b""`` if there are none."""
    encoded = b"".join(map(encode_step, steps))
    return zlib.compress(encoded, 1) if encoded else b""


def unpack_steps(packed: bytes) -> Iterator[PathStep]:
    """Yield the steps that `pack_steps` returned."""
    return read_steps(BytesIO(zlib.decompress(packed) if packed else b""))
