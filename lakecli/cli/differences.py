"""Differences as text and JSON: one line or one object for each path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakecli.cli.answers.history import Difference as DifferenceRecord
from lakecli.cli.text import quote_path
from lakecli.model import ChangeType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakecli.cli.output import Output
    from lakecli.model import Difference

_LOOKS: Final = {
    ChangeType.ADDED: ("+ added", "green"),
    ChangeType.REMOVED: ("- removed", "red"),
    ChangeType.CHANGED: ("~ modified", "yellow"),
    ChangeType.CONFLICT: ("* conflict", "bright yellow"),
}


def stream_differences(out: Output, differences: Iterable[Difference]) -> int:
    """Answer with differences one by one, and return their number.

    Args:
        out: the output.
        differences: consumed while they are written.
    """

    def line(difference: Difference) -> str:
        mark, colour = _LOOKS[difference.type]
        return out.style(f"{mark} {quote_path(difference.path)}", colour)

    def record(difference: Difference) -> DifferenceRecord:
        answer = DifferenceRecord(type=difference.type, path=difference.path)
        if difference.unlike_checksums:
            answer["unlike_checksums"] = True
        return answer

    return out.stream(differences, record=record, text=line)
