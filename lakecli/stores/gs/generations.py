"""Converts between versions and generations, the version numbers of Google Cloud Storage."""

from typing import TYPE_CHECKING

from lakecli.stores.contract import Absent, Condition, Match, Version
from lakecli.stores.responses import UnusableAnswerError

if TYPE_CHECKING:
    from google.cloud.storage import Blob

NO_GENERATION = 1
"""A generation that no object has: generations count microseconds since 1970."""


def generation_for(condition: Condition) -> int | None:
    """Return the generation that a condition requires; 0: no object may exist; ``None``: any."""
    match condition:
        case Absent():
            return 0
        case Match():
            version = condition.checked()
            # 0 would mean "absent"; a version of another kind of store must match nothing.
            is_generation = version.isascii() and version.isdigit() and int(version) > 0
            return int(version) if is_generation else NO_GENERATION
        case _:
            return None


def version_of(blob: "Blob") -> Version:
    """Return the version of an object; raise `UnusableAnswerError` if it has no generation."""
    try:
        return Version(str(int(blob.generation)))
    except (TypeError, ValueError):  # without a generation, a write would have no condition
        raise UnusableAnswerError("it has no generation") from None
