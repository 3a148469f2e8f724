"""Checks of commit messages, before anything is done."""

from __future__ import annotations

from lakecli.errors import UsageError


def check_message(message: str, *, allow_empty: bool) -> None:
    """Refuse a message that is empty or blank, unless that is allowed.

    Raises:
        UsageError: there is no message.
    """
    if not allow_empty and not message.strip():
        raise UsageError(
            "no commit message",
            hint='give -m "MESSAGE", or --allow-empty-message',
        )
