"""Messages and questions about places outside a storage namespace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from lakecli.cli.out.answers import pick
from lakecli.cli.out.answers.sharing import OutsidePlace
from lakecli.cli.out.text import one_line
from lakecli.errors import LakeError, Refused
from lakecli.repository.contract import Repository
from lakecli.repository.reading.outside_places import CountedPlace, allowable, look
from lakecli.repository.reading.trust import remember, trust_of

if TYPE_CHECKING:
    from lakecli.cli.context import Context

SHOWN_PLACES = 20


def place_records(places: Iterable[CountedPlace]) -> list[OutsidePlace]:
    """Return the JSON answer about places."""
    return [pick(OutsidePlace, place, place=place.uri) for place in places]


def place_lines(places: Sequence[CountedPlace]) -> Iterator[str]:
    """Yield a line for each of the first places."""
    for place in places[:SHOWN_PLACES]:
        allowed = "" if place.allowed else " (not allowed)"
        yield f"{one_line(place.uri)}: {place.objects} objects{allowed}"
    if len(places) > SHOWN_PLACES:
        yield f"and {len(places) - SHOWN_PLACES} more places"


def ask_about_outside(context: Context, repository: Repository) -> list[CountedPlace]:
    """List the places outside the namespace that a new clone refers to, and ask to allow them.

    Without a terminal, print the command that allows them instead.
    """
    try:
        found = look(repository)
    except LakeError as error:
        context.out.warn(f"cannot check for objects outside the namespace: {error.message}")
        return []
    trust = trust_of(repository)
    unknown = [place for place in found.places if not place.allowed]
    if not unknown:
        return list(found.places)
    part = ""
    if found.ranges_read < found.ranges:
        part = f" (counted in {found.ranges_read} of {found.ranges} ranges; fsck counts all)"
    context.out.warn(f"some objects lie outside the storage namespace{part}:")
    for line in place_lines(unknown):
        context.out.note(f"  {line}")
    wanted = allowable(unknown, trust)
    if not wanted:
        context.out.note("they will not be read: lakecli never follows such addresses")
        return list(found.places)
    if _can_ask(context):
        try:
            context.confirm("allow lakecli to read them with your credentials", yes=False)
        except Refused:
            pass
        else:
            remember(repository, wanted)
            return [place._replace(allowed=place.uri in wanted) for place in found.places]
    context.out.note(f"to allow reading them: {one_line(trust.allowing(*wanted))}")
    return list(found.places)


def _can_ask(context: Context) -> bool:
    return context.stdin.isatty() and context.out.stderr_terminal
