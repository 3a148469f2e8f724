"""Parsers of argument and option text, and the defaults for missing or abbreviated URIs.

A parameter is declared with one of these functions as its ``read``. The parsers of URIs come first,
then the functions for defaults. If no URI is given, the default is the ref of the linked
directory, or the repository or ref that `use` has set. A word that is not a URI is a ref of the
default repository or, in some commands, a file of the linked directory. `--base-uri` and the
setting `base_uri` always have precedence.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from shlex import quote
from typing import TYPE_CHECKING, Final, TypeVar

from lakecli.base import uri
from lakecli.base.directories import linked_root
from lakecli.base.layout import REPOSITORY
from lakecli.base.uri import SCHEME, LakeUri, is_namespace
from lakecli.cli.tree import READ_IN_PLACE
from lakecli.errors import NotFound, UsageError
from lakecli.settings.keys import parse_duration, parse_size

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.cli.context import Context
    from lakecli.worktree.link import Link

T = TypeVar("T")


class Side(StrEnum):
    """The side that wins conflicts."""

    SOURCE_WINS = "source-wins"
    DEST_WINS = "dest-wins"


def read_repository(text: str, context: Context) -> LakeUri:
    """Parse a URI that names a repository; a trailing slash is allowed."""
    return uri.parse_repository(
        text, base=context.base_uri, anywhere=_takes_namespace(text, context)
    )


def read_ref(text: str, context: Context) -> LakeUri:
    """Parse a URI that names a branch, a tag or a ref expression; a trailing slash is allowed.

    A text without ``lakefs://`` is a ref of the default repository; see `base_of`.
    """
    return uri.parse_ref(
        text, base=base_of(text, context), anywhere=_takes_namespace(text, context)
    )


def read_ref_of(other: LakeUri, text: str, context: Context) -> LakeUri:
    """Parse a ref; a text that is not a URI is a ref in the repository of `other`.

    Args:
        other: another URI on the same command line.
    """
    if "/" in text or context.base_uri:
        return read_ref(text, context)
    return uri.parse_ref(text, base=f"{other._replace(ref=None)}/")


def _takes_namespace(text: str, context: Context) -> bool:
    """Return whether to parse a text as the URI of a storage namespace, to read without a clone.

    Only some commands accept such a URI (`READ_IN_PLACE`). An absolute path counts as such a URI if
    a storage namespace exists at the path before the ``@``; outside a linked directory, every
    absolute path with an ``@`` counts.
    """
    text = uri.without_scheme(text)
    if text.startswith(SCHEME) or context.command not in READ_IN_PLACE:
        return False
    if not is_namespace(text):
        text = context.base_uri + text
    if not text.startswith("/"):
        return is_namespace(text)
    namespace, at, _ = text.partition("@")
    if os.path.isfile(f"{namespace.replace('%40', '@')}/{REPOSITORY}"):  # noqa: PTH113
        return True
    return bool(at) and linked(context) is None


def _is_uri(text: str, context: Context) -> bool:
    return text.startswith(SCHEME) or _takes_namespace(text, context)


def base_of(text: str, context: Context) -> str:
    """Return the prefix that turns a word into a URI: the base URI, else the default repository.

    Without a base URI, the prefix is ``""`` if there is no default repository, or if the word is
    already a URI, of whatever scheme.
    """
    if text.startswith(SCHEME) or context.base_uri or _takes_namespace(text, context):
        return context.base_uri
    found = _default(context)
    # Text with another scheme is a mistake, not a ref.
    return "" if found is None or ":/" in text else f"{SCHEME}{found.repository}/"


def read_ref_or_file(text: str, context: Context) -> LakeUri:
    """Parse a URI of a ref or path; in a linked directory, also accept a ref or the name of a file.

    A word that is both a ref and a file counts as a ref; ``./main`` always names a file.
    """
    found = None if _is_uri(text, context) else existing_file_uri(text, context)
    if found is not None:
        return found
    base, anywhere = base_of(text, context), _takes_namespace(text, context)
    has_path = uri.parse(text, base=base, anywhere=anywhere).path
    parse = uri.parse_path if has_path else uri.parse_ref
    return parse(text, base=base, anywhere=anywhere)


def read_ref_or_own_file(text: str, context: Context) -> LakeUri:
    """Parse a URI of a ref; in a linked directory, also accept a ref or the name of a file.

    The resulting URI has a path if the word is a file, and none if the word is a ref.
    """
    found = None if _is_uri(text, context) else existing_file_uri(text, context)
    return found or read_ref(text, context)


def read_prefix_or_file(text: str, context: Context) -> LakeUri:
    """Parse a URI of a path; in a linked directory, also accept the name of a file."""
    if _is_uri(text, context):
        return read_prefix(text, context)
    base = base_of(text, context)
    return file_uri(text, context) or uri.parse_path(text, base=base, allow_empty=True)


def read_branch(text: str, context: Context) -> LakeUri:
    """Parse a URI of a branch; refuse modifiers and invalid names."""
    return _on_branch(read_ref(text, context))


def _on_branch(parsed: LakeUri) -> LakeUri:
    """Return the URI unchanged; refuse a URI whose ref is not a valid name of a branch."""
    from lakecli.refs.names import check_branch_name, is_branch_name, is_tag_name

    ref = uri.ref_of(parsed)
    base = ref
    for sign in "~^@$":
        base = base.partition(sign)[0]
    at = f"{SCHEME}{parsed.repository}"
    start = f"lakecli branch create {at}/NAME -s"
    if base != ref and is_branch_name(base):
        raise UsageError(
            f"expected a branch, got the ref expression {ref!r}",
            hint=f"the branch: {at}/{base}\n  a new branch there: {start} {at}/{ref}",
        )
    try:
        check_branch_name(ref)
    except UsageError as error:
        if not is_tag_name(ref):
            raise
        raise UsageError(
            error.message,
            hint=f"{error.hint}\n  a new branch at a tag: {start} {quote(f'{at}/{ref}')}",
        ) from None
    return parsed


def read_tag(text: str, context: Context) -> LakeUri:
    """Parse a URI of a tag; refuse modifiers and invalid names."""
    from lakecli.refs.names import check_tag_name

    parsed = read_ref(text, context)
    check_tag_name(uri.ref_of(parsed))
    return parsed


def read_repository_or_ref(text: str, context: Context) -> LakeUri:
    """Parse a URI of a repository, branch or tag; refuse modifiers and invalid names."""
    parsed = uri.parse(text, base=base_of(text, context))
    if parsed.ref is None:
        return parsed
    from lakecli.refs.names import check_branch_name, is_tag_name

    parsed = read_ref(text, context)
    if not is_tag_name(uri.ref_of(parsed)):
        check_branch_name(uri.ref_of(parsed))
    return parsed


def read_repository_or_expression(text: str, context: Context) -> LakeUri:
    """Parse a URI of a repository or of a ref expression, or a text that `read_ref` accepts."""
    parsed = uri.parse(text, base=base_of(text, context), anywhere=_takes_namespace(text, context))
    return parsed if parsed.ref is None else read_ref(text, context)


def read_path(text: str, context: Context) -> LakeUri:
    """Parse a URI that names an object."""
    return _read_path(text, context, allow_empty=False)


def read_prefix(text: str, context: Context) -> LakeUri:
    """Parse a URI that names a prefix or a whole ref: ``lakefs://r/main`` and ``…/main/``."""
    return _read_path(text, context, allow_empty=True)


