"""Documents that list links, in one of several formats, written while the links stream.

The head of a document needs facts that are known only at the end, such as when the first link
expires. So the middle is kept: in memory, and in a temporary file if it is large.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import BinaryIO, Final, NamedTuple, Protocol, Self

from lakecli.errors import NotFound, UsageError
from lakecli.repository.handoff.links import Header, ObjectLink, Totals
from lakecli.repository.handoff.manifest import CsvManifest, HtmlManifest, JsonManifest
from lakecli.repository.handoff.script import ShellScript
from lakecli.repository.transfer.destination import translated

IN_MEMORY: Final = 16 << 20
"""Bytes of a document's middle that are kept in memory."""


class DocumentWriter(Protocol):
    """One format; a writer writes one document.

    Attributes:
        left_out: (path, why) of links whose names the format or a file system does not allow.
            The document lacks them, or lists them as failures.
    """

    left_out: list[tuple[bytes, str]]

    def link(self, link: ObjectLink) -> bytes:
        """Return the text of one link; called for each, in path order, before `head`."""

    def head(self, header: Header, totals: Totals) -> bytes:
        """Return the beginning of the document."""

    def tail(self, header: Header, totals: Totals) -> bytes:
        """Return the end of the document."""


class Format(NamedTuple):
    """A format: what makes a writer of one document, and its file suffixes."""

    writer: Callable[[], DocumentWriter]
    suffixes: tuple[str, ...]


FORMATS: Final = {
    "json": Format(JsonManifest, (".json",)),
    "csv": Format(CsvManifest, (".csv",)),
    "html": Format(HtmlManifest, (".html", ".htm")),
}
"""The formats of a manifest."""

SCRIPT: Final = Format(ShellScript, ())
"""The format of a download script."""


def format_of(file: Path) -> Format:
    """Return the format that a manifest's suffix means.

    Raises:
        UsageError: it means none.
    """
    for format_ in FORMATS.values():
        if file.suffix.lower() in format_.suffixes:
            return format_
    known = ", ".join(suffix for format_ in FORMATS.values() for suffix in format_.suffixes)
    raise UsageError(
        f"the suffix of {file.name!r} is of no format",
        hint=f"one of {known}, or say which by --format",
    )


class Document:
    """One document being put together. Close it, or use it as a context manager."""

    def __init__(self, format_: Format) -> None:
        self._writer = format_.writer()
        self._links = SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - closed by `close`

    def close(self) -> None:
        """Delete the temporary file."""
        self._links.close()

    def __enter__(self) -> Self:
        """Return the document itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    @property
    def left_out(self) -> list[tuple[bytes, str]]:
        """The paths that the document does not hold, and why."""
        return self._writer.left_out

    def add(self, link: ObjectLink) -> None:
        """Write down one link."""
        self._links.write(self._writer.link(link))

    def write(self, target: BinaryIO, header: Header, totals: Totals) -> None:
        """Write the whole document, once, when every link was added."""
        target.write(self._writer.head(header, totals))
        self._links.seek(0)
        shutil.copyfileobj(self._links, target, 1 << 20)
        target.write(self._writer.tail(header, totals))


class OutputFile(NamedTuple):
    """A file that only its owner can read, and that appears when it is complete.

    Attributes:
        path: replaced if it exists. Other than a regular file, such as a terminal or a pipe, is
            written to directly.
        mode: the permissions of the new file.
    """

    path: Path
    mode: int = 0o600

    def check(self) -> None:
        """Fail early where the file cannot be written.

        Raises:
            UsageError: it is a directory.
            NotFound: there is no directory to put it into.
            PermissionDenied: not ours to write.
        """
        with translated(os.fsencode(self.path)):
            if self.path.is_dir():
                raise UsageError(f"{self.path} is a directory", hint="name a file")
            if not self.path.parent.is_dir():
                raise NotFound(f"no such directory: {self.path.parent}")
            if not self._is_special():
                tempfile.TemporaryFile(dir=self.path.parent).close()

    def write(self, document: Document, header: Header, totals: Totals) -> None:
        """Write a document to the file.

        Raises:
            PermissionDenied: not ours to write.
            Unreachable: the disk is full.
        """
        with translated(os.fsencode(self.path)), ExitStack() as stack:
            if self._is_special():
                document.write(stack.enter_context(self.path.open("wb")), header, totals)
                return
            descriptor, temporary = tempfile.mkstemp(
                prefix=".lakecli-", suffix=".tmp", dir=self.path.parent
            )
            stack.callback(Path(temporary).unlink, missing_ok=True)
            with os.fdopen(descriptor, "wb") as file:
                document.write(file, header, totals)
                os.fchmod(file.fileno(), self.mode)
            Path(temporary).replace(self.path)

    def _is_special(self) -> bool:
        try:
            return not stat.S_ISREG(self.path.stat().st_mode)
        except FileNotFoundError:
            return False
