"""How adapters turn an SDK's errors into lakecli's: tables of words, filled in when needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakecli.errors import LakeError


class Words(NamedTuple):
    """An error to be: its class, and templates of its message and hint."""

    error: type[LakeError]
    message: str
    hint: str | None = None

    def filled(self, details: Mapping[str, str]) -> LakeError:
        """Return the error that these words describe; details at the end may be empty."""
        hint = self.hint and self.hint.format_map(details)
        return self.error(self.message.format_map(details).rstrip(": "), hint=hint)


def one_line(text: str) -> str:
    """Return a text of an SDK or a server so that it fits into a message."""
    return " ".join(text.split()).rstrip(".")


def by_class(table: Mapping[str, Words], error: BaseException) -> Words | None:
    """Return the words for an error's class, or for its nearest base that has some.

    Classes are looked up by name, so that no SDK is imported to ask.
    """
    names = (base.__name__ for base in type(error).__mro__)
    return next((table[name] for name in names if name in table), None)
