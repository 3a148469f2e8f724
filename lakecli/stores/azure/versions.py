"""Versions of blobs: ETags for conditions, and the IDs of versions that Azure keeps."""

from __future__ import annotations

from typing import Final

from lakecli.stores.answer_checks import UnusableAnswerError, etag_of
from lakecli.stores.answer_checks import version_id_of as id_of_version
from lakecli.stores.base import ConditionFailed, Version

TRIES: Final = 5
"""Attempts to read or renew an object that is replaced again and again."""


def version_of(etag: object) -> Version:
    """Return an ETag without its quotes.

    Raises:
        UnusableAnswerError: there is none, and a condition on it would be no condition.
    """
    version = Version(etag_of(str(etag or "")))
    if not version:
        raise UnusableAnswerError("it has no ETag")
    return version


def replaced(uri: str, key: str) -> ConditionFailed:
    """Return the error of an object that others replace while it is read."""
    what = f"{uri}/{key}"
    return ConditionFailed(f"object was replaced while it was read: {what!r}")


def version_id_of(time: str) -> str:
    """Return the ID of a version, which Azure names by a time, without colons.

    Addresses hold IDs of letters, digits and ``._~-`` only.
    """
    return id_of_version(time.replace(":", "_"))


def version_time(version_id: str) -> str:
    """Return the time by which Azure names a version."""
    return version_id.replace("_", ":")
