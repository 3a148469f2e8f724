"""Read pieces of a table's objects, and run a process that reads them for Spark's Java.

`lakecli/spark/TableFileSystem.java` starts ``python -m lakecli.engine.object_reader`` on executors
and on the driver. A request is a line of JSON on standard input: a location, a file, the first
byte, the number of bytes, and whether the process runs on an executor. The response is the number
of bytes and the bytes themselves. For an error, the response is the negative length of the error's
text, and the text.
"""

import json
import select
import struct
import sys
from datetime import datetime
from functools import lru_cache
from typing import Any, BinaryIO, Final, NamedTuple

import lakecli
from lakecli.base.model import Account
from lakecli.engine.executors import hint_for_executors
from lakecli.engine.runner import StoreLocation
from lakecli.errors import IntegrityError, LakeError, NotFound
from lakecli.repository.reading.recorded import Recorded, locate_recorded
from lakecli.stores.contract import ObjectNotFound

IDLE: Final = 60.0
"""Number of seconds without a request after which the process ends."""


class TableFile(NamedTuple):
    """A file of a table: its path below the table, and what the entry records of its object."""

    name: str
    recorded: Recorded

    @property
    def directory(self) -> str:
        """The part of the name up to its last slash; ``""`` if it has no slash."""
        return self.name.rpartition("/")[0]

    def dump(self) -> str:
        """Return the file as JSON."""
        *fields, at = self.recorded
        return json.dumps([self.name, *fields, at and at.isoformat()])

    @classmethod
    def load(cls, name: str, address: str, size: int, checksum: str, at: str | None) -> "TableFile":
        """Return a file from the decoded JSON of `dump`."""
        modified_at = datetime.fromisoformat(at) if at else None
        return cls(name, Recorded(address, size, checksum, modified_at))


def read_piece(location: StoreLocation, file: TableFile, start: int, length: int) -> bytes:
    """Return a piece of a file.

    Raises:
        NotFound: the object is missing.
        IntegrityError: the object changed since it was recorded, or is shorter than its entry says.
    """
    # A repository that is read without a clone has its namespace's URI as its name.
    uri = location.name if "/" in location.name else f"lakefs://{location.name}"
    address = file.recorded.address
    where = address if "://" in address else f"{location.uri}/{address}"
    store, key = locate_recorded(location.addresses(), file.recorded, uri)
    hint = "check the repository by fsck, which names all paths that need the object"
    try:
        found = store.get(key, start=start, length=length)
    except ObjectNotFound:
        raise NotFound(f"the data object of {file.name} is missing: {where}", hint=hint) from None
    if len(found) != length:
        raise IntegrityError(
            f"the data object of {file.name} has {start + len(found)} bytes instead of "
            f"{file.recorded.size}: {where}",
            hint=hint,
        )
    return found


@lru_cache(maxsize=16)
def _location(text: str) -> StoreLocation:
    uri, region, range_entries, name, allowed, account = _without_lists(json.loads(text))
    return StoreLocation(uri, region, range_entries, name, allowed, Account(*account))


def _without_lists(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a JSON value with all lists converted to tuples."""
    return tuple(map(_without_lists, value)) if isinstance(value, list) else value


def answer(request: bytes) -> tuple[bytes, bytes]:
    """Return the response to a request: the packed number of bytes, and the bytes.

    For an error, the number is the negative length of its text, and the bytes are the text.
    """
    location, file, start, length, is_executor = json.loads(request)
    try:
        found = read_piece(_location(location), TableFile.load(*file), start, length)
    except LakeError as error:
        hint = (hint_for_executors(error) if is_executor else error).hint
        text = error.message + (f"\nhint: {hint}" if hint else "")
    except Exception as error:  # noqa: BLE001 - whatever it is, Spark shows it
        text = f"{type(error).__name__}: {error}"
    else:
        return struct.pack(">i", len(found)), found
    message = text.encode(errors="backslashreplace")  # a name may have undecodable bytes
    return struct.pack(">i", -len(message)), message


def main(requests: BinaryIO, answers: BinaryIO) -> None:
    """Respond to requests until the input ends, or no request arrives for `IDLE` seconds."""
    version = lakecli.__version__.encode()
    answers.write(struct.pack(">H", len(version)) + version)
    answers.flush()
    while select.select([requests], [], [], IDLE)[0] and (request := requests.readline()):
        answers.writelines(answer(request))
        answers.flush()


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer)
