"""Parse ``lakefs://repository/ref/path`` literally: nothing is decoded or cut off.

Percent signs, ``?``, ``#``, spaces and newlines are ordinary characters of a path, unlike in
lakectl, where ``fs rm lakefs://r/main/a#1`` deletes ``a``.

A repository that is read without a clone is named by its storage namespace::

    NAMESPACE@REF/PATH               s3://bucket/sales@main/orders.csv
    NAMESPACE[@]                     all of the repository
    lakefs://NAMESPACE@REF/PATH      the same, with the scheme that makes fsspec use lakecli

The first ``@`` ends the namespace. An ``@`` inside the namespace is written ``%40``; in a ref or a
path it is an ordinary character: ``s3://bucket/sales@main~2/a@b``.
"""

import os
import re
from shlex import quote
from typing import NamedTuple

from lakecli.base.model import MAX_PATH_SIZE, is_repository_name
from lakecli.errors import UsageError, without_passwords

SCHEME = "lakefs://"
_OF_FILES = "files of this machine: `fs upload FILE REPOSITORY/BRANCH/`"
_NO_URI = f"write {SCHEME}REPOSITORY[/REF[/PATH]], or set a default repository: `use REPOSITORY`"

_NAMESPACE = (
    r"(?:(?:s3|gs|az|local|file|memory)://[^@]|https://[^@/]+\.blob\.core\.windows\.net/|/)"
)
_ENCODED = "%40"


class LakeUri(NamedTuple):
    """A parsed URI.

    Attributes:
        repository: a repository's name, or its storage namespace if it is read without a clone.
        ref: a ref expression as typed, or ``None`` if the URI has none.
        path: the path of an object or a prefix; ``None`` if the URI has none, and ``b""`` for
            ``lakefs://r/main/``.
    """

    repository: str
    ref: str | None = None
    path: bytes | None = None

    @property
    def namespace(self) -> str | None:
        """The storage namespace if the repository is read without a clone, else ``None``."""
        return self.repository if "/" in self.repository else None

    def __str__(self) -> str:
        """Return the URI; the inverse of `parse`."""
        if self.namespace is None:
            text, mark = SCHEME + self.repository, "/"
        else:
            text, mark = self.namespace.replace("@", _ENCODED), "@"
        if self.ref is not None:
            text += mark + self.ref
        if self.path is not None:
            text += "/" + os.fsdecode(self.path)
        return text


def is_namespace(text: str) -> bool:
    """Return whether a text begins like the URI of a storage namespace."""
    return re.match(_NAMESPACE, text, re.IGNORECASE) is not None


def without_scheme(text: str) -> str:
    """Remove ``lakefs://`` in front of the URI of a namespace; return any other text unchanged."""
    rest = text.removeprefix(SCHEME)
    return rest if is_namespace(rest) and not rest.startswith("/") else text


def split_namespace(text: str) -> tuple[str, str]:
    """Split ``NAMESPACE@REF/PATH`` into the namespace and ``REF/PATH``."""
    namespace, _, rest = text.partition("@")
    if not namespace.lower().startswith("https:"):  # an https: URL is decoded when it is parsed
        namespace = namespace.replace(_ENCODED, "@")
    return namespace.rstrip("/"), rest


def check_no_password(text: str) -> None:
    """Refuse a URI that contains a user name and a password, because the URI would be recorded.

    Raises:
        UsageError: the URI has a user name and a password; the message does not show them.
    """
    if without_passwords(text) != text:
        hint = "credentials are those of the cloud's own tools: `help clouds`"
        raise UsageError(f"a user name and a password in the URI {text!r}", hint=hint)


class NotUri(UsageError):
    """A text is not a ``lakefs://`` URI.

    Attributes:
        text: the text, as typed.
    """

    def __init__(self, text: str, *, hint: str) -> None:
        super().__init__(f"not a lakefs:// URI: {text!r}", hint=hint)
        self.text = text


def parse(text: str, *, base: str = "", anywhere: bool = False) -> LakeUri:
    """Parse a repository, ref or path URI.

    Args:
        text: the URI as typed. A path may contain any bytes; undecodable ones are surrogates.
        base: a prefix for a text that is not a URI, added unchanged.
        anywhere: whether the repository may be named by its storage namespace.

    Raises:
        UsageError: the text is not a ``lakefs://`` URI, or the repository's name is illegal.
    """
    text = without_scheme(text)
    is_uri = text.startswith(SCHEME) or (anywhere and is_namespace(text))
    full = text if is_uri else base + text
    check_no_password(full)
    if anywhere and is_namespace(full):
        repository, rest = split_namespace(full)
    elif full.startswith(SCHEME):
        repository, _, rest = full[len(SCHEME) :].partition("/")
        if not is_repository_name(repository):
            hint = "3 to 63 of a-z, 0-9 and '-', not starting with '-'"
            raise UsageError(f"illegal repository name {repository!r} in {full!r}", hint=hint)
    else:
        raise NotUri(text, hint=_meant(full) or _NO_URI)
    if not rest:
        return LakeUri(repository)
    ref, slash, path = rest.partition("/")
    if slash and "@{" in ref and "}" not in ref:
        hint = "write a date as in lakefs://REPOSITORY/main@{2026-11-01 10:00}/PATH"
        raise UsageError(f"no '/' inside the braces of a ref: {full!r}", hint=hint)
    if not ref:
        raise UsageError(f"no ref before the path in {full!r}", hint="lakefs://REPOSITORY/REF/PATH")
    return LakeUri(repository, ref, os.fsencode(path) if slash else None)


