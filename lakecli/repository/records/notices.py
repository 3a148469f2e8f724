"""Notices: what verbs report beside their result."""

from __future__ import annotations

from typing import NamedTuple


class Notice(NamedTuple):
    """Something that a verb found out, for its caller to show.

    Attributes:
        message: what happened.
        hint: what to do about it, or ``None``.
    """

    message: str
    hint: str | None = None
