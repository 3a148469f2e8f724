"""``--files-from``: names of objects or files, read from a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from lakecli.cli.declare import Option
from lakecli.cli.reading import Completion, Kind
from lakecli.errors import NotFound, PermissionDenied, UsageError

if TYPE_CHECKING:
    from lakecli.cli.context import Context

STANDARD_INPUT: Final = "-"


class NamesOptions(NamedTuple):
    """The objects to work on, by name."""

    files_from: Annotated[
        str | None,
        Option(
            "--files-from",
            metavar="FILE",
            help="Only what FILE names, relative to the given path, one name a line; - for "
            "standard input",
        ),
        Completion(Kind.FILE),
    ] = None
    null: Annotated[
        bool, Option("--null", "-z", help="The names of --files-from end with NUL, not with a line")
    ] = False


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

    A name may begin with ``./``, as those of find do.

    Raises:
        UsageError: ``-z`` without a file, or no name in it.
        NotFound: there is no such file.
        PermissionDenied: it cannot be read.
    """
    if not are_given(options):
        return None
    source = options.files_from
    assert source is not None
    try:
        if source == STANDARD_INPUT:
            data = context.stdin.buffer.read()
        else:
            data = Path(source).read_bytes()
    except FileNotFoundError:
        raise NotFound(f"no file {source}") from None
    except OSError as error:
        raise PermissionDenied(f"cannot read {source}: {error.strerror}") from error
    names = {name.removeprefix(b"./") for name in split_names(data, null=options.null)} - {b""}
    if not names:
        shown = "standard input" if source == STANDARD_INPUT else source
        raise UsageError(f"there is no name in {shown}", hint="one name a line")
    return sorted(names)


def split_names(data: bytes, *, null: bool) -> list[bytes]:
    """Split at the ends of lines, as Unix and Windows write them; with `null` at NUL bytes."""
    if null:
        return data.split(b"\0")
    return [line.removesuffix(b"\r") for line in data.split(b"\n")]
