"""One file of a manifest: its kind, opening it, its column names, and its JSON lines.

Works with and without Arrow: `manifest` reads rows with Arrow, `plain` without.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple, cast

from lakecli.base.model import NO_ACCOUNT, Account
from lakecli.base.parsing import Unparsable, parse_json_object
from lakecli.errors import IntegrityError
from lakecli.imports.remote_file import open_object

PARQUET, CSV, JSON_LINES = "parquet", "csv", "jsonl"


class ManifestFile(NamedTuple):
    """One file of a manifest.

    Attributes:
        uri: URI of the object or file.
        kind: `PARQUET`, `CSV` or `JSON_LINES`.
        version: changes with the contents.
        size: size in bytes.
        is_gzip: whether the whole file is compressed.
        names: names of the columns of a CSV without a first line of names.
        account: how its bucket is accessed.
    """

    uri: str
    kind: str
    version: str
    size: int
    is_gzip: bool = False
    names: tuple[str, ...] = ()
    account: Account = NO_ACCOUNT


def has_arrow() -> bool:
    """Return whether Arrow is installed."""
    try:
        import pyarrow  # noqa: F401, ICN001 - tests the installation
    except ImportError:
        return False
    return True


@contextmanager
def opened(file: ManifestFile) -> Iterator[BinaryIO]:
    """Open a file of a manifest; translate errors of Arrow and gzip about its contents.

    Raises:
        ObjectNotFound: the file does not exist.
        IntegrityError: the file is not of its kind, or damaged.
    """
    problems: tuple[type[Exception], ...] = (gzip.BadGzipFile, zlib.error, EOFError)
    if has_arrow():
        import pyarrow as pa

        problems = (*problems, pa.ArrowException)
    stream = open_object(file.uri, file.account)
    try:
        yield cast("BinaryIO", gzip.GzipFile(fileobj=stream)) if file.is_gzip else stream
    except problems as error:
        lines = str(error).splitlines()
        raise IntegrityError(
            f"cannot read {file.uri} as {file.kind}: {lines[0] if lines else 'it ends too soon'}",
            hint="a manifest is Parquet, CSV with a line of names, or JSON lines",
        ) from error
    finally:
        stream.close()


def csv_names(file: ManifestFile) -> list[str]:
    """Return the names in the first line of a CSV file.

    Raises:
        IntegrityError: the file cannot be read.
    """
    return list(csv_header(file)[1])


def csv_header(file: ManifestFile) -> tuple[int, tuple[str, ...]]:
    """Return the size of the first line of a CSV file, and the names in it.

    Raises:
        IntegrityError: the file cannot be read.
    """
    with opened(file) as stream:
        line = stream.readline(1 << 20)
    return len(line), tuple(next(csv.reader([line.decode("utf-8-sig", "replace")]), []))


def iter_json(stream: BinaryIO) -> Generator[tuple[int, dict[str, Any]]]:
    """Yield the number and the object of each line of JSON lines that is not empty.

    Raises:
        IntegrityError: a line is not a JSON object.
    """
    for number, line in enumerate(stream, 1):
        if not line.strip():
            continue
        try:
            yield number, parse_json_object(line)
        except Unparsable:
            raise IntegrityError(
                f"line {number} is not a JSON object",
                hint="JSON lines have one object in each line",
            ) from None


def json_names(file: ManifestFile) -> list[str]:
    """Return the names in the first object of a file of JSON lines.

    Raises:
        IntegrityError: the first line is not a JSON object.
    """
    with opened(file) as stream:
        return list(next(iter_json(stream), (0, {}))[1])
