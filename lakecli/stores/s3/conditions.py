"""Conditions, versions and attributes as S3 has them: headers, ETags and arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakecli.stores.answer_checks import etag_of
from lakecli.stores.base import Absent, Attributes, Condition, Match, Version


def headers_of(condition: Condition) -> dict[str, str]:
    """Return the arguments of a conditional request."""
    match condition:
        case Absent():
            return {"IfNoneMatch": "*"}
        case Match():
            return {"IfMatch": condition.checked()}
        case _:
            return {}


def arguments_of(attributes: Attributes) -> dict[str, Any]:
    """Return the arguments of a request that writes an object with these attributes."""
    named = {"ContentType": attributes.content_type, "Metadata": dict(attributes.metadata)}
    return {name: value for name, value in named.items() if value}


def version_of(answer: Mapping[str, Any]) -> Version:
    """Return the version that a response names, or ``""``.

    Raises:
        UnusableAnswerError: the ETag could not be sent back in a header.
    """
    return Version(etag_of(str(answer.get("ETag", ""))))
