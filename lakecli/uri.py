"""``lakefs://repository/ref/path``, taken literally: nothing is decoded or cut off.

Percent signs, ``?``, ``#``, spaces and newlines are ordinary characters of a path, unlike in
lakectl, where ``fs rm lakefs://r/main/a#1`` acts on ``a``.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from lakecli.errors import UsageError
from lakecli.model import MAX_PATH_SIZE

SCHEME = "lakefs://"
_OF_FILES = f"files of this machine: lakecli fs upload FILE {SCHEME}REPOSITORY/BRANCH/"
REPOSITORY_NAME = re.compile(r"[a-z0-9][a-z0-9-]{2,62}")


class LakeUri(NamedTuple):
    """A parsed URI.

    Attributes:
        repository: a legal name.
        ref: a ref expression as typed, or ``None`` if the URI has none.
        path: ``None`` if the URI has none; ``b""`` for ``lakefs://r/main/``.
    """

    repository: str
    ref: str | None = None
    path: bytes | None = None

    def __str__(self) -> str:
        """Return the URI; the inverse of `parse`."""
        text = SCHEME + self.repository
        if self.ref is not None:
            text += "/" + self.ref
        if self.path is not None:
            text += "/" + os.fsdecode(self.path)
        return text


def parse(text: str, *, base: str = "") -> LakeUri:
    """Parse a repository, ref or path URI.

    Args:
        text: as typed. A path may hold any bytes; undecodable ones are surrogates.
        base: prepended unchanged to a text that does not start with ``lakefs://``.

    Raises:
        UsageError: it is no ``lakefs://`` URI, or the repository's name is illegal.
    """
    full = text if text.startswith(SCHEME) else base + text
    if not full.startswith(SCHEME):
        raise UsageError(
            f"not a lakefs:// URI: {text!r}",
            hint=_meant(full) or "write lakefs://REPOSITORY[/REF[/PATH]], or set LAKECLI_BASE_URI",
        )
    repository, _, rest = full[len(SCHEME) :].partition("/")
    if not REPOSITORY_NAME.fullmatch(repository):
        raise UsageError(
            f"illegal repository name {repository!r} in {full!r}",
            hint="3 to 63 of a-z, 0-9 and '-', not starting with '-'",
        )
    if not rest:
        return LakeUri(repository)
    ref, slash, path = rest.partition("/")
    if slash and "@{" in ref and "}" not in ref:
        raise UsageError(
            f"no '/' inside the braces of a ref: {full!r}",
            hint="write a date as in lakefs://REPOSITORY/main@{2026-11-01 10:00}/PATH",
        )
    if not ref:
        raise UsageError(f"no ref before the path in {full!r}", hint="lakefs://REPOSITORY/REF/PATH")
    return LakeUri(repository, ref, os.fsencode(path) if slash else None)


def _meant(text: str) -> str | None:
    """Return what somebody probably meant who wrote something else than a ``lakefs://`` URI."""
    scheme, colon, rest = text.partition(":")
    if colon and scheme.lower() == "lakefs":
        return f"did you mean {SCHEME}{rest.lstrip('/')}?"
    if colon and rest.startswith("//"):
        if scheme.lower() in ("file", "local"):
            return _OF_FILES
        return f"objects of a bucket: lakecli import --from {text} --to {SCHEME}REPOSITORY/BRANCH/"
    if text.startswith(("/", ".", "~")):
        return _OF_FILES
    repository, slash, _ = text.partition("/")
    if slash and REPOSITORY_NAME.fullmatch(repository):
        return f"did you mean {SCHEME}{text}?"
    return None


def parse_repository(text: str, *, base: str = "") -> LakeUri:
    """Parse a URI that names a repository only."""
    uri = parse(text, base=base)
    if uri.ref is not None:
        raise UsageError(
            f"expected a repository, got the ref {uri.ref!r} too: {text!r}",
            hint=f"{SCHEME}{uri.repository}",
        )
    return uri


def parse_ref(text: str, *, base: str = "") -> LakeUri:
    """Parse a URI that names a ref expression; a trailing slash is allowed."""
    uri = parse(text, base=base)
    if uri.ref is None:
        raise UsageError(f"no ref in {text!r}", hint=f"{SCHEME}{uri.repository}/REF")
    if uri.path:
        raise UsageError(
            f"expected a ref, got a path too: {text!r}",
            hint=f"{SCHEME}{uri.repository}/{uri.ref}; a name of a branch or tag has no '/'",
        )
    return LakeUri(uri.repository, uri.ref)


def ref_of(uri: LakeUri) -> str:
    """Return the ref of a URI from `parse_ref` or `parse_path`."""
    assert uri.ref is not None, uri
    return uri.ref


def parse_path(text: str, *, base: str = "", allow_empty: bool = False) -> LakeUri:
    """Parse a URI that names an object, or with `allow_empty` a prefix.

    Raises:
        UsageError: also for a path over 1,024 bytes.
    """
    uri = parse(text, base=base)
    if uri.ref is None:
        raise UsageError(f"no ref in {text!r}", hint=f"{SCHEME}{uri.repository}/REF/PATH")
    if uri.path is None and allow_empty:
        return LakeUri(uri.repository, uri.ref, b"")
    if not uri.path and not allow_empty:
        raise UsageError(f"no path in {text!r}", hint=f"{SCHEME}{uri.repository}/{uri.ref}/PATH")
    check_path(uri.path or b"", allow_empty=allow_empty)
    return uri


def path_of(uri: LakeUri, *, hint: str | None = None) -> bytes:
    """Return the path of a URI that must name one object.

    Raises:
        UsageError: it has no path.
    """
    if not uri.path:
        raise UsageError(
            f"no path in {str(uri)!r}", hint=hint or f"{SCHEME}{uri.repository}/{uri.ref}/PATH"
        )
    return uri.path


def as_directory(path: bytes) -> bytes:
    """Return a path with a trailing slash, as that of a directory; the root ``b""`` stays."""
    return path + b"/" if path and not path.endswith(b"/") else path


def check_path(path: bytes, *, allow_empty: bool = False) -> None:
    """Reject an impossible path.

    Raises:
        UsageError: an empty path, or one over 1,024 bytes.
    """
    if not path and not allow_empty:
        raise UsageError("an object's path cannot be empty")
    if len(path) > MAX_PATH_SIZE:
        shown = os.fsdecode(path[:40])
        raise UsageError(
            f"path of {len(path)} bytes is too long: {shown!r}…",
            hint=f"a path has at most {MAX_PATH_SIZE} bytes",
        )
