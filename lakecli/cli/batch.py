"""Questions that a command reads one by one: ``--files-from`` and ``--stdin``.

A program that asks a question and waits for its answer gets it at once: what was read is answered
before more is read, and every answer is flushed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BufferedIOBase
from typing import TYPE_CHECKING, Final

from lakecli.base.model import MAX_PATH_SIZE, Entry
from lakecli.base.uri import LakeUri, as_directory
from lakecli.cli.names import NamesOptions, note_no_name, open_names, split_names
from lakecli.errors import PartialFailure, UsageError

if TYPE_CHECKING:
    from lakecli.cli.context import Context
    from lakecli.repository.reading.reader import Reader

_READ_SIZE: Final = 1 << 16
_MAX_QUESTION: Final = 1 << 16


class Missing:
    """Counts the questions, and those about what does not exist."""

    def __init__(self) -> None:
        self.asked = 0
        self.missing = 0

    def check(self) -> None:
        """Fail if anything was missing.

        Raises:
            PartialFailure: it was.
        """
        if self.missing:
            raise PartialFailure(f"{self.missing:,} of {self.asked:,} do not exist")


def answer(
    context: Context, record: Mapping[str, object], text: Callable[[], Iterable[str]]
) -> None:
    """Answer one question, at once."""
    context.out.emit(record, text=text)
    context.out.flush()


def iter_found(
    context: Context, reader: Reader, root: LakeUri, options: NamesOptions
) -> Iterator[tuple[bytes, Entry | None]]:
    """Yield the paths that ``--files-from`` names, below that of the URI, with their entries.

    A name may begin with ``./``, as those of find do; an object of exactly that name comes first.

    Raises:
        UsageError: a name is longer than any line may be.
        NotFound: there is no such file.
        PermissionDenied: it cannot be read.
    """
    below = as_directory(root.path or b"")
    assert options.files_from is not None
    is_empty = True
    with open_names(context, options.files_from) as source:
        for name in iter_questions(source, null=options.null):
            is_empty = False
            path, entry = below + name, _find(reader, below + name)
            if entry is None and name.startswith(b"./"):
                plain = below + name.removeprefix(b"./")
                entry = _find(reader, plain)
                path = path if entry is None else plain
            yield path, entry
    if is_empty:
        note_no_name(context, options.files_from)


def _find(reader: Reader, path: bytes) -> Entry | None:
    return reader.find(path) if len(path) <= MAX_PATH_SIZE else None


def iter_questions(source: BufferedIOBase, *, null: bool) -> Iterator[bytes]:
    """Yield lines, or with `null` what ends with a NUL byte; empty ones are left out.

    Raises:
        UsageError: one is too long.
    """
    end = b"\0" if null else b"\n"
    rest = b""
    while data := source.read1(_READ_SIZE):
        whole, _, rest = (rest + data).rpartition(end)
        yield from filter(None, split_names(whole, null=null))
        if len(rest) > _MAX_QUESTION:
            raise UsageError(f"a line of more than {_MAX_QUESTION:,} bytes", hint="one name a line")
    yield from filter(None, split_names(rest, null=null))
