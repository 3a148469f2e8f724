"""Flags and commands that the command line adds to the hints of some errors."""

from __future__ import annotations

from contextlib import contextmanager

from lakecli.errors import LakeError
from lakecli.typed import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SET_RULES: Final = "lakecli gc set-config lakefs://REPOSITORY -f FILE"


@contextmanager
def naming_flags(flags: Mapping[type[LakeError], str]) -> Iterator[None]:
    """Add a flag or a command to the hints of some errors.

    Args:
        flags: what follows the hint, by the class of the error, without its subclasses.
    """
    try:
        yield
    except LakeError as error:
        flag = flags.get(type(error))
        if flag and error.hint:
            error.hint = f"{error.hint}: {flag}"
        raise
