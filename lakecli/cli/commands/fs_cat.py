"""``lakecli fs cat``: write the bytes of objects to standard output."""

from collections.abc import Iterator
from contextlib import suppress
from tempfile import SpooledTemporaryFile
from typing import Final

from lakecli.base.model import Entry
from lakecli.base.temporary_files import temporary_space
from lakecli.base.uri import LakeUri, path_of, ref_of
from lakecli.cli.commands.names_from_file import NamesOptions, are_given, iter_found
from lakecli.cli.context import Context
from lakecli.cli.line import flag
from lakecli.cli.params import AtOp, PathOrDirectoryUris, PreSign
from lakecli.errors import NotFound, UsageError
from lakecli.repository.contract import Repository
from lakecli.repository.reading.contents import read_object
from lakecli.repository.reading.recorded import AsRecorded, locate
from lakecli.repository.stat import stat
from lakecli.stores.uri import is_local

SMALL: Final = 8 << 20
"""The size in bytes up to which an object is read completely and verified before it is written."""


def fs_cat(
    context: Context,
    paths: PathOrDirectoryUris,
    *,
    verify: bool = flag(),
    _pre_sign: PreSign = False,
    names: NamesOptions,
    at_op: AtOp = "",
) -> None:
    """Write the bytes of objects to standard output, one after the other.

    If one of several objects does not exist, nothing is written. The bytes are compared with the
    object's checksum. An object of up to 8 MiB is verified before any of it is written, through a
    temporary file; --verify does that for larger objects too. Without --verify, the bytes of a
    larger object are verified while they are written, so the error about a damaged object comes
    after its bytes. An object outside the storage namespace is refused if it has changed since its
    import. With --json the bytes are written unchanged, and errors as JSON.

    With --files-from, one command writes many objects, in their state at the start. Each object is
    written as a line "CHECKSUM SIZE PATH", SIZE bytes, and a newline. A path without an object is
    written as a line "missing - PATH", and the exit code is then 3. Each object is written as soon
    as its name is read, so a program can write a name, read the object and write the next name.
    With -z, lines end with a NUL byte. Empty lines are skipped.

    Args:
        verify: Verify large objects, too, before writing any bytes.

    Examples:
        lakecli fs cat lakefs://demo/main/reports/2026.csv
        lakecli fs cat lakefs://demo/main/part-1.csv lakefs://demo/main/part-2.csv > whole.csv
        lakecli fs cat lakefs://demo/main~1/reports/2026.csv.gz | gunzip
        lakecli fs cat lakefs://demo/main/events/ --files-from names.txt
        lakecli fs cat s3://my-bucket/demo@main/reports/2026.csv
    """
    if are_given(names):
        if len(paths) > 1:
            raise UsageError("--files-from takes one PATH", hint="lakecli fs cat --help")
        _write_many(context, paths[0], names, verify=verify, at_op=at_op)
        return

    wanted = [(ref_of(path), path_of(path)) for path in paths]
    repository = context.synced_repository(*paths, at_op=at_op)
    entries = [stat(repository, ref, path) for ref, path in wanted]
    stdout = context.out.binary()
    for entry in entries:
        for piece in pieces_of(repository, entry, verify=verify):
            stdout.write(piece)
        stdout.flush()


def _write_many(
    context: Context, root: LakeUri, names: NamesOptions, *, verify: bool, at_op: str
) -> None:
    repository = context.synced_repository(root, at_op=at_op)
    end = b"\0" if names.null else b"\n"
    stdout = context.out.binary()
    for name, entry in iter_found(context, repository, root, names):
        if entry is None:
            stdout.write(b"missing - " + name + end)
        else:
            pieces = pieces_of(repository, entry, verify=verify)
            first = next(pieces, b"")  # raises before the line of an unreadable object
            stdout.write(b"%s %d %s" % (entry.checksum.encode(), entry.size, name) + end)
            stdout.write(first)
            for piece in pieces:
                stdout.write(piece)
            stdout.write(end)
        stdout.flush()


def pieces_of(repository: Repository, entry: Entry, *, verify: bool) -> Iterator[bytes]:
    """Yield the bytes of an object.

    With `verify`, or if the object is small, all bytes are read and verified before the first piece
    is yielded. Otherwise the digest is verified only after the last byte; so the state of a local
    file outside the namespace is first compared with the recorded state.
    """
    if not verify and entry.size > SMALL:
        store, key = locate(repository, entry)
        if isinstance(store, AsRecorded) and is_local(store.uri):
            with suppress(NotFound):
                store.check(key)
    pieces = read_object(repository, entry)
    return _verified(pieces) if verify or entry.size <= SMALL else iter(pieces)


def _verified(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Read all pieces first, including the check after the last piece, and then yield them."""
    with SpooledTemporaryFile(SMALL) as held:
        for piece in pieces:
            with temporary_space():
                held.write(piece)
        with temporary_space():
            held.seek(0)
        while piece := held.read(1 << 20):
            yield piece
