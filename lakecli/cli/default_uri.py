"""What a command means without a URI: the linked directory, or the default that `use` has set.

A word that is no URI is a ref of that repository, or a file of the directory, where a command takes
one. `--base-uri` and the setting `base_uri` come first, as ever.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lakecli.base import uri
from lakecli.base.layout import REPOSITORY
from lakecli.base.uri import SCHEME, LakeUri, is_namespace
from lakecli.errors import NotFound, UsageError
from lakecli.repository.reading.view import resolve_ref

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.cli.context import Context
    from lakecli.worktree.link import Link


def absolute(directory: str) -> Path:
    """Return the absolute path of a directory as it was typed."""
    from pathlib import Path

    return Path(os.path.abspath(directory))  # noqa: PTH100 - `resolve` would follow links


def relative_path(directory: Path, file: str) -> bytes:
    """Return the path of a file below a working directory, ``b""`` for the directory itself.

    Raises:
        UsageError: it is not below the directory.
    """
    path = absolute(file)
    for root in (directory, directory.resolve()):
        if path.is_relative_to(root):
            relative = os.fsencode(path.relative_to(root))
            return b"" if relative == b"." else relative
    raise UsageError(f"{file} is not below {directory}", hint="name a file of the directory")


def linked(context: Context) -> tuple[Path, Link] | None:
    """Return the linked directory of this one and its link; ``None`` if there is none.

    With a base URI that was typed or set, URIs are meant, and no directory.
    """
    from pathlib import Path

    from lakecli.worktree.link import find_root, read_link

    root = None if context.base_uri else find_root(Path.cwd())
    link = None if root is None else read_link(root, trust=context.settings.local_trust)
    return None if root is None or link is None else (root, link)


def takes_namespace(text: str, context: Context) -> bool:
    """Tell whether a command that reads in place takes a text as the URI of a storage namespace.

    In a linked directory, a text without a scheme is one only if a namespace is before its ``@``.
    """
    if not is_namespace(text):
        text = context.base_uri + text
    if not text.startswith("/"):
        return is_namespace(text)
    namespace, at, _ = text.partition("@")
    if os.path.isfile(f"{namespace.replace('%40', '@')}/{REPOSITORY}"):  # noqa: PTH113
        return True
    return bool(at) and linked(context) is None


def base(text: str, context: Context) -> str:
    """Return what to put before a word so that it is a URI: the base URI, else the repository."""
    if text.startswith(SCHEME) or context.base_uri:
        return context.base_uri
    found = _default(context)
    # A scheme that is not ours is a mistake, and no ref.
    return "" if found is None or ":/" in text else f"{SCHEME}{found.repository}/"


def _default(context: Context) -> LakeUri | None:
    """Return repository and ref of the linked directory, else what `use` has set."""
    found = linked(context)
    if found is not None:
        return LakeUri(found[1].src.repository, found[1].ref)
    used = context.settings.used
    return None if used is None else uri.parse(used)


def in_default(text: str, context: Context) -> str | None:
    """Return the URI that a word most likely means in the default repository, if there is one."""
    found = _default(context)
    if found is None:
        return None
    ref = found.ref or ""
    is_of_ref = not ref or text == ref or text.startswith(f"{ref}/")
    return f"{SCHEME}{found.repository}/{text if is_of_ref else f'{ref}/{text}'}"


def repository_here(given: LakeUri | None, context: Context) -> LakeUri:
    """Return the repository that was given, or the one that is meant without a URI.

    Raises:
        UsageError: none was given, and none is meant.
    """
    return LakeUri(given.repository) if given is not None else LakeUri(_meant(context).repository)


def ref_here(given: LakeUri | None, context: Context) -> LakeUri:
    """Return the ref that was given, or the one that is meant without a URI.

    Where `use` has set a repository only, its default branch is meant.

    Raises:
        UsageError: none was given, and none is meant.
    """
    if given is not None:
        return given
    meant = _meant(context)
    if meant.ref is None:
        branch = context.repository(meant).record.default_branch
        return LakeUri(meant.repository, branch)
    return meant


def repository_or_ref_here(given: LakeUri | None, context: Context) -> LakeUri:
    """Return the repository or ref that was given, or what is meant without a URI.

    Raises:
        UsageError: none was given, and none is meant.
    """
    return _meant(context) if given is None else given


def _meant(context: Context) -> LakeUri:
    found = _default(context)
    if found is None:
        raise UsageError(
            "no URI, no linked directory and no default repository",
            hint="name a repository or ref: lakefs://REPOSITORY[/REF]; or set a default: "
            "lakecli use lakefs://REPOSITORY",
        )
    return found


def read_ref_or_file(text: str, context: Context) -> LakeUri:
    """Read a URI, or in a linked directory a ref or the name of a file.

    What is a ref of the repository is a ref, unless it is written like ``./main``.
    """
    return existing_file_uri(text, context) or _read_uri(text, context)


def read_file_or_prefix(text: str, context: Context) -> LakeUri:
    """Read the URI of a path, or in a linked directory the name of a file."""
    found = file_uri(text, context)
    return found or uri.parse_path(text, base=base(text, context), allow_empty=True)


def existing_file_uri(text: str, context: Context) -> LakeUri | None:
    """Return the URI of a file as `file_uri` does, but refuse a word that may be a mistyped ref.

    Raises:
        NotFound: the word is no ref, is not written as a file, and there is no such file.
    """
    found = file_uri(text, context)
    if found is not None and "/" not in text and not os.path.lexists(text):
        raise NotFound(
            f"neither a ref of {SCHEME}{found.repository} nor a file: {text!r}",
            hint=f"list refs: lakecli branch list, lakecli tag list; a deleted file: ./{text}",
        )
    return found


def file_uri(text: str, context: Context) -> LakeUri | None:
    """Return the URI of a file of a linked directory; ``None`` if the word is no file of one."""
    if text.startswith(SCHEME) or ":/" in text:
        return None
    found = linked(context)
    if found is None:
        return None
    root, link = found
    is_written_as_file = text.startswith(("./", "../", "/")) or text in {".", ".."}
    if not is_written_as_file and _is_ref(text, link, context):
        return None
    relative = relative_path(root, text)
    path = link.prefix + relative
    if os.path.isdir(text) and path and not path.endswith(b"/"):  # noqa: PTH112 - as it was typed
        path += b"/"
    return LakeUri(link.src.repository, link.ref, path)


def _is_ref(text: str, link: Link, context: Context) -> bool:
    from lakecli.refs.expression import split_range

    repository = context.repository(link.src)
    try:
        span = split_range(text)
        with repository.lake.kv.read() as txn:
            for each in (text,) if span is None else (span[0], span[2]):
                resolve_ref(repository, txn, each)
    except (NotFound, UsageError):
        return False
    return True


def _read_uri(text: str, context: Context) -> LakeUri:
    start = base(text, context)
    if uri.parse(text, base=start).path:
        return uri.parse_path(text, base=start)
    return uri.parse_ref(text, base=start)
