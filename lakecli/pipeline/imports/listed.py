"""The paths that a dry run of an import lists.

Parts finish in any order, and a source that turns out not to be sorted is read again. So each part
writes its paths to a file, in order, and the files are read when all parts are done.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, BinaryIO, Final

from lakecli.committed.values import decode_entry
from lakecli.repository.transfer.plan import Action, Step

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_HEAD: Final = struct.Struct(">BQH")
"""The number of the action, the size of the object and the length of its path."""

_ACTIONS: Final = tuple(Action)


def write_steps(file: BinaryIO, found: Iterable[tuple[bytes, Action, bytes]]) -> None:
    """Write what would be done with some paths, in the order of the paths.

    Args:
        file: of the part.
        found: paths, actions, and the encoded entries that the sizes are of.
    """
    for path, action, value in sorted(found):
        head = _HEAD.pack(_ACTIONS.index(action), decode_entry(value).size, len(path))
        file.write(head + path)


def part_file(directory: str, number: int) -> str:
    """Return the name of the file of a part."""
    return f"{directory}/{number:012}"


def iter_steps(directory: Path) -> Iterator[Step]:
    """Yield what all parts wrote, in the order of the parts."""
    for path in sorted(directory.iterdir()):
        with path.open("rb") as file:
            while head := file.read(_HEAD.size):
                action, size, length = _HEAD.unpack(head)
                yield Step(_ACTIONS[action], file.read(length), size)
