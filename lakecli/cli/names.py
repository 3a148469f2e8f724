"""``--files-from``: names of objects or files, read from a file."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, cast

from lakecli.cli.line.declare import Option
from lakecli.cli.reading import Completion, Kind
from lakecli.errors import NotFound, PermissionDenied, UsageError

if TYPE_CHECKING:
    from lakecli.cli.context import Context

STANDARD_INPUT: Final = "-"


_FilesFrom = Annotated[
    str | None,
    Option(
        "--files-from",
        metavar="FILE",
        help="Only what FILE names, relative to the given path, one name a line; - for "
        "standard input",
    ),
    Completion(Kind.FILE),
]
_Null = Annotated[
    bool, Option("--null", "-z", help="Names of --files-from end with NUL, not with a newline")
]


class NamesOptions(NamedTuple):
    """The objects to work on, by name."""

    files_from: _FilesFrom = None
    null: _Null = False


def are_given(options: NamesOptions) -> bool:
    """Tell whether there is ``--files-from``.

    Raises:
        UsageError: ``-z`` without it.
    """
    if options.null and options.files_from is None:
        raise UsageError("-z needs --files-from")
    return options.files_from is not None


def read_names(context: Context, options: NamesOptions) -> list[bytes] | None:
    """Return the names of ``--files-from``, each once and in order; ``None`` without the option.

    A name may begin with ``./``, as those of find do. Without any name there is nothing to do,
    which a note says.

    Raises:
        UsageError: ``-z`` without a file.
        NotFound: there is no such file.
        PermissionDenied: it cannot be read.
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
    """Return standard input for bytes."""
    return cast("BufferedIOBase", context.stdin.buffer)


@contextmanager
def open_names(context: Context, source: str) -> Iterator[BufferedIOBase]:
    """Open the file of ``--files-from``, or standard input.

    Raises:
        NotFound: there is no such file.
        PermissionDenied: it cannot be read.
        UsageError: it is a device, which may have no end.
    """
    if source == STANDARD_INPUT:
        yield bytes_of(context)
        return
    try:
        file = open(source, "rb")  # noqa: PTH123, SIM115 - any bytes in its name; closed below
    except FileNotFoundError:
        raise NotFound(f"no file {source}") from None
    except OSError as error:
        raise PermissionDenied(f"cannot read {source}: {error.strerror}") from error
    with file:
        is_device = stat.S_ISCHR(os.fstat(file.fileno()).st_mode)
        if is_device and not (file.isatty() or source == os.devnull):
            raise UsageError(f"{source} is a device", hint="give a file, or - for standard input")
        yield file


def note_no_name(context: Context, source: str) -> None:
    """Note that there is nothing to do."""
    shown = "standard input" if source == STANDARD_INPUT else source
    context.out.note(f"there is no name in {shown}: nothing to do")


def split_names(data: bytes, *, null: bool) -> list[bytes]:
    """Split at the ends of lines, as Unix and Windows write them; with `null` at NUL bytes."""
    if null:
        return data.split(b"\0")
    return [line.removesuffix(b"\r") for line in data.split(b"\n")]
