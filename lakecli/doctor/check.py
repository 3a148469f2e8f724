"""The result of one check, a line of ``lakecli doctor``, and the objects that checks write."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

from lakecli.errors import ErrorKind, LakeError
from lakecli.stores.capabilities import PartUploads, Prunes, UploadId
from lakecli.stores.contract import ObjectStore


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


class ScratchObjects:
    """The objects of one run under its own prefix, which are deleted at its end in any case.

    Args:
        store: to write to.
        prefix: of this run only; ends with a slash.
    """

    def __init__(self, store: ObjectStore, prefix: str) -> None:
        self.store = store
        self.prefix = prefix
        self.keys: set[str] = set()
        self._uploads: list[tuple[PartUploads, str, UploadId]] = []

    def key(self, name: str) -> str:
        """Return a key to write; `remove` deletes it."""
        key = self.prefix + name
        self.keys.add(key)
        return key

    def start_upload(self, uploads: PartUploads, key: str) -> UploadId:
        """Begin an upload in parts; `remove` aborts it unless it is completed."""
        upload = uploads.start(key)
        self._uploads.append((uploads, key, upload))
        return upload

    def remove(self) -> None:
        """Delete everything; a second call does nothing.

        Raises:
            LakeError: the store refused, or does not answer. There is no second attempt.
        """
        try:
            self._remove()
        except LakeError:
            self._forget()
            raise
        self._forget()

    def remove_after_failure(self) -> None:
        """Delete everything after an error or an interruption, without hiding it."""
        with suppress(LakeError):  # the first error is the one to report
            try:
                self.remove()
            except KeyboardInterrupt:
                self.remove()  # a second interrupt; finish the deletion
                raise

    def _remove(self) -> None:
        try:
            for uploads, key, upload in self._uploads:
                uploads.abort(key, upload)
        finally:
            if self.keys:
                self.store.delete(sorted(self.keys))
                if isinstance(self.store, Prunes):
                    self.store.prune(self.prefix)

    def _forget(self) -> None:
        self.keys.clear()
        self._uploads.clear()