def _read_path(text: str, context: Context, *, allow_empty: bool) -> LakeUri:
    """Parse a URI of a path.

    If `text` is not a URI, the hint of the error suggests the same path in the default repository.
    """
    base, anywhere = _base_of_path(text, context), _takes_namespace(text, context)
    try:
        return uri.parse_path(text, base=base, allow_empty=allow_empty, anywhere=anywhere)
    except UsageError as error:
        if ":/" in text or context.base_uri or (meant := _in_default(text, context)) is None:
            raise
        raise UsageError(error.message, hint=f"did you mean {meant}?") from None


def _base_of_path(text: str, context: Context) -> str:
    """Return the prefix that turns a text with a path into a URI.

    In a command that only reads, ``main/a`` is a path in the repository that `use` has set.
    """
    own = context.base_uri
    reads = context.command in READ_IN_PLACE
    base = base_of(text, context) if reads and "/" in text else own
    if base == own or linked(context) is not None:
        return own
    return base if is_ref(text.partition("/")[0], uri.parse(base), context) else own


def read_branch_prefix(text: str, context: Context) -> LakeUri:
    """Parse a URI that names a path on a branch, or a whole branch."""
    return _on_branch(read_prefix(text, context))


def linked(context: Context) -> tuple[Path, Link] | None:
    """Return the linked directory that contains the current directory, and its link.

    Returns:
        The directory and its link; ``None`` if there is no linked directory, or if a base URI is
        set, because no word then names a file of a directory.
    """
    try:
        found = None if context.base_uri else linked_root(os.getcwd())  # noqa: PTH109
    except FileNotFoundError:  # the current directory was deleted
        return None
    if found is None:
        return None
    from pathlib import Path

    from lakecli.worktree.link import read_link

    root = Path(os.fsdecode(found))
    link = read_link(root, trust=context.settings.local_trust)
    return None if link is None else (root, link)


