"""The result of one check: a line of ``lakecli doctor``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lakecli.errors import ErrorKind, LakeError


class CheckVerdict(StrEnum):
    """The result of a check, from good to bad; ``skipped`` is no result."""

    OK = "ok"
    SKIPPED = "skipped"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Check:
    """One check and its result.

    Attributes:
        name: stable, such as ``create-only``.
        verdict: the result.
        seen: the observation in one line; for a skipped check, the reason.
        fix: a command, a permission or a variable; empty if nothing is wrong.
        kind: of the error that a failed check causes; ``None`` otherwise.
        details: the same facts for programs.
    """

    name: str
    verdict: CheckVerdict
    seen: str
    fix: str = ""
    kind: ErrorKind | None = None
    details: Mapping[str, str] = field(default_factory=dict)


def ok(name: str, seen: str, **details: str) -> Check:
    """Return a passed check."""
    return Check(name, CheckVerdict.OK, seen, details=details)


def skipped(name: str, why: str) -> Check:
    """Return a check that was not made."""
    return Check(name, CheckVerdict.SKIPPED, why)


def warning(name: str, seen: str, *, fix: str, **details: str) -> Check:
    """Return a check that passed with a warning."""
    return Check(name, CheckVerdict.WARNING, seen, fix, details=details)


def failed(name: str, error: LakeError, *, fix: str = "", **details: str) -> Check:
    """Return a failed check.

    Args:
        name: of the check.
        error: what happened; its hint takes precedence over `fix`.
        fix: used if the error has no hint.
        details: for programs.
    """
    return Check(name, CheckVerdict.FAILED, error.message, error.hint or fix, error.kind, details)