def _meant(text: str) -> str | None:
    """Return a hint for a text that is not a ``lakefs://`` URI, or ``None`` if no hint fits."""
    scheme, colon, rest = text.partition(":")
    if colon and scheme.lower() == "lakefs":
        return f"did you mean {SCHEME}{rest.lstrip('/')}?"
    if is_namespace(text) and "@" in text:
        namespace = text.partition("@")[0].rstrip("/")
        name = namespace.rpartition("/")[2]
        name = name if is_repository_name(name) else "NAME"
        return f"this command needs a clone: `clone {quote(namespace)} {SCHEME}{name}`"
    is_uri = bool(colon) and rest.startswith("//")
    if text.startswith(("/", ".", "~")) or (is_uri and scheme.lower() in ("file", "local")):
        return _OF_FILES
    if is_uri:
        return f"objects of a bucket: `import --from {quote(text)} --to REPOSITORY/BRANCH/`"
    return None


def parse_repository(text: str, *, base: str = "", anywhere: bool = False) -> LakeUri:
    """Parse a URI that names a repository only."""
    uri = parse(text, base=base, anywhere=anywhere)
    if uri.ref is not None:
        hint = str(LakeUri(uri.repository))
        raise UsageError(f"expected a repository, got the ref {uri.ref!r} too: {text!r}", hint=hint)
    return uri


def parse_ref(text: str, *, base: str = "", anywhere: bool = False) -> LakeUri:
    """Parse a URI that names a ref expression; a trailing slash is allowed."""
    uri = parse(text, base=base, anywhere=anywhere)
    if uri.ref is None:
        raise _no_ref(uri, text, _form(uri, "REF"))
    uri = _joined(uri)
    ref = ref_of(uri)
    if uri.path:
        raise UsageError(
            f"expected a ref, got a path too: {text!r}",
            hint=f"the ref: {_form(uri, ref)}; a new name has no '/': "
            + _form(uri, f"{ref}-{os.fsdecode(uri.path).strip('/').replace('/', '-')}"),
        )
    return LakeUri(uri.repository, ref)


def _joined(uri: LakeUri) -> LakeUri:
    """Convert two URIs joined by ``..`` or ``...`` to one URI whose ref is a range of refs.

    Any other URI is returned unchanged.
    """
    ref = ref_of(uri)
    if not ref.endswith(f"..{SCHEME[:-2]}"):
        return uri
    other, _, right = os.fsdecode(uri.path or b"").lstrip("/").partition("/")
    if other != uri.repository:
        raise UsageError(f"not of the same repository: {uri}", hint="a repository has its own refs")
    return LakeUri(uri.repository, ref.removesuffix(SCHEME[:-2]) + right)


def _form(uri: LakeUri, ref: str) -> str:
    """Return the text of a URI for a ref in the repository of `uri`."""
    return str(LakeUri(uri.repository, ref))


def _no_ref(uri: LakeUri, text: str, form: str) -> UsageError:
    if uri.namespace is None:
        return UsageError(f"no ref in {text!r}", hint=f"{form}, as {form.replace('REF', 'main')}")
    there = "to read a repository without a clone: NAMESPACE@REF/PATH"
    hint = "\n  ".join(filter(None, (_meant(text), there)))
    return UsageError(f"not a lakefs:// URI: {text!r}", hint=hint)


def ref_of(uri: LakeUri) -> str:
    """Return the ref of a URI that `parse_ref` or `parse_path` returned."""
    assert uri.ref is not None, uri
    return uri.ref


def parse_path(
    text: str, *, base: str = "", allow_empty: bool = False, anywhere: bool = False
) -> LakeUri:
    """Parse a URI that names an object, or with `allow_empty` a prefix.

    Raises:
        UsageError: the text is not such a URI, or the path is longer than 1,024 bytes.
    """
    uri = parse(text, base=base, anywhere=anywhere)
    if uri.ref is None:
        raise _no_ref(uri, text, f"{_form(uri, 'REF')}/PATH")
    if uri.path is None and allow_empty:
        return LakeUri(uri.repository, uri.ref, b"")
    if not uri.path and not allow_empty:
        raise UsageError(f"no path in {text!r}", hint=f"{_form(uri, uri.ref)}/PATH")
    check_path(uri.path or b"", allow_empty=allow_empty)
    return uri


def path_of(uri: LakeUri, *, hint: str | None = None) -> bytes:
    """Return the path of a URI that must name one object.

    Raises:
        UsageError: the URI has no path.
    """
    if not uri.path:
        raise UsageError(f"no path in {str(uri)!r}", hint=hint or f"{_form(uri, ref_of(uri))}/PATH")
    return uri.path


def as_directory(path: bytes) -> bytes:
    """Return the path of a directory with a trailing slash; the root ``b""`` is unchanged."""
    return path + b"/" if path and not path.endswith(b"/") else path


def check_path(path: bytes, *, allow_empty: bool = False) -> None:
    """Refuse a path that is too long, or empty.

    Raises:
        UsageError: the path is longer than 1,024 bytes, or is empty and `allow_empty` is false.
    """
    if not path and not allow_empty:
        raise UsageError("an object's path cannot be empty")
    if len(path) > MAX_PATH_SIZE:
        shown = os.fsdecode(path[:40])
        hint = f"a path has at most {MAX_PATH_SIZE} bytes"
        raise UsageError(f"path of {len(path)} bytes is too long: {shown!r}…", hint=hint)
