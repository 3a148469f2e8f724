"""Notices: what a verb finds out besides its work, for its caller to show."""

from __future__ import annotations

from typing import NamedTuple


class Notice(NamedTuple):
    """What a verb found out besides its work.

    Attributes:
        message: what is the case.
        hint: what to do about it; ``None``: nothing.
    """

    message: str
    hint: str | None = None
