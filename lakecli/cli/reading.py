"""How typed text becomes the value of a parameter, and what a parameter names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lakecli.base import uri
from lakecli.base.uri import LakeUri
from lakecli.cli.tree import READ_IN_PLACE
from lakecli.errors import UsageError
from lakecli.settings.keys import parse_duration, parse_size

if TYPE_CHECKING:
    from lakecli.cli.context import Context

T = TypeVar("T")

NO_METADATA: Final[Mapping[str, str]] = MappingProxyType({})


class Side(StrEnum):
    """The side that wins conflicts."""

    SOURCE_WINS = "source-wins"
    DEST_WINS = "dest-wins"


class Kind(StrEnum):
    """The kind of name that a word on the command line is, for completion."""

    REPOSITORY = "repository"
    BRANCH = "branch"
    TAG = "tag"
    REF = "ref"
    PATH = "path"
    REF_OR_FILE = "ref-or-file"
    REF_OR_OWN_FILE = "ref-or-own-file"
    PATH_OR_FILE = "path-or-file"
    FILE_OF_REF = "file-of-ref"
    FILE = "file"
    DIRECTORY = "directory"
    OPERATION = "operation"
    SETTING = "setting"
    COMMAND = "command"
    NOTHING = "nothing"


class EngineName(StrEnum):
    """Where bulk work runs."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


class Parser:
    """Marks how typed text becomes a parameter's value.

    Typer's own ``parser=`` sees the text only. This one gets the context too, because a URI depends
    on ``--base-uri`` and the settings, which may come after the URI on the command line.

    Args:
        read: called with the text, or with the list of texts of a repeatable parameter, and the
            context; raises `UsageError`. It is not called without a text; the default of the
            function applies.
        kind: the kind of name that the text is.
    """

    __slots__ = ("kind", "read")

    def __init__(self, read: Callable[[Any, Context], object], kind: Kind | None = None) -> None:
        self.read = read
        self.kind = kind


def read_repository(text: str, context: Context) -> LakeUri:
    """Read a URI that names a repository; a trailing slash is allowed."""
    return uri.parse_repository(
        text, base=context.base_uri, anywhere=_takes_namespace(text, context)
    )


def read_ref(text: str, context: Context) -> LakeUri:
    """Read a URI that names a branch, a tag or a ref expression; a trailing slash is allowed.

    Without ``lakefs://`` it is a ref of the repository that is meant here, see `default_uri`.
    """
    return uri.parse_ref(
        text, base=base_of(text, context), anywhere=_takes_namespace(text, context)
    )


def read_ref_of(other: LakeUri, text: str, context: Context) -> LakeUri:
    """Read a ref; one that is no URI is of the same repository as another URI of the line."""
    if "/" in text or context.base_uri:
        return read_ref(text, context)
    return uri.parse_ref(text, base=f"{other._replace(ref=None)}/")


def _takes_namespace(text: str, context: Context) -> bool:
    """Tell whether the command takes a text as the URI of a storage namespace."""
    if text.startswith(uri.SCHEME) or context.command not in READ_IN_PLACE:
        return False
    from lakecli.cli.default_uri import takes_namespace

    return takes_namespace(text, context)


def _is_uri(text: str, context: Context) -> bool:
    return text.startswith(uri.SCHEME) or _takes_namespace(text, context)


def base_of(text: str, context: Context) -> str:
    """Return what to put before the text of a ref to make it a URI."""
    if text.startswith("lakefs://"):
        return ""
    if _takes_namespace(text, context):
        return context.base_uri
    from lakecli.cli.default_uri import base

    return base(text, context)


def read_ref_or_file(text: str, context: Context) -> LakeUri:
    """Read a URI of a ref or path; in a linked directory a ref, or the name of a file."""
    if _is_uri(text, context):
        return read_ref_or_path(text, context)
    from lakecli.cli import default_uri as here

    return here.read_ref_or_file(text, context)


def read_ref_or_own_file(text: str, context: Context) -> LakeUri:
    """Read a URI of a ref; in a linked directory a ref, or the name of a file, which has a path."""
    if not (_is_uri(text, context)):
        from lakecli.cli.default_uri import existing_file_uri

        found = existing_file_uri(text, context)
        if found is not None:
            return found
    return read_ref(text, context)


def read_prefix_or_file(text: str, context: Context) -> LakeUri:
    """Read a URI of a path; in a linked directory the name of a file."""
    if _is_uri(text, context):
        return read_prefix(text, context)
    from lakecli.cli import default_uri as here

    return here.read_file_or_prefix(text, context)


def read_branch(text: str, context: Context) -> LakeUri:
    """Read a URI that names a branch: a legal name, without modifiers."""
    return _on_branch(read_ref(text, context))


def _on_branch(parsed: LakeUri) -> LakeUri:
    """Refuse a URI whose ref is not a name of a branch."""
    from lakecli.refs.names import check_branch_name, is_branch_name, is_tag_name

    ref = uri.ref_of(parsed)
    base = ref
    for sign in "~^@$":
        base = base.partition(sign)[0]
    at = f"{uri.SCHEME}{parsed.repository}"
    start = f"lakecli branch create {at}/NAME -s {at}/{ref}"
    if base != ref and is_branch_name(base):
        raise UsageError(
            f"expected a branch, got the ref expression {ref!r}",
            hint=f"the branch: {at}/{base}\n  a new branch there: {start}",
        )
    try:
        check_branch_name(ref)
    except UsageError as error:
        if not is_tag_name(ref):
            raise
        raise UsageError(
            error.message, hint=f"{error.hint}\n  a new branch at a tag: {start}"
        ) from None
    return parsed


