"""What the checks of `doctor` mean: which commands work, and which error to report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from lakecli.doctor.check import Check, Verdict, ok, skipped, warning
from lakecli.errors import (
    ConflictError,
    IntegrityError,
    LakeError,
    LostRace,
    NotFound,
    NothingToDo,
    OutcomeUnknown,
    PartialFailure,
    PermissionDenied,
    Refused,
    Unreachable,
    UsageError,
)

FAMILIES: Final[tuple[type[LakeError], ...]] = (
    Unreachable,
    NotFound,
    PermissionDenied,
    IntegrityError,
    Refused,
    UsageError,
    ConflictError,
    LostRace,
    OutcomeUnknown,
    PartialFailure,
    NothingToDo,
    LakeError,
)
"""Kinds of errors, the most serious first: an earlier one hides the later ones."""


class Purpose(NamedTuple):
    """A group of commands, and the checks that must not have failed for them.

    Attributes:
        name: the check that reports the result.
        needs: names of the checks.
        commands: the commands, for people.
    """

    name: str
    needs: tuple[str, ...]
    commands: str


PURPOSES: Final = (
    Purpose("to-read", ("read",), "fs cat, fs download, fs ls, diff, log"),
    Purpose("to-clone", ("read", "list"), "clone, fetch, pull, reflog, fsck"),
    Purpose("to-presign", ("read", "presign"), "fs presign"),
    Purpose("to-change", ("read", "list", "write"), "fs upload, commit, merge, revert, import"),
    Purpose("to-take-in", ("read", "list", "write", "delete"), "fs stage --incoming"),
    Purpose("to-push", ("read", "list", "write", "overwrite", "sharing"), "push, undo, sync auto"),
    Purpose("to-collect", ("read", "list", "write", "overwrite", "delete", "sharing"), "gc run"),
)
"""A row for each group of commands; each becomes one of the last checks."""


def verdict_of(checks: Iterable[Check]) -> Verdict:
    """Return the worst of several verdicts; skipped checks count as well."""
    found = {check.verdict for check in checks}
    return next((v for v in (Verdict.FAILED, Verdict.WARNING) if v in found), Verdict.OK)


def problem_of(checks: Sequence[Check]) -> LakeError | None:
    """Return the error for failed checks, of the most serious family, or ``None``.

    Its hint is the fix of the first check of that family.
    """
    problems = [check for check in checks if check.verdict is Verdict.FAILED]
    for family in FAMILIES:
        for check in problems:
            if check.kind == family.kind:
                names = ", ".join(problem.name for problem in problems)
                message = f"{len(problems)} of {len(checks)} checks failed: {names}"
                return family(message, hint=check.fix or None)
    return None


def check_purpose(purpose: Purpose, found: Mapping[str, Check]) -> Check:
    """Report whether a group of commands has what it needs."""
    needed = ", ".join(purpose.needs)
    lacking = [
        need
        for need in purpose.needs
        if found[need].verdict is Verdict.FAILED or found[need].details.get("because")
    ]
    unknown = [need for need in purpose.needs if found[need].verdict is Verdict.SKIPPED]
    details = {"needs": needed, "lacks": ", ".join(lacking), "commands": purpose.commands}
    if lacking:
        fixes = (found[need].fix for need in lacking)
        return warning(
            purpose.name,
            f"{purpose.commands}: not allowed, missing: {details['lacks']}",
            fix=next(filter(None, fixes), "see these checks"),
            **details,
        )
    if unknown:
        return skipped(purpose.name, f"{purpose.commands}: unknown, see {unknown[0]}")
    return ok(purpose.name, f"{purpose.commands}: allowed; required: {needed}", **details)
