"""Report the results of commands that were killed after appending their operation.

If a command such as ``undo`` is killed before it prints its result (its answer), the user repeats
it. The second run must not undo another operation. So the command creates a file, locks it, and
deletes it after it has printed its answer. A file without a lock belongs to a killed command: when
the same command is repeated, it prints the missing answer instead of acting again.

::

    answers/UUID-OPERATION, in the local store's directory -> moved: the refs that were moved in the
                                                              bucket: kind, name, before, after

The file is created in the transaction that appends the operation. If the file is missing, or the
file system has no locks, commands still work.
"""

import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from lakecli.base.directories import make_private, sync_directory
from lakecli.base.ids import CommitId
from lakecli.base.model import NAMED_KINDS
from lakecli.base.parsing import MAX_SIZE, Unparsable, parse_json
from lakecli.base.validation import Invalid, Record, choice, identifier, list_of, nullable, text
from lakecli.repository.contract import Repository
from lakecli.stores.local.files import write_all

_POSITION: Final = nullable(identifier(CommitId))
_MOVED: Final = Record(
    {
        "kind": choice(*NAMED_KINDS),
        "name": text(1024, min_size=1),
        "before": _POSITION,
        "after": _POSITION,
    }
)
_CONTENT: Final = Record({"moved": list_of(_MOVED.read, 100_000)})


class OwedAnswer:
    """The locked file of a command that has not printed its answer yet.

    Attributes:
        operation: the ID of the operation that the answer is about.
    """

    _descriptor = -1  # for `__del__`, if an interrupt comes before `__init__`

    def __init__(self, operation: bytes, path: str, flags: int) -> None:
        self.operation = operation
        self._path = path
        self._descriptor = os.open(path, flags | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def lock(self) -> bool:
        """Take the lock; return ``False`` if another process has it, or deleted the file.

        Raises:
            OSError: the file system has no locks.
        """
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return os.fstat(self._descriptor).st_nlink == 1

    def write(self, moved: Sequence[Mapping[str, object]]) -> None:
        """Write the moved refs to the file, and make the file durable."""
        write_all(self._descriptor, json.dumps({"moved": list(moved)}).encode("ascii"))
        os.fsync(self._descriptor)
        sync_directory(os.path.dirname(self._path))

    def moved(self) -> list[dict[str, Any]]:
        """Return the refs that were moved in the bucket; none if the content is damaged."""
        try:
            content = parse_json(os.pread(self._descriptor, MAX_SIZE + 1, 0))
            return list(_CONTENT.read(content)["moved"])
        except (OSError, Unparsable, Invalid):
            return []

    def give(self) -> None:
        """Record that the answer was printed: delete the file, and release the lock."""
        with suppress(OSError):
            os.unlink(self._path)
        self.leave()

    def leave(self) -> None:
        """Release the lock, so that the repeated command prints the answer; safe to call twice."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        """Release the lock, in case an interrupt came before the caller could."""
        self.leave()


def begin(
    repository: Repository, operation: bytes, moved: Sequence[Mapping[str, object]]
) -> OwedAnswer | None:
    """Record that a command has not printed its answer yet; return ``None`` if that fails.

    Args:
        operation: the ID of the operation, which the open transaction appends.
        moved: the refs that the command moves in the bucket: kind, name, before, after.
    """
    directory = _directory(repository)
    try:
        make_private(directory)
        answer = OwedAnswer(operation, _path(repository, operation), os.O_CREAT | os.O_EXCL)
    except OSError:
        return None
    try:
        answer.lock()
        answer.write(moved)
    except OSError:
        answer.give()
        return None
    return answer


def may_be_left(repository: Repository) -> bool:
    """Return whether a repository has answers that were not printed yet."""
    return bool(_names(repository))


def is_left(repository: Repository, operation: bytes) -> bool:
    """Return whether the answer about an operation was not printed yet."""
    return os.path.exists(_path(repository, operation))


def take_left(repository: Repository) -> tuple[list[OwedAnswer], set[bytes]]:
    """Lock the answers that killed commands did not print.

    Call this in a write transaction, because commands make and lock their files in write
    transactions.

    Returns:
        The locked answers, and the operations whose answers running commands have yet to print.
    """
    taken, owed = [], set()
    for name in _names(repository):
        try:
            operation = bytes.fromhex(name.rpartition("-")[2])
            answer = OwedAnswer(operation, _path(repository, operation), 0)
            if answer.lock():
                taken.append(answer)
            elif is_left(repository, operation):
                owed.add(operation)
        except (OSError, ValueError):  # deleted by another process meanwhile, or no answer's file
            continue
    return taken, owed


def _names(repository: Repository) -> list[str]:
    try:
        names = os.listdir(_directory(repository))
    except OSError:
        return []
    return [name for name in names if name.startswith(f"{repository.record.uuid}-")]


def _path(repository: Repository, operation: bytes) -> str:
    return f"{_directory(repository)}/{repository.record.uuid}-{operation.hex()}"


def _directory(repository: Repository) -> str:
    return f"{os.fspath(repository.lake.home.store)}/answers"