def _default(context: Context) -> LakeUri | None:
    """Return the URI of the linked directory's ref; else the URI that `use` has set."""
    found = linked(context)
    if found is not None:
        return LakeUri(found[1].src.repository, found[1].ref)
    used = context.settings.used
    return None if used is None else uri.parse(used)


def _in_default(text: str, context: Context) -> str | None:
    """Return the URI that a word probably means; ``None`` if there is no default repository."""
    found = _default(context)
    if found is None:
        return None
    ref = found.ref or ""
    is_of_ref = not ref or is_ref(text.partition("/")[0], found, context)
    return f"{SCHEME}{found.repository}/{text if is_of_ref else f'{ref}/{text}'}"


def repository_here(given: LakeUri | None, context: Context) -> LakeUri:
    """Return the repository that was given, or the default repository.

    Raises:
        UsageError: no repository was given, and there is no default.
    """
    return LakeUri(_meant(context).repository) if given is None else given


def ref_here(given: LakeUri | None, context: Context) -> LakeUri:
    """Return the ref that was given, or the default ref.

    If `use` has set only a repository, the default ref is the repository's default branch.

    Raises:
        UsageError: no ref was given, and there is no default.
    """
    if given is not None:
        return given
    meant = _meant(context)
    if meant.ref is None:
        branch = context.repository(meant).record.default_branch
        return LakeUri(meant.repository, branch)
    return meant


