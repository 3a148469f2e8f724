"""Conditions and versions as S3 has them: headers and ETags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakecli.objectstore.base import Absent, Match, Version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakecli.objectstore.base import Condition


def headers_of(condition: Condition) -> dict[str, str]:
    """Return the arguments of a conditional request."""
    match condition:
        case Absent():
            return {"IfNoneMatch": "*"}
        case Match():
            return {"IfMatch": condition.checked()}
        case _:
            return {}


def version_of(answer: Mapping[str, Any]) -> Version:
    """Return the version that a response names, or ``""``."""
    return Version(str(answer.get("ETag", "")).strip('"'))
