"""``lakecli fs cat``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from lakecli.cli.context import Context
from lakecli.cli.declare import Option
from lakecli.cli.params import AtOp, PathUris
from lakecli.cli.transfers import PreSign
from lakecli.uri import path_of, ref_of

if TYPE_CHECKING:
    from collections.abc import Iterator

SMALL: Final = 8 << 20
"""Bytes of an object that is read whole, and verified, before any of it is written."""


def fs_cat(
    context: Context,
    paths: PathUris,
    *,
    verify: Annotated[
        bool,
        Option("--verify", help="Verify large objects, too, before writing any bytes"),
    ] = False,
    pre_sign: PreSign = False,
    at_op: AtOp = "",
) -> None:
    """Write the bytes of objects to standard output, one after the other.

    If one of several objects does not exist, nothing is written. The bytes are compared with the
    object's checksum. An object of up to 8 MiB is verified before any of it is written, through a
    temporary file; --verify does that for larger objects too. Without it, the bytes of a larger
    object are verified while they are written, so a damaged object ends in an error after its bytes
    were written. An object outside the storage namespace is refused if it is not the one that was
    imported. With --json the bytes are written unchanged, and errors as JSON.

    Examples:
        lakecli fs cat lakefs://demo/main/reports/2026.csv
        lakecli fs cat lakefs://demo/main/part-1.csv lakefs://demo/main/part-2.csv > whole.csv
        lakecli fs cat lakefs://demo/main~1/reports/2026.csv.gz | gunzip
    """
    del pre_sign
    from lakecli.repository.core.address import is_external
    from lakecli.repository.core.read import read_object
    from lakecli.repository.stat import stat

    repository = context.synced_repository(*paths, at_op=at_op)
    entries = [stat(repository, ref_of(path), path_of(path)) for path in paths]
    stdout = context.out.binary()
    for entry in entries:
        if is_external(entry):
            from lakecli.repository.check.external import check_unchanged

            check_unchanged(repository, entry)
        pieces = read_object(repository, entry)
        for piece in _verified(pieces) if verify or entry.size <= SMALL else pieces:
            stdout.write(piece)
        stdout.flush()


def _verified(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield pieces once the last of them, and the check behind it, has come."""
    from tempfile import SpooledTemporaryFile

    with SpooledTemporaryFile(SMALL) as held:
        for piece in pieces:
            held.write(piece)
        held.seek(0)
        while piece := held.read(1 << 20):
            yield piece