def repository_or_ref_here(given: LakeUri | None, context: Context) -> LakeUri:
    """Return the repository or ref that was given, or the default.

    Raises:
        UsageError: neither was given, and there is no default.
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


def existing_file_uri(text: str, context: Context) -> LakeUri | None:
    """Return the URI of a file as `file_uri` does, but refuse a word that may be a mistyped ref.

    Raises:
        NotFound: the word has no slash and is neither a ref nor an existing file.
    """
    found = file_uri(text, context)
    if found is not None and "/" not in text and not os.path.lexists(text):
        raise NotFound(
            f"neither a ref of {SCHEME}{found.repository} nor a file: {text!r}",
            hint=f"list refs: lakecli branch list, lakecli tag list; a deleted file: ./{text}",
        )
    return found


def file_uri(text: str, context: Context) -> LakeUri | None:
    """Return the URI of a file in a linked directory.

    Returns:
        The URI; ``None`` if the word is a URI or a ref, or if the current directory is not linked.
    """
    if text.startswith(SCHEME) or ":/" in text:
        return None
    found = linked(context)
    if found is None:
        return None
    root, link = found
    is_written_as_file = text.startswith(("./", "../", "/")) or text in {".", ".."}
    if not is_written_as_file and is_ref(text, link.src, context):
        return None
    path = link.prefix + relative_path(root, text)
    if os.path.isdir(text) and path and not path.endswith(b"/"):  # noqa: PTH112 - text as typed
        path += b"/"
    return LakeUri(link.src.repository, link.ref, path)


def is_ref(text: str, of: LakeUri, context: Context) -> bool:
    """Return whether a text is a ref, or a range of two refs, in the repository of the URI `of`."""
    from lakecli.refs.expression import split_range
    from lakecli.repository.reading.view import resolve_ref

    try:
        repository, span = context.repository(of._replace(ref=None)), split_range(text)
        with repository.lake.kv.read() as txn:
            for each in (text,) if span is None else (span[0], span[2]):
                resolve_ref(repository, txn, each)
    except (NotFound, UsageError):
        return False
    return True


def relative_path(directory: Path, file: str) -> bytes:
    """Return the path of a file below a working directory, ``b""`` for the directory itself.

    Raises:
        UsageError: the file is not below the directory.
    """
    path = absolute(file)
    for root in (directory, directory.resolve()):
        if path.is_relative_to(root):
            relative = os.fsencode(path.relative_to(root))
            return b"" if relative == b"." else relative
    raise UsageError(f"{file} is not below {directory}", hint="name a file of the directory")


def absolute(directory: str) -> Path:
    """Return the absolute path of a directory, without resolving symbolic links."""
    from pathlib import Path

    return Path(os.path.abspath(directory))  # noqa: PTH100 - `resolve` would follow links


def each(read: Callable[[str, Context], T]) -> Callable[[list[str], Context], list[T]]:
    """Return a parser of several values, each parsed by `read`."""
    return lambda texts, context: [read(text, context) for text in texts]


def read_metadata(texts: list[str], _context: Context) -> Mapping[str, str]:
    """Parse the values of ``--meta``: pairs in CSV, each split at its first ``=``.

    Raises:
        UsageError: a pair has no ``=`` or no key.
    """
    metadata: dict[str, str] = {}
    for text in texts:
        for pair in split_csv(text):
            key, value = _split_pair(
                pair, hint="--meta key=value, or --meta '\"key=a,b\"' for a value with a comma"
            )
            metadata[key] = value
    return metadata


def read_new_metadata(texts: list[str], context: Context) -> Mapping[str, str]:
    """Parse the values of an option whose metadata replaces all old metadata; ``""`` removes it.

    Raises:
        UsageError: a pair has no ``=`` or no key.
    """
    return read_metadata([text for text in texts if text], context)


def read_conf(texts: list[str], _context: Context) -> Mapping[str, str]:
    """Parse the values of ``--conf``: each is a pair, split at its first ``=``, as in spark-submit.

    Raises:
        UsageError: a pair has no ``=`` or no key.
    """
    return dict(_split_pair(text, hint="--conf spark.executor.memory=4g") for text in texts)


def _split_pair(text: str, *, hint: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(f'invalid key/value pair {text!r}: should be separated by "="', hint=hint)
    return key, value


def read_list(texts: list[str], _context: Context) -> list[str]:
    """Parse the values of a repeatable option; each value is a comma-separated list in CSV."""
    return [item for text in texts for item in split_csv(text)]


def split_csv(text: str) -> list[str]:
    """Split a value at commas outside of double quotes, as lakectl does.

    Raises:
        UsageError: a quote is malformed.
    """
    if '"' not in text:
        return text.split(",")
    import csv

    try:
        (row,) = csv.reader([text], strict=True)
    except (csv.Error, ValueError):
        raise UsageError(
            f"malformed quotes in {text!r}", hint="put quotes directly after and before a comma"
        ) from None
    return row


def read_time(text: str, context: Context) -> datetime:
    """Parse a time, written in any form that is valid in ``main@{…}``.

    Raises:
        UsageError: the text is not such a time.
    """
    from lakecli.refs.expression import parse_when

    return parse_when(text, context.now())


def moment(seconds: int) -> datetime:
    """Return the time that a number of seconds after 1970 means.

    Raises:
        UsageError: the time is too late or too early.
    """
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        raise UsageError(f"not a time in unix seconds: {seconds}") from None


def read_patterns(texts: list[str], _context: Context) -> list[re.Pattern[str]]:
    """Parse the values of a repeatable option; each value is a regular expression.

    Raises:
        UsageError: an expression is malformed.
    """
    patterns = []
    for text in texts:
        try:
            patterns.append(re.compile(text, re.MULTILINE))
        except (re.error, OverflowError, RecursionError) as error:
            raise UsageError(
                f"malformed regular expression {text!r}: {error}",
                hint="put a backslash before a special character: \\( \\[ \\* \\+ \\?",
            ) from None
    return patterns


def read_size(text: str, _context: Context) -> int:
    """Parse a size such as ``500``, ``10kB``, ``1.5GB`` or ``10GiB``."""
    return parse_size(text)


def read_duration(text: str, _context: Context) -> timedelta:
    """Parse a duration such as ``90s``, ``30m``, ``12h`` or ``7d``."""
    return parse_duration(text)


def check_message(message: str, *, allow_empty: bool) -> None:
    """Refuse a message that is empty or blank, unless `allow_empty` is true.

    Raises:
        UsageError: the message is empty or blank.
    """
    if not allow_empty and not message.strip():
        raise UsageError("no commit message", hint='give -m "MESSAGE", or --allow-empty-message')


_SCHEMES: Final = frozenset(
    {
        *("s3", "s3a", "s3n", "gs", "az", "abfs", "abfss", "wasb", "wasbs"),
        *("http", "https", "hdfs", "lakefs", "local", "file"),
    }
)
"""The schemes, in lower case, of URIs that users may type where a file is expected."""


def check_local(path: str | os.PathLike[str], *, hint: str) -> None:
    """Refuse a URI where the name of a local file or directory is expected.

    Without this check, a directory called ``s3:`` would be created.

    Raises:
        UsageError: `path` is a URI; the hint names the command that accepts URIs.
    """
    text = os.fspath(path)
    scheme, _, rest = text.partition(":")
    scheme = scheme.lower()
    if scheme in _SCHEMES and rest.startswith("/") and rest.strip("/"):
        if scheme in {"local", "file"}:
            hint = "give the path without the scheme"
        elif scheme == "lakefs":
            hint = "from a branch to a branch: `fs cp PATH DEST`; to files: `fs download PATH FILE`"
        raise UsageError(f"not a path on this machine: {text}", hint=hint)
