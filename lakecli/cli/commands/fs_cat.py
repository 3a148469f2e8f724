"""``lakecli fs cat``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from lakecli.cli.context import Context
from lakecli.cli.params import AtOp, PathUri
from lakecli.cli.transfers import PreSign
from lakecli.uri import path_of, ref_of

if TYPE_CHECKING:
    from collections.abc import Iterator

SMALL: Final = 8 << 20
"""Bytes of an object that is read whole, and verified, before any of it is written."""


def fs_cat(
    context: Context,
    path: PathUri,
    *,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Verify a large object too before any of it is written"),
    ] = False,
    pre_sign: PreSign = False,
    at_op: AtOp = "",
) -> None:
    """Write an object's bytes to standard output.

    They are compared with the checksum. An object of up to 8 MiB, and with --verify any, is read
    whole first, through a temporary file, and nothing of a damaged one is written. Of a larger one
    the bytes are compared on the way: it ends in an error, but what was written is out by then. An
    object outside the storage namespace is asked for first, and refused if it is not the one that
    was imported. With --json the bytes are written as they are, and errors as JSON.

    Examples:
        lakecli fs cat lakefs://demo/main/reports/2026.csv
        lakecli fs cat lakefs://demo/main~1/reports/2026.csv.gz | gunzip
    """
    del pre_sign
    from lakecli.repository.core.address import is_external
    from lakecli.repository.core.read import read_object
    from lakecli.repository.stat import stat

    repository = context.synced_repository(path, at_op=at_op)
    entry = stat(repository, ref_of(path), path_of(path))
    if is_external(entry):
        from lakecli.repository.check.external import check_unchanged

        check_unchanged(repository, entry)
    pieces = read_object(repository, entry)
    stdout = context.out.binary()
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
