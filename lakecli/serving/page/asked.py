"""The parameters of a request for a page, and links to other pages."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final
from urllib.parse import quote, urlencode

from lakecli.base.uri import check_path
from lakecli.base.visibility import is_visible
from lakecli.repository.contract import Repository
from lakecli.serving.served import Served

ROOT: Final = "/-/"


@dataclass
class Asked:
    """A request for a page.

    Attributes:
        name: the name of the repository; ``""`` for pages about all repositories.
        query: the parameters by name.
    """

    served: Served
    name: str
    query: Mapping[str, str]

    @cached_property
    def repository(self) -> Repository:
        """The repository, opened in its current state."""
        return self.served.repository(self.name)

    @cached_property
    def ref(self) -> str:
        """The requested ref expression; by default, the default branch."""
        return self.text("ref", self.repository.record.default_branch)

    def text(self, key: str, default: str = "") -> str:
        """Return a parameter as text without spaces around it, or the default if it is empty."""
        return self.query.get(key, "").strip() or default

    def path(self, key: str = "path") -> bytes:
        """Return a parameter that is a path; ``b""`` if it is absent.

        Raises:
            UsageError: the path is too long.
        """
        path = self.query.get(key, "").encode("utf-8", "surrogateescape")
        check_path(path, allow_empty=True)
        return path


def link(name: str = "", verb: str = "", /, **query: bytes | str | int | None) -> str:
    """Return the address of a page; empty parameters are left out.

    Args:
        name: the name of a repository; ``""`` for a page about all repositories.
        verb: the last part of the address: a key of `views.PAGES`.
    """
    place = ROOT + (f"{quote(name, safe='')}/{verb}" if name else verb)
    given = {key: value for key, value in query.items() if value}
    text = urlencode(given, safe="/", errors="surrogateescape", quote_via=quote)
    return f"{place}?{text}" if text else place


def contents(name: str, ref: str, path: bytes) -> str:
    """Return the address of the contents of an object, which lakeFS's API sends."""
    place = f"/api/v1/repositories/{quote(name)}/refs/{quote(ref, safe='')}/objects"
    return f"{place}?path={quote(path)}"


def command(*words: str) -> str:
    """Return a command to paste into a shell; ``""`` if it has invisible characters."""
    text = shlex.join(["lakecli", *words])
    return text if is_visible(text) else ""
