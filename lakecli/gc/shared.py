"""Refuse a namespace that another program uses besides lakecli, or in which lakeFS writes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from lakecli.base.layout import DATA, lakefs_object
from lakecli.errors import Refused
from lakecli.gc.data_objects import LakeFsPart, ListingPart, list_part, split
from lakecli.gc.live import LiveSet
from lakecli.gc.options import Work
from lakecli.remote.refs import iter_refs
from lakecli.repository.contract import Repository
from lakecli.repository.lakefs.kept_dumps import CLOCKS, TakenOver, written_at


class SharedNamespace(Refused):
    """Another program uses the storage namespace, and may refer to objects of lakecli."""


class NotConfirmed(SharedNamespace):
    """Nobody has confirmed yet that lakeFS has stopped in a namespace that was taken over."""


class NothingPublished(SharedNamespace):
    """No branch of a namespace that was taken over is in the bucket."""


class LakeFsWrites(SharedNamespace):
    """lakeFS goes on writing to a namespace although it was confirmed to have stopped."""

    def __init__(self, repository: Repository, key: str, stopped_at: datetime) -> None:
        super().__init__(
            f"lakeFS has written to {repository.store.uri} since it was confirmed on "
            f"{stopped_at:%Y-%m-%d} that it has stopped: {key}",
            hint="stop lakeFS's server and its garbage collection on this namespace, then confirm "
            f"it again: lakecli gc run --lakefs-stopped {repository.uri}",
        )


class LakeFsAhead(SharedNamespace):
    """lakeFS has written to a namespace since the last refs dump, so its commits are unknown."""

    def __init__(self, repository: Repository, key: str, since: datetime) -> None:
        super().__init__(
            f"lakeFS has written to {repository.store.uri} since the last refs dump that "
            f"lakecli wrote or restored, of {since:%Y-%m-%dT%H:%M:%SZ}: {key}",
            hint="bring its commits into this repository by a new dump of lakeFS: "
            "lakectl refs-dump "
            f"lakefs://REPOSITORY | lakecli refs-restore --update {repository.uri}",
        )


def check_not_shared(
    foreign: Counter[str], repository: Repository, taken: TakenOver | None
) -> None:
    """Refuse a namespace with objects that lakecli never writes.

    Args:
        foreign: number of such objects, by kind.
        repository: the repository of the namespace.
        taken: how it was taken over from lakeFS; ``None``: it was not.

    Raises:
        SharedNamespace: there are such objects, and nobody has confirmed that lakeFS has stopped.
    """
    uri = repository.store.uri
    found = [
        f"{foreign[kind]} {words}"
        for kind, words in (
            ("table", "ranges or metaranges of lakeFS"),
            ("file", "other files below _lakefs/"),
            ("object", "objects below data/ with names that lakecli does not use"),
        )
        if foreign[kind]
    ]
    if not found or (taken is not None and taken.stopped_at is not None):
        return
    if taken is not None:
        raise NotConfirmed(
            f"{uri} was taken over from lakeFS on {taken.dump.since:%Y-%m-%d} and has objects of "
            f"lakeFS: {', '.join(found)}",
            hint="stop lakeFS's server and its garbage collection on this namespace, then confirm "
            f"it, once: lakecli gc run --lakefs-stopped {repository.uri}",
        )
    raise SharedNamespace(
        f"{uri} has objects that lakecli did not write: {', '.join(found)}",
        hint="lakeFS may use the namespace and refer to objects that look like garbage here; "
        "if it does not, force the collection: --force-shared",
    )


def check_published(repository: Repository, taken: TakenOver | None) -> None:
    """Refuse to take what lakeFS wrote for garbage before any branch is in the bucket.

    Args:
        repository: the repository of the namespace.
        taken: how it was taken over from lakeFS; ``None``: it was not.

    Raises:
        SharedNamespace: lakeFS has stopped, and only the clone that took over knows its branches.
    """
    store = repository.store
    if taken is None or taken.stopped_at is None or next(iter_refs(store), None) is not None:
        return
    raise NothingPublished(
        f"{repository.store.uri} was taken over from lakeFS, and no branch of it was pushed, so "
        "everything of lakeFS looks like garbage",
        hint=f"push all branches in the clone that took over: lakecli push --all {repository.uri}",
    )


def check_stopped(repository: Repository, taken: TakenOver, key: str) -> None:
    """Refuse to delete objects of lakeFS if a data object shows that it goes on writing.

    Args:
        repository: the repository of the namespace.
        taken: when lakeFS was confirmed to have stopped.
        key: the object with the latest time in its name; ``""``: there is none.

    Raises:
        LakeFsWrites: it was written later.
    """
    name = lakefs_object(key)
    at = None if name is None else written_at(name)
    if at is not None:
        check_not_newer(repository, taken, key, at)


def check_not_newer(repository: Repository, taken: TakenOver, key: str, at: datetime) -> None:
    """Refuse to delete objects of lakeFS if one is younger than the confirmation.

    Raises:
        LakeFsWrites: it is.
    """
    if taken.stopped_at is not None and at > taken.stopped_at + CLOCKS:
        raise LakeFsWrites(repository, key, taken.stopped_at)


def check_not_ahead(work: Work, live: LiveSet, later: Sequence[ListingPart]) -> None:
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
    for listed in live.iter_unreached(work, parts):
        if listed.records:
            part = next(part for part in parts if part.name == listed.name)
            found = list_part(part._replace(keys=True), location=work.location)
            keys = dict(zip(split(found.records), found.keys, strict=True))
            key = keys.get(next(split(listed.records)), DATA)
            raise LakeFsAhead(work.repository, key, work.last_dump)
