from __future__ import annotations

import errno
import os

import pytest

from lakecli.base.os_errors import MACHINE_HINTS
from lakecli.cli.exit_codes import EXIT_CODES, ExitCode, kind_of_os_error
from lakecli.cli.manual.topics import MEANINGS
from lakecli.cli.run import _translate
from lakecli.errors import ErrorKind


def test_every_kind_of_error_has_its_code() -> None:
    assert set(EXIT_CODES) == set(ErrorKind)
    assert len(set(EXIT_CODES.values())) == len(ErrorKind)


def test_every_code_is_documented() -> None:
    assert set(MEANINGS) == set(ExitCode)


def test_codes_are_the_promised_ones() -> None:
    assert {code.name: int(code) for code in ExitCode} == {
        "OK": 0,
        "UNEXPECTED": 1,
        "USAGE": 2,
        "PARTIAL": 3,
        "CONFLICT": 4,
        "LOST_RACE": 5,
        "NOT_FOUND": 6,
        "REFUSED": 7,
        "INTEGRITY": 8,
        "PERMISSION": 9,
        "UNREACHABLE": 10,
        "NOTHING_TO_DO": 11,
        "OUTCOME_UNKNOWN": 12,
        "DIFFERENCES": 13,
        "JOB": 14,
        "CHECK": 15,
        "HOOK": 16,
        "INTERRUPTED": 130,
        "BROKEN_PIPE": 141,
    }


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOENT, ErrorKind.NOT_FOUND),
        (errno.EACCES, ErrorKind.PERMISSION),
        (errno.EROFS, ErrorKind.PERMISSION),
        (errno.ENOSPC, ErrorKind.UNREACHABLE),
        (errno.EMFILE, ErrorKind.UNREACHABLE),
        (errno.ENFILE, ErrorKind.UNREACHABLE),
        (errno.EIO, ErrorKind.UNREACHABLE),
        (errno.EISDIR, ErrorKind.REFUSED),
        (errno.ECHILD, ErrorKind.UNEXPECTED),
    ],
)
def test_operating_system_errors_have_codes(number: int, kind: ErrorKind) -> None:
    assert kind_of_os_error(OSError(number, os.strerror(number))) == kind


@pytest.mark.parametrize("number", sorted(MACHINE_HINTS))
def test_what_every_file_would_meet_has_a_hint(number: int) -> None:
    kind, error = _translate(OSError(number, os.strerror(number), "file"))
    assert kind in {ErrorKind.UNREACHABLE, ErrorKind.PERMISSION}
    assert error.hint == MACHINE_HINTS[number]