def read_tag(text: str, context: Context) -> LakeUri:
    """Read a URI that names a tag: a legal name, without modifiers."""
    from lakecli.refs.names import check_tag_name

    parsed = read_ref(text, context)
    check_tag_name(uri.ref_of(parsed))
    return parsed


def read_repository_or_ref(text: str, context: Context) -> LakeUri:
    """Read a URI that names a repository, or a branch or tag of it by a legal name."""
    parsed = uri.parse(text, base=base_of(text, context))
    if parsed.ref is None:
        return parsed
    from lakecli.refs.names import check_branch_name, is_tag_name

    parsed = read_ref(text, context)
    if not is_tag_name(uri.ref_of(parsed)):
        check_branch_name(uri.ref_of(parsed))
    return parsed


def read_repository_or_expression(text: str, context: Context) -> LakeUri:
    """Read a URI that names a repository, or a ref expression of it; or a ref, as `read_ref`."""
    parsed = uri.parse(text, base=base_of(text, context), anywhere=_takes_namespace(text, context))
    return parsed if parsed.ref is None else read_ref(text, context)


def read_ref_or_path(text: str, context: Context) -> LakeUri:
    """Read a URI that names a ref, or a path of it; a trailing slash after the ref is allowed."""
    if uri.parse(text, base=context.base_uri, anywhere=_takes_namespace(text, context)).path:
        return read_path(text, context)
    return read_ref(text, context)


def read_path(text: str, context: Context) -> LakeUri:
    """Read a URI that names an object."""
    with _with_the_default(text, context):
        return uri.parse_path(text, base=context.base_uri, anywhere=_takes_namespace(text, context))


def read_prefix(text: str, context: Context) -> LakeUri:
    """Read a URI that names a prefix, or all of a ref: ``lakefs://r/main`` and ``…/main/``."""
    with _with_the_default(text, context):
        return uri.parse_path(
            text, base=context.base_uri, allow_empty=True, anywhere=_takes_namespace(text, context)
        )


@contextmanager
def _with_the_default(text: str, context: Context) -> Iterator[None]:
    """Let the hint about a word that is no URI name the default repository."""
    try:
        yield
    except UsageError as error:
        from lakecli.cli.default_uri import in_default

        if ":/" in text or context.base_uri or (meant := in_default(text, context)) is None:
            raise
        raise UsageError(error.message, hint=f"did you mean {meant}?") from None


def read_branch_prefix(text: str, context: Context) -> LakeUri:
    """Read a URI that names a path on a branch, or all of the branch."""
    return _on_branch(read_prefix(text, context))


def each(read: Callable[[str, Context], T]) -> Callable[[list[str], Context], list[T]]:
    """Return what reads several texts, each of them by `read`."""
    return lambda texts, context: [read(text, context) for text in texts]


def read_metadata(texts: list[str], _context: Context) -> Mapping[str, str]:
    """Read ``--meta``: pairs split at the first ``=``, several in one value by CSV's rules.

    Raises:
        UsageError: a pair without ``=``, or without a key.
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
    """Read metadata that replaces other metadata: an empty text means none.

    Raises:
        UsageError: a pair without ``=``, or without a key.
    """
    return read_metadata([text for text in texts if text], context)


def read_conf(texts: list[str], _context: Context) -> Mapping[str, str]:
    """Read ``--conf``: one pair in each, split at the first ``=``, as spark-submit does.

    Raises:
        UsageError: a pair without ``=``, or without a key.
    """
    return dict(_split_pair(text, hint="--conf spark.executor.memory=4g") for text in texts)


def _split_pair(text: str, *, hint: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(f'invalid key/value pair {text!r}: should be separated by "="', hint=hint)
    return key, value


def read_list(texts: list[str], _context: Context) -> list[str]:
    """Read a repeatable option with comma-separated values by CSV's rules."""
    return [item for text in texts for item in split_csv(text)]


def split_csv(text: str) -> list[str]:
    """Split one value at commas; double quotes keep a comma, as in lakectl.

    Raises:
        UsageError: an unclosed quote.
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
    """Read a time in one of the forms that ``main@{…}`` takes.

    Raises:
        UsageError: the text is not such a time.
    """
    from lakecli.refs.expression import parse_when

    return parse_when(text, context.now())


def read_patterns(texts: list[str], _context: Context) -> list[re.Pattern[str]]:
    """Read a repeatable option whose values are regular expressions.

    Raises:
        UsageError: one of them is malformed.
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
    """Read ``500``, ``10kB``, ``1.5GB`` or ``10GiB``."""
    return parse_size(text)


def read_duration(text: str, _context: Context) -> timedelta:
    """Read ``90s``, ``30m``, ``12h`` or ``7d``."""
    return parse_duration(text)


def check_message(message: str, *, allow_empty: bool) -> None:
    """Refuse a message that is empty or blank, unless that is allowed.

    Raises:
        UsageError: there is no message.
    """
    if not allow_empty and not message.strip():
        raise UsageError(
            "no commit message",
            hint='give -m "MESSAGE", or --allow-empty-message',
        )
