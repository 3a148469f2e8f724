"""Output of a command: text for people or JSON for programs on stdout, messages on stderr.

A command never prints. It passes its result both as a record and as a function that returns lines
of text; `Output` writes one of the two forms. On a terminal, tables are aligned and at most as wide
as the terminal. Otherwise the cells of a row are joined by tabs, as in lakectl. Long output on a
terminal is shown in a pager. stdout is flushed before anything is written to stderr, so that a
combined log is in order.

Text from a bucket is untrusted, so `Output._shown` escapes invisible characters in all text. Only
`Output` writes to stdout and stderr; a test checks this. Bytes (``fs cat``) are written unchanged.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from io import BytesIO, TextIOBase
from itertools import islice
from threading import get_ident
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TextIO, TypeVar, cast

from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.cli.hints import as_commands
from lakecli.cli.out import text as format_
from lakecli.errors import without_passwords

if TYPE_CHECKING:
    from datetime import datetime

    from lakecli.cli.out.progress_bar import BarProgress
    from lakecli.cli.out.terminal import Pager

T = TypeVar("T")

STYLES: Final = {
    "red": "\033[31m",
    "green": "\033[32m",
    "yellow": "\033[33m",
    "cyan": "\033[36m",
    "bright red": "\033[91m",
    "bright yellow": "\033[93m",
    "bold": "\033[1m",
    "dim": "\033[2m",
}
_RESET = "\033[0m"

MAX_PATHS_SHOWN: Final = 100
"""The maximum number of paths in an error message; the JSON error lists all paths."""

_COLUMNS: Final = 80
_ITEMS_AT_ONCE: Final = 64
"""The number of items that `Output.stream` writes together if stdout is not a terminal."""


def _itself(item: object) -> object:
    return item


class Output:
    """The output of one command.

    Attributes:
        json: whether answers are written as JSON, and nothing else to stdout.
        quiet: whether progress and notes are hidden.
        terminal: whether stdout is a terminal, so that tables are aligned.
        color: whether stdout is a terminal with colors.
        repository: the URI for commands in hints; ``None`` unless exactly one repository is open.
        heard: a function that is called with the level and the text of each note and warning, for
            the log; ``None`` without a log.
        whole: whether IDs and cells of tables are never shortened.
    """

    def __init__(
        self,
        stdout: TextIO,
        stderr: TextIO,
        *,
        json: bool = False,
        quiet: bool = False,
        color: bool = True,
        interactive: bool | None = None,
        whole: bool = False,
        columns: str = "",
        pager: Mapping[str, str] | None = None,
    ) -> None:
        self._stdout = stdout
        self._stderr = stderr
        self._bar: BarProgress | None = None
        self._mark = ""
        self._held: list[Any] = []
        self._thread = get_ident()
        self._texts: Callable[[list[Any]], Iterable[str]] = list
        self.heard: Callable[[str, str], None] | None = None
        self.json = json
        self.quiet = quiet
        self.terminal = stdout.isatty() if interactive is None else interactive
        self.color = color and self.terminal
        self.stdout_terminal = stdout.isatty()
        self.stderr_terminal = stderr.isatty()
        self._stderr_color = color and self.stderr_terminal
        self.whole = whole
        self.repository: str | None = None
        self._columns = columns
        self._pager = pager if self.stdout_terminal and not json else None
        self._paging: Pager | None = None
        self._screen = stdout

    # -- answers -----------------------------------------------------------------------------

    def emit(self, record: object, *, text: Callable[[], Iterable[str]] | None = None) -> None:
        """Write one object: its fields as JSON, or the lines of `text`.

        If the record is expensive to create, pass a function that returns the record; the function
        is called only with ``--json``.
        """
        if self.json:
            from lakecli.cli.out.records import to_json

            self._write(to_json(record() if callable(record) else record) + "\n")
        elif text is not None:
            # Write all lines at once: a reader that stops early, such as `grep -q`, then causes no
            # broken pipe.
            lines = (format_.harmless(line).replace("\n", "\\n") for line in text())
            self._write("".join(f"{line}\n" for line in lines))

    def stream(
        self,
        items: Iterable[T],
        *,
        record: Callable[[T], object] = _itself,
        text: Callable[[T], str] | None = None,
        texts: Callable[[list[T]], Iterable[str]] | None = None,
    ) -> int:
        """Write one JSON object or one text per item, and return the number of items.

        A text may have several lines; a newline is appended. On a terminal each item is written
        immediately; otherwise several items are buffered and written together.

        Args:
            items: the items.
            record: a function that returns the JSON record of an item.
            text: a function that returns the text of an item.
            texts: used instead of `text`: a function that returns the texts of several items, which
                are written together.
        """
        put, count = self.lister(record=record, text=text, texts=texts), 0
        try:
            for item in items:
                put(item)
                count += 1
        finally:  # items before an error are written before the error
            self._write_held()
        return count

    def lister(
        self,
        *,
        record: Callable[[T], object] = _itself,
        text: Callable[[T], str] | None = None,
        texts: Callable[[list[T]], Iterable[str]] | None = None,
    ) -> Callable[[T], None]:
        """Return a function that writes items as `stream` does, with the same arguments.

        Buffered items are written before any other output.
        """
        make: Callable[[list[T]], Iterable[str]]
        if self.json:
            from lakecli.cli.out.records import to_json

            make = partial(map, lambda item: to_json(record(item)))
        else:
            make = partial(map, text or str) if texts is None else texts
        most = 1 if self.terminal or self._bar is not None else _ITEMS_AT_ONCE

        def put(item: T) -> None:
            if self._texts is not make:
                self._write_held()
                self._texts = make
            self._held.append(item)
            if len(self._held) >= most:
                self._write_held()

        return put

    def table(
        self,
        columns: Sequence[str],
        items: Iterable[T],
        *,
        row: Callable[[T], Sequence[str]],
        record: Callable[[T], object] = _itself,
        style: Callable[[T], str] | None = None,
        kept: Collection[str] = (),
    ) -> None:
        """Write a table: aligned on a terminal; otherwise rows joined by tabs, without a header.

        Args:
            columns: the headers.
            items: the items, one for each row.
            row: a function that returns the cells of an item.
            record: a function that returns the JSON record of an item.
            style: a function that returns the style of an item's row on a terminal; see `STYLES`.
            kept: the headers of the columns that are never cut; by default the first header.
        """
        if self.json or not self.terminal:
            self.stream(items, record=record, text=lambda item: "\t".join(_cells(row(item))))
            return
        from lakecli.cli.out.tables import aligned_lines

        listed = list(items)
        header, *lines = aligned_lines(
            columns,
            [_cells(row(item)) for item in listed],
            width=self.width,
            whole=self.whole,
            kept=[columns.index(each) for each in kept or columns[:1]],
        )
        self._write(self.style(header, "bold") + "\n")
        for item, line in zip(listed, lines, strict=True):
            self._write((line if style is None else self.style(line, style(item))) + "\n")

    def date(self, when: "datetime") -> str:
        """Return a time as text for a table; on a terminal, without seconds and time zone."""
        is_short = self.terminal and not self.whole
        return format_.local_date(when)[: len("2026-11-28 13:12") if is_short else None]

    @property
    def width(self) -> int:
        """The number of columns of the terminal, even with a pager; 80 if unknown."""
        if self._columns.isdecimal() and int(self._columns) > 0:
            return int(self._columns)
        try:
            return os.get_terminal_size(self._screen.fileno()).columns or _COLUMNS
        except (OSError, ValueError):
            return _COLUMNS

    def start_pager(self) -> None:
        """If stdout is a terminal, pipe all further output on stdout through the pager.

        `finish_pager` waits for the pager.
        """
        if not self._pager or self._paging is not None:
            return
        from lakecli.cli.out.terminal import Pager, find_pager

        command = find_pager(self._pager)
        if not command:
            return
        self.flush()
        try:
            self._paging = Pager(command)
        except (OSError, ValueError):  # there is no such program: do without a pager
            return
        self._stdout = self._paging.stream

    def finish_pager(self) -> None:
        """If a pager runs, wait until the user has left it; safe to repeat."""
        if self._paging is not None:
            paging, self._paging = self._paging, None
            paging.finish()
            self._stdout = self._screen

    def page(
        self, items: Iterable[T], *, amount: int, name: Callable[[T], str] | None = None
    ) -> Iterable[T]:
        """Yield the first `amount` items; if there are more, print a hint how to list them.

        The hint is written to stderr, also with ``--json``, so that no list is cut silently.

        Args:
            items: the items.
            amount: the maximum number of items; 0 and -1 mean all.
            name: a function that returns the value of ``--after`` to continue after an item;
                ``None`` if the command has no option ``--after``.
        """
        if amount <= 0:
            yield from items
            return
        source = iter(items)
        last: T | None = None
        for last in islice(source, amount):
            yield last
        for _ in source:
            more = "0"
            if name is not None:
                more = f"{amount} --after {format_.shell_word(name(cast('T', last)))}"
            self.hint(f"for more results run with --amount {more}")
            break

    def say(self, *lines: str) -> None:
        """Write lines of text, such as ``Source ref: …``; with ``--json``, write nothing."""
        if not self.json:
            for line in lines:
                self._write(format_.harmless(line) + "\n")

    def plain(self, text: str) -> None:
        """Write text unchanged; callers escape text from a bucket, unless users want raw text."""
        self._stdout.write(text)

    def binary(self) -> BinaryIO:
        """Flush stdout, and return it as a binary stream."""
        self.flush()
        return self._stdout.buffer

    @contextmanager
    def document(self) -> Iterator[BinaryIO]:
        """Flush stdout, and yield a binary stream for a document that programs read.

        If stdout is a terminal, the document is shown at the end, with hidden characters escaped
        and line endings CRLF, as in CSV, written as LF.
        """
        if not self.stdout_terminal:
            yield self.binary()
            return
        held = BytesIO()
        yield held
        text = held.getvalue().decode("utf-8", "surrogateescape").replace("\r\n", "\n")
        self.binary().write(format_.harmless(text).encode())

    # -- stderr ------------------------------------------------------------------------------

    def note(self, message: str) -> None:
        """Write a note to stderr, unless ``--quiet`` is given."""
        if self.heard is not None:
            self.heard("info", message)
        if not self.quiet:
            self._write_error(format_.one_line(message))

    def warn(self, message: str, hint: str | None = None) -> None:
        """Write a warning to stderr (``warning: …``), followed by a hint if there is one."""
        if self.heard is not None:
            self.heard("warning", message)
        label = self._style_error("warning:", "yellow")
        self._write_error(f"{label} {format_.one_line(message)}")
        if hint is not None:
            self.hint(hint)

    def hint(self, message: str) -> None:
        """Write a hint to stderr: ``hint: …``.

        A function of the library in backquotes, such as ``push``, is shown as its command; see
        `lakecli.cli.hints`. A hint may continue on indented lines, for example with candidates.
        """
        lines = as_commands(message, self.repository).split("\n  ")
        self._write_error("hint: " + "\n  ".join(map(format_.one_line, lines)))

    def error(self, message: str, *, hint: str | None, paths: Sequence[bytes]) -> None:
        """Write an error to stderr as text: the message, the first paths, and the hint."""
        label = self._style_error("error:", "bright red")
        self._write_error(f"{label} {format_.one_line(message)}")
        for path in paths[:MAX_PATHS_SHOWN]:
            self._write_error("  " + format_.quote_path(path))
        if len(paths) > MAX_PATHS_SHOWN:
            more = len(paths) - MAX_PATHS_SHOWN
            self._write_error(f"  and {more:,} more; --json lists all")
        if hint:
            self.hint(hint)

    def ask(self, question: str) -> None:
        """Write a question to stderr without a newline."""
        self.flush()
        self._put_error(self._shown(format_.one_line(question)))

    def debug(self, message: str) -> None:
        """Write a debug message of the library to stderr, for ``--verbose``."""
        self._write_error(f"debug: {message}")

    def log(self, line: str) -> None:
        """Write a line of the log to stderr."""
        self._write_error(line)

    def traceback(self, error: BaseException) -> None:
        """Write the traceback of an error to stderr."""
        from traceback import format_exception

        self._write_error(without_passwords("".join(format_exception(error)).rstrip()))

    def error_record(self, record: Mapping[str, object]) -> None:
        """Write an error as one JSON object, which is the last line of stderr."""
        from lakecli.cli.out.records import to_json

        self._write_error(to_json({"error": record}))

    # -- looks -------------------------------------------------------------------------------

    def style(self, text: str, name: str) -> str:
        """Return `text` in one of `STYLES` if stdout shows colors, else unchanged."""
        return self._styled(text, name) if self.color else text

    def _style_error(self, text: str, name: str) -> str:
        return self._styled(text, name) if self._stderr_color else text

    def _styled(self, text: str, name: str) -> str:
        # The mark is random for each process, so that no data can contain it. It has no invisible
        # characters, so that escaping keeps it.
        self._mark = self._mark or f"<{os.urandom(8).hex()}:"
        return f"{self._mark}{name};{text}{self._mark};"

    def _shown(self, text: str) -> str:
        """Return text with hidden characters escaped and marks of styles replaced by colors."""
        if not self._mark or self._mark not in text:
            return format_.harmless(text)
        first, *rest = text.split(self._mark)
        shown = [format_.harmless(first)]
        for piece in rest:
            name, _, plain = piece.partition(";")
            shown += (STYLES.get(name, _RESET), format_.harmless(plain))
        return "".join(shown)

    @contextmanager
    def progress(
        self, verb: str, *, items: int | None = None, hidden: bool = False
    ) -> Iterator[Progress]:
        """Show the progress of a long operation on stderr during a ``with`` block.

        The progress is a bar on a terminal, otherwise one plain line every few seconds. Nothing is
        shown with ``--quiet``, or while another operation shows a bar.

        Args:
            verb: the operation, such as ``upload``.
            items: the number of objects, if known.
            hidden: whether to show nothing.
        """
        if hidden or self.quiet or self._bar is not None:
            yield NO_PROGRESS
        elif not self._stderr_color:
            from lakecli.cli.out.progress import PlainProgress

            yield PlainProgress(verb, self._write_error, items=items)
        else:
            from lakecli.cli.out.progress_bar import BarProgress

            with BarProgress(verb, self._stderr, items=items) as bar:
                self._bar = bar
                try:
                    yield bar
                finally:
                    self._bar = None

    # -- streams -----------------------------------------------------------------------------

    def _write_held(self) -> None:
        """Write the buffered items of `stream`.

        If an item cannot be formatted, the items before it are written.
        """
        if self._held:
            items, self._held = self._held, []
            lines: list[str] = []
            try:
                for line in self._texts(items):
                    lines.append(line)  # noqa: PERF402 - lines before an error are written
            finally:
                if lines:
                    self._write("\n".join(lines) + "\n")

    def _write(self, text: str) -> None:
        self._write_held()
        text = self._shown(text)
        if self._bar is not None and self.terminal:
            self._bar.write(text)
        else:
            self._stdout.write(text)

    def _write_error(self, line: str) -> None:
        try:
            # Messages of other threads leave the items to this one, which keeps their order.
            if get_ident() == self._thread:
                self._write_held()
            self._stdout.flush()
        except BrokenPipeError:
            raise
        except OSError:  # a full disk: the flush at the end of the command reports it
            pass
        line = self._shown(line)
        if self._bar is not None:
            self._bar.write(line + "\n")
        else:
            self._put_error(line + "\n")

    def _put_error(self, text: str) -> None:
        # If the reader of stderr is gone or its disk is full, the command is finished nevertheless;
        # its exit code still reports the result.
        with suppress(OSError):
            self._stderr.write(text)
            self._stderr.flush()

    def flush(self) -> None:
        """Flush stdout."""
        self._write_held()
        self._stdout.flush()


class Guarded(TextIOBase):
    """A text stream for code other than `Output`; it escapes all text that is written to it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text with hidden characters escaped."""
        with suppress(OSError):
            self._stream.write(format_.harmless(text))
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        with suppress(OSError):
            self._stream.flush()

    def fileno(self) -> int:
        """Return the file descriptor of the underlying stream."""
        return self._stream.fileno()

    def isatty(self) -> bool:
        """Return whether the underlying stream is a terminal."""
        return self._stream.isatty()

    def writable(self) -> bool:
        """Return true."""
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the underlying stream."""
        return self._stream.encoding


def _cells(row: Sequence[str]) -> list[str]:
    """Return the cells of a row with hidden characters, tabs and line breaks escaped."""
    return [format_.one_line(cell) for cell in row]
