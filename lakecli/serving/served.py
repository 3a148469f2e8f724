"""The repositories of an endpoint, opened once and shared by all its threads.

With ``sync = auto``, a repository that is asked for is first brought up to date with its bucket, at
most every `CATCH_UP` seconds. A storage namespace that is read without a clone is opened again
after that time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from threading import Lock
from typing import Final

from lakecli.errors import NotFound, Refused
from lakecli.repository.contract import BranchMover, Notice, Repository
from lakecli.repository.handle.lake import Lake, LocalRepository
from lakecli.repository.reading.view import View, check_branch, open_view, resolve_ref
from lakecli.serving.writes import BranchWriter, Client

CATCH_UP: Final = 5.0
"""The seconds for which a repository counts as up to date."""

MOST_WRITERS: Final = 256
"""The most branches whose writers are kept."""


class Served:
    """The repositories of an endpoint. Safe to share between threads.

    Args:
        lake: the lake of the repositories; used also to make new ones.
        names: the names of the repositories; ``None``: all that the lake has, at any time.
        namespaces: storage namespaces that are read without a clone, by the name of their bucket.
        open_repository: opens a repository of the lake by its name.
        open_namespace: opens the repository of a storage namespace for reading.
        new_mover: returns a new mover for a repository, or ``None`` if it is not shared
            automatically.
        notify: called with each message of a verb.

    Attributes:
        read_only: whether all writes are refused.
        committed: whether reads of a branch leave out what is staged.
    """

    def __init__(
        self,
        lake: Lake,
        *,
        names: Sequence[str] | None,
        namespaces: Mapping[str, str],
        open_repository: Callable[[str], LocalRepository],
        open_namespace: Callable[[str], LocalRepository],
        new_mover: Callable[[LocalRepository], BranchMover | None],
        notify: Callable[[Notice], None],
        read_only: bool = False,
        committed: bool = False,
    ) -> None:
        self.lake = lake
        self.read_only = read_only
        self.committed = committed
        self._names = names
        self._namespaces = dict(namespaces)

    def names(self) -> list[str]:
        """Return the names of the repositories, ordered; they are the names of the buckets."""
        raise NotImplementedError

    def repository(self, name: str) -> Repository:
        """Return a repository for reading, up to date.

        Raises:
            NotFound: no repository of that name is served.
        """
        raise NotImplementedError

    @contextmanager
    def acting(self, name: str, *, client: Client, action: str) -> Iterator[Repository]:
        """Return a context manager with a repository for a verb that changes something.

        The operation log names the client and its action. At the end, moved refs are sent to the
        bucket if the repository is shared automatically.

        Raises:
            NotFound: no repository of that name is served.
            Refused: the endpoint, or the repository, is read-only.
        """
        raise NotImplementedError
        yield

    @contextmanager
    def view(self, name: str, ref: str) -> Iterator[View]:
        """Return a context manager with the state that a ref expression names.

        Raises:
            NotFound: no such repository or ref.
            UsageError: the expression is malformed.
        """
        raise NotImplementedError
        yield

    def writer(self, name: str, branch: str) -> BranchWriter:
        """Return the writer of a branch.

        Raises:
            NotFound: no such repository, or no such branch; also if the name is that of a tag.
            Refused: the endpoint, or the repository, is read-only.
        """
        raise NotImplementedError

    def check_writable(self, name: str = "") -> None:
        """Refuse to change a repository, or to make one, if the endpoint is read-only.

        Raises:
            Refused: the endpoint is read-only, or the repository is read without a clone.
        """
        raise NotImplementedError
