"""What a look at one thing found: the lines of ``lakecli doctor``."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakecli.errors import ErrorKind, LakeError


class Verdict(StrEnum):
    """How a thing stands, from well to ill; ``skipped`` says nothing about it."""

    OK = "ok"
    SKIPPED = "skipped"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: stable, such as ``create-only``.
        verdict: how it stands.
        seen: what was seen, in one line; of what was skipped, why.
        fix: what helps: a command, a permission or a variable. Empty where nothing is wrong.
        kind: of the error that comes of what failed; ``None`` of all else.
        details: the same facts for programs.
    """

    name: str
    verdict: Verdict
    seen: str
    fix: str = ""
    kind: ErrorKind | None = None
    details: Mapping[str, str] = field(default_factory=dict)


def ok(name: str, seen: str, **details: str) -> Check:
    """Return that a thing is as it should be."""
    return Check(name, Verdict.OK, seen, details=details)


def skipped(name: str, why: str) -> Check:
    """Return that a thing was not looked at."""
    return Check(name, Verdict.SKIPPED, why)


def warning(name: str, seen: str, *, fix: str, **details: str) -> Check:
    """Return that a thing works and should be better."""
    return Check(name, Verdict.WARNING, seen, fix, details=details)


def failed(name: str, error: LakeError, *, fix: str = "", **details: str) -> Check:
    """Return that a thing does not work.

    Args:
        name: of the check.
        error: what happened; its own hint comes before `fix`.
        fix: what helps where the error does not say.
        details: for programs.
    """
    return Check(name, Verdict.FAILED, error.message, error.hint or fix, error.kind, details)
