"""Where a source's objects are: what no store could serve, and what is the repository's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakecli.errors import Refused, UsageError

if TYPE_CHECKING:
    from lakecli.pipeline.imports.part import Task
    from lakecli.pipeline.imports.rows import Failures, Rows


class Addresses:
    """Checks the addresses of one part's objects; consecutive ones are mostly of one bucket."""

    def __init__(self, task: Task, failures: Failures) -> None:
        self._task = task
        self._failures = failures
        self._root = b"\0"
        self._inside = (task.site.uri + "/").encode("utf-8", "surrogateescape")

    def checked(self, rows: Rows) -> Rows:
        """Leave out objects that no store could serve, or whose address nobody could write down.

        Raises:
            Refused: an object of the repository itself.
        """
        bad = self._unknown(rows.addresses)
        if not self._task.copies:
            for at in _not_text(rows.addresses):
                bad.setdefault(at, "its name is not UTF-8, as addresses are: use --copy")
        for at in _not_text(rows.checksums):
            bad.setdefault(at, "its checksum is not UTF-8")
        if not bad:
            return rows
        for at, why in sorted(bad.items()):
            self._failures.add(self._task.prefix + rows.keys[at], why)
        return rows.take([at for at in range(len(rows)) if at not in bad])

    def _unknown(self, addresses: list[bytes]) -> dict[int, str]:
        """Return why some addresses are none, by their positions."""
        bad = {}
        for at, address in enumerate(addresses):
            if not address.startswith(self._root):
                why = self._problem(address)
                if why:
                    bad[at] = why
            if address.startswith(self._inside):
                raise inside_error(address.decode("utf-8", "replace"), self._task.site.uri)
        return bad

    def _problem(self, address: bytes) -> str:
        """Learn the bucket of an address; say what is wrong with it."""
        from lakecli.objectstore.uri import parse

        text = address.decode("utf-8", "surrogateescape")
        scheme, colon, rest = text.partition("://")
        if not colon:
            local = " (of a file: local:///…)" if text.startswith("/") else ""
            return f"its address is no URI: {text!r}{local}"
        try:
            parsed = parse(text)
        except UsageError as error:
            return error.message
        if not parsed.bucket:
            self._root = f"{scheme}:///".encode()
        elif parsed.scheme != "az":
            self._root = f"{scheme}://{rest.partition('/')[0]}/".encode()
        return ""


def _not_text(column: list[bytes]) -> list[int]:
    """Return the positions of what is not UTF-8."""
    if b"".join(column).isascii():
        return []
    found = []
    for at, data in enumerate(column):
        try:
            data.decode()
        except UnicodeDecodeError:
            found.append(at)
    return found


def inside_error(address: str, namespace: str) -> Refused:
    """Return the error of a source that is the repository's own."""
    return Refused(
        f"the source {address} lies in the repository's own namespace {namespace}",
        hint="copy objects between branches with lakecli fs cp, or merge",
    )
