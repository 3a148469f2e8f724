"""The log of a run: ``--log-level``, ``--log-format``, ``--log-output``, and ``--verbose``.

Only messages of lakecli's own loggers are logged, whose names begin with ``lakecli``. Messages of
the clouds' SDKs are not logged, because they contain signatures.
"""

import json
import logging
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from io import TextIOWrapper
from time import monotonic
from typing import Final, TextIO

from lakecli.base.pipes import is_pipe, open_pipe
from lakecli.cli.line import Globals, without_secrets
from lakecli.cli.out.output import Output
from lakecli.committed.cache import Reads, Tier, reads_text
from lakecli.errors import PermissionDenied, UsageError, without_passwords
from lakecli.stores.responses import LOGGER as REQUESTS

LEVELS: Final = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "fatal": logging.CRITICAL,
    "panic": logging.CRITICAL,
}
"""The levels of `logging` by the names of lakectl's log levels."""

FORMATS: Final = ("text", "json")
STDERR: Final = frozenset({"-", "="})
"""The values of ``--log-output`` that mean standard error; standard output is for answers."""

_QUERY: Final = re.compile(r"(https?://[^\s?\"'<>]*)\?[^\s\"'<>]+", re.IGNORECASE)


def is_open() -> bool:
    """Return whether a log is open: a command that another command runs shares the outer log."""
    return any(isinstance(each, _Calling) for each in logging.getLogger("lakecli").handlers)


def harmless(text: str) -> str:
    """Return a text without the queries and user names in URLs, which may be secret."""
    return without_passwords(_QUERY.sub(r"\1?...", text))


class Logs:
    """The log of one run; `close` ends it.

    Raises:
        UsageError: the level or the format is unknown.
        PermissionDenied: a file of ``--log-output`` cannot be written.
    """

    def __init__(
        self, given: Globals, argv: Sequence[str], *, out: Output, now: Callable[[], datetime]
    ) -> None:
        self._out = out
        self._now = now
        self._verbose = given.verbose
        self._begun = monotonic()
        self._incomplete: dict[str, str | None] = {}
        self._logger = logging.getLogger("lakecli")
        self._before = (self._logger.level, self._logger.propagate, [*self._logger.handlers])
        self._requests: Counter[str] = Counter()
        self._reads: Counter[Tier] = Counter()
        level = _chosen("--log-level", (given.log_level or "info").lower(), LEVELS)
        form = _chosen("--log-format", (given.log_format or "text").lower(), FORMATS)
        self._level, self._is_json = LEVELS[level], form == "json"
        output = "-" if given.log_output is None else given.log_output
        places = output.split(",") if given.are_logs_wanted else []
        self._is_shown = not STDERR.isdisjoint(places)
        self._files = {place: _opened(place) for place in places if place not in STDERR}
        self._logger.handlers[:] = [_Calling(self._take)]
        self._logger.propagate = False
        self._logger.setLevel(logging.DEBUG)
        self._log = logging.getLogger("lakecli.cli")
        words = [harmless(word) for word in without_secrets(argv)]
        self._log.info("begin", extra={"fields": {"command": shlex.join(words)}})
        out.heard = self._hear

    def _take(self, record: logging.LogRecord) -> None:
        """Count a request, print another message of the library, and write a message to the log."""
        if record.name == REQUESTS:
            self._requests[record.__dict__["fields"]["method"]] += 1
        elif self._verbose and record.name != "lakecli.cli":
            self._out.debug(harmless(f"{record.name}: {record.getMessage()}"))
        if record.levelno >= self._level and (self._is_shown or self._files):
            self._write(self._line(record))

    def _write(self, line: str) -> None:
        """Write a line to the log.

        An error does not end the command, which may be in the middle of a step; `close` reports it.
        """
        if self._is_shown:
            self._out.log(line)
        for place, file in self._files.items():
            try:
                file.write(line + "\n")
            except OSError as error:
                self._incomplete[place] = error.strerror

    def _line(self, record: logging.LogRecord) -> str:
        """Return a message as one line, in lakectl's format or as JSON."""
        fields = {
            "time": f"{self._now():%Y-%m-%dT%H:%M:%SZ}",
            "level": record.levelname.lower(),
            "msg": harmless(record.getMessage()),
            "logger": record.name,
            **record.__dict__.get("fields", {}),
        }
        if self._is_json:
            return json.dumps(fields)
        return " ".join(f"{name}={_text(value)}" for name, value in fields.items())

    def _hear(self, level: str, text: str) -> None:
        self._log.log(LEVELS[level], "%s", text)

    def steps(self, on_step: Callable[[str], None]) -> Callable[[str], None]:
        """Return a function that logs each step of a protocol and then calls `on_step` with it."""

        def log_step(name: str) -> None:
            self._log.debug("step", extra={"fields": {"step": name}})
            on_step(name)

        return log_step

    def failed(self, kind: str, message: str) -> None:
        """Log the error that ends the run."""
        self._log.error("%s", message, extra={"fields": {"kind": kind}})

    def add_reads(self, reads: Reads) -> None:
        """Add the reads of one repository's trees to the counts of the run."""
        self._reads.update(reads)

    def close(self, exit_code: int) -> None:
        """Log the end of the run; with ``--verbose``, print the numbers of reads and requests."""
        counts = self._requests
        total = counts.total()
        seconds = round(monotonic() - self._begun, 3)
        fields = {"exit_code": int(exit_code), "seconds": seconds, "requests": total}
        if any(self._reads.values()):
            fields |= {f"reads_{tier}": count for tier, count in self._reads.items()}
        self._log.info("end", extra={"fields": fields})
        if self._verbose:
            if any(self._reads.values()):
                self._out.debug(f"reads of trees: {reads_text(self._reads)}")
            kinds = ", ".join(f"{count} {method}" for method, count in sorted(counts.items()))
            self._out.debug(f"requests to buckets: {total}" + (f" ({kinds})" if kinds else ""))
        self._out.heard = None
        level, propagate, handlers = self._before
        self._logger.setLevel(level)
        self._logger.propagate = propagate
        self._logger.handlers[:] = handlers
        for file in self._files.values():
            with suppress(OSError):
                file.close()
        for place, why in self._incomplete.items():
            self._out.warn(f"the log {place} is incomplete: {why}")


def _chosen(option: str, value: str, among: Sequence[str] | dict[str, int]) -> str:
    if value not in among:
        raise UsageError(f"{option}: no such value: {value!r}", hint=f"one of {', '.join(among)}")
    return value


def _opened(place: str) -> TextIO:
    """Open a log file for appending; a new file can be read only by its owner."""
    if not place:
        raise UsageError("--log-output names no file", hint="--log-output FILE, or - for stderr")
    try:
        if is_pipe(place):
            return TextIOWrapper(open_pipe(place), "utf-8", "backslashreplace", line_buffering=True)
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        raise PermissionDenied(f"cannot write the log {place}: {error.strerror}") from error
    return os.fdopen(descriptor, "a", 1, encoding="utf-8", errors="backslashreplace")


class _Calling(logging.Handler):
    """A `logging` handler that passes each message to a function."""

    def __init__(self, call: Callable[[logging.LogRecord], None]) -> None:
        super().__init__()
        self._call = call

    def emit(self, record: logging.LogRecord) -> None:
        self._call(record)


def _text(value: object) -> str:
    text = str(value)
    return text if re.fullmatch(r"[\w.:/+-]+", text, re.ASCII) else json.dumps(text)
