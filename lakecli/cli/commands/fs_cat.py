"""``lakecli fs cat``."""

from __future__ import annotations

from lakecli.cli.context import Context
from lakecli.cli.params import AtOp, PathUri
from lakecli.cli.transfers import PreSign
from lakecli.uri import path_of, ref_of


def fs_cat(context: Context, path: PathUri, *, pre_sign: PreSign = False, at_op: AtOp = "") -> None:
    """Write an object's bytes to standard output.

    They are compared with the checksum on the way: a damaged object ends in an error, but what
    was written is out by then. With --json the bytes are written as they are, and errors as JSON.

    Examples:
        lakecli fs cat lakefs://demo/main/reports/2026.csv
        lakecli fs cat lakefs://demo/main~1/reports/2026.csv.gz | gunzip
    """
    del pre_sign
    from lakecli.repository.objects import stat
    from lakecli.repository.read import read_object

    repository = context.repository(path, at_op=at_op)
    entry = stat(repository, ref_of(path), path_of(path))
    stdout = context.out.binary()
    for piece in read_object(repository, entry):
        stdout.write(piece)
    stdout.flush()
