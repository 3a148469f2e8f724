"""Refusing to delete objects of lakeFS that has written since the last refs dump."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakecli.base.layout import DATA
from lakecli.gc.compare import AnyPart, iter_unreached
from lakecli.gc.joined import JoinedSet
from lakecli.gc.lakefs import LakeFsPart, list_lakefs
from lakecli.gc.live import DigestSet, split
from lakecli.gc.shared import LakeFsAhead

if TYPE_CHECKING:
    from lakecli.gc.mark import Work


def check_not_ahead(work: Work, live: DigestSet | JoinedSet, later: Sequence[AnyPart]) -> None:
    """Refuse to delete objects of lakeFS if one that is not in use is younger than the last dump.

    Writers renew the dates of objects that they use, so those that are in use tell nothing.

    Args:
        work: what the collection works with.
        live: the objects in use.
        later: the parts that have younger ones; they are listed again.

    Raises:
        LakeFsAhead: there is one.
    """
    parts = [each._replace(is_later=True) for each in later if isinstance(each, LakeFsPart)]
    if not parts or work.last_dump is None:
        return
    for listed in iter_unreached(work, live, parts):
        if listed.records:
            part = next(part for part in parts if part.name == listed.name)
            found = list_lakefs(part._replace(keys=True), location=work.location)
            keys = {
                each: key for each, (key, _) in zip(split(found.records), found.found, strict=True)
            }
            key = keys.get(next(split(listed.records)), DATA)
            raise LakeFsAhead(work.repository, key, work.last_dump)
