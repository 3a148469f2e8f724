"""Names that a command reads from a file: ``--files-from`` and ``--stdin``.

`read_names` reads all names first. `iter_found` and `iter_questions` read names one by one, for a
program that writes a name and waits for the result: the results of all names read so far are
written before more input is read, and every result is flushed.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import BufferedIOBase, BufferedReader
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, TypeVar, cast

from lakecli.base.directories import StrPath
from lakecli.base.model import MAX_PATH_SIZE, Entry
from lakecli.base.parsing import MAX_SIZE
from lakecli.base.pipes import open_input
from lakecli.base.uri import LakeUri, as_directory, ref_of
from lakecli.cli.context import Context
from lakecli.cli.line import Option
from lakecli.errors import NotFound, PartialFailure, PermissionDenied, UsageError
from lakecli.repository.contract import Repository

if TYPE_CHECKING:
    from lakecli.repository.reading.reader import Reader

Q = TypeVar("Q")
T = TypeVar("T")

STANDARD_INPUT: Final = "-"


_READ_SIZE: Final = 1 << 16
_MAX_QUESTION: Final = 1 << 16


def read_document(context: Context, source: str) -> str:
    """Return the text of a file, or of standard input for ``-``, up to `MAX_SIZE` + 1 bytes."""
    return read_input(context, source, MAX_SIZE).decode("utf-8", "surrogateescape")


def read_input(context: Context, source: str, max_size: int) -> bytes:
    """Return at most `max_size` + 1 bytes of a file, or of standard input for ``-``.

    A caller refuses input with the extra byte. Errors are those of `open_file`.
    """
    if source == STANDARD_INPUT:
        return bytes_of(context).read(max_size + 1)
    with open_file(source) as file:
        return file.read(max_size + 1)


def open_file(source: StrPath) -> BufferedReader:
    """Open a file or a pipe for reading.

    Raises:
        NotFound: there is no such file.
        PermissionDenied: the file cannot be read.
        UsageError: the file is a directory.
    """
    try:
        return open_input(source)
    except FileNotFoundError:
        raise NotFound(f"no such file: {source}") from None
    except IsADirectoryError:
        raise UsageError(f"{source} is a directory", hint="give a file in it") from None
    except OSError as error:
        raise PermissionDenied(f"cannot read {source}: {error.strerror}") from error


class NamesOptions(NamedTuple):
    """The options for a file with the names of the objects to work on.

    Attributes:
        files_from: Only what FILE names, relative to the given path, one name a line; - for
            standard input.
        null: Names of --files-from end with NUL, not with a newline.
    """

    files_from: Annotated[str | None, Option("FILE", "")] = None
    null: Annotated[bool, Option(None, "", "--null", "-z")] = False


def are_given(options: NamesOptions) -> bool:
    """Return whether ``--files-from`` is given.

    Raises:
        UsageError: ``-z`` is given without ``--files-from``.
    """
    if options.null and options.files_from is None:
        raise UsageError("-z needs --files-from")
    return options.files_from is not None


def read_names(context: Context, options: NamesOptions) -> list[bytes] | None:
    """Return the names in the file of ``--files-from``, sorted and without duplicates.

    A leading ``./``, as in the output of ``find``, is removed. If the file contains no names, a
    note is printed.

    Returns:
        The names; ``None`` without the option.

    Raises:
        UsageError: ``-z`` without ``--files-from``, or the file is a device.
        NotFound: there is no such file.
        PermissionDenied: the file cannot be read.
    """
    if not are_given(options):
        return None
    source = options.files_from
    assert source is not None
    with open_names(context, source) as file:
        data = file.read()
    names = {name.removeprefix(b"./") for name in split_names(data, null=options.null)} - {b""}
    if not names:
        note_no_name(context, source)
    return sorted(names)


def bytes_of(context: Context) -> BufferedIOBase:
    """Return standard input as a binary stream."""
    return cast("BufferedIOBase", context.stdin.buffer)


@contextmanager
def open_names(context: Context, source: str) -> Iterator[BufferedIOBase]:
    """Open the file of ``--files-from``, or standard input for ``-``.

    Raises:
        NotFound: there is no such file.
        PermissionDenied: the file cannot be read.
        UsageError: the file is a directory, or a device, which may have no end.
    """
    if source == STANDARD_INPUT:
        yield bytes_of(context)
        return
    with open_file(source) as file:
        is_device = stat.S_ISCHR(os.fstat(file.fileno()).st_mode)
        if is_device and not (file.isatty() or source == os.devnull):
            raise UsageError(f"{source} is a device", hint="give a file, or - for standard input")
        yield file


def note_no_name(context: Context, source: str) -> None:
    """Print a note that the file contains no names, so there is nothing to do."""
    shown = "standard input" if source == STANDARD_INPUT else source
    context.out.note(f"there is no name in {shown}: nothing to do")


def split_names(data: bytes, *, null: bool) -> list[bytes]:
    """Split data into lines that end with LF or CRLF; with `null`, split it at NUL bytes."""
    if null:
        return data.split(b"\0")
    return [line.removesuffix(b"\r") for line in data.split(b"\n")]


def check_found(answers: Iterable[tuple[Q, T | None]]) -> Iterator[tuple[Q, T | None]]:
    """Yield each name or ref with its result; after the last, raise an error if any was ``None``.

    Raises:
        PartialFailure: an object or ref does not exist.
    """
    asked = missing = 0
    for question, found in answers:
        asked, missing = asked + 1, missing + (found is None)
        yield question, found
    if missing:
        raise PartialFailure(f"{missing:,} of {asked:,} do not exist")


def answer(context: Context, record: Mapping[str, object], lines: Iterable[str]) -> None:
    """Write the result for one name or ref, and flush the output."""
    context.out.emit(record, text=lambda: lines)
    context.out.flush()


def iter_found(
    context: Context, repository: Repository, root: LakeUri, options: NamesOptions
) -> Iterator[tuple[bytes, Entry | None]]:
    """Yield each path that ``--files-from`` names, relative to the path of a URI, with its entry.

    The entry is ``None`` if no object exists at the path. If a name begins with ``./``, as in the
    output of ``find``, the object with exactly that name is tried first, then the name without
    ``./``.

    Raises:
        UsageError: a line is too long, or the file is a device.
        NotFound: there is no such file.
        PermissionDenied: the file cannot be read.
        PartialFailure: after all names, if an object does not exist.
    """
    from lakecli.repository.reading.reader import open_reader

    with open_reader(repository, ref_of(root)) as reader:
        yield from check_found(_iter_entries(context, reader, root, options))


def _iter_entries(
    context: Context, reader: "Reader", root: LakeUri, options: NamesOptions
) -> Iterator[tuple[bytes, Entry | None]]:
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


def _find(reader: "Reader", path: bytes) -> Entry | None:
    return reader.find(path) if len(path) <= MAX_PATH_SIZE else None


def iter_questions(source: BufferedIOBase, *, null: bool) -> Iterator[bytes]:
    """Yield the non-empty lines of a stream; with `null`, the non-empty parts that end with NUL.

    Raises:
        UsageError: a line is too long.
    """
    end = b"\0" if null else b"\n"
    rest = b""
    while data := source.read1(_READ_SIZE):
        whole, _, rest = (rest + data).rpartition(end)
        yield from filter(None, split_names(whole, null=null))
        if len(rest) > _MAX_QUESTION:
            raise UsageError(f"a line of more than {_MAX_QUESTION:,} bytes", hint="one name a line")
    yield from filter(None, split_names(rest, null=null))
