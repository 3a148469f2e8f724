"""The arguments and options that commands share: what they are called and what they become.

A command's parameter says what type it wants, and which words on the command line it comes from::

    def branch_create(context: Context, branch: BranchUri, *, source: SourceRef) -> None:

`Parser` turns the typed text into that type with the context at hand, since a URI depends on the
base URI, after Typer took the line apart. Names that complete dynamically say so by `Completion`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from lakecli import uri
from lakecli.errors import UsageError
from lakecli.uri import LakeUri

if TYPE_CHECKING:
    from lakecli.cli.context import Context

NO_METADATA: Final[Mapping[str, str]] = MappingProxyType({})
NO_CONF: Final = NO_METADATA


class Side(StrEnum):
    """Which side wins where both changed a path differently."""

    SOURCE_WINS = "source-wins"
    DEST_WINS = "dest-wins"


class Kind(StrEnum):
    """What a word on the command line names, for completion."""

    REPOSITORY = "repository"
    BRANCH = "branch"
    TAG = "tag"
    REF = "ref"
    PATH = "path"
    FILE = "file"
    DIRECTORY = "directory"
    OPERATION = "operation"
    SETTING = "setting"
    NOTHING = "nothing"


class EngineName(StrEnum):
    """What does bulk work."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


class Completion(NamedTuple):
    """Marks what a parameter names."""

    kind: Kind


class ValueIfBare(NamedTuple):
    """Marks an option that may be given without a value, and what it is then.

    With a value it is written ``--option=value``, never ``--option value``.
    """

    value: str


class Parser(NamedTuple):
    """Marks how typed text becomes a parameter's value.

    Attributes:
        read: called with the text, or for a repeatable option with the list of texts, and the
            context; raises `UsageError`. Not called where nothing was typed: the function's own
            default is used.
        repeatable: the option may be given several times.
    """

    read: Callable[[Any, Context], object]
    repeatable: bool = False


def read_repository(text: str, context: Context) -> LakeUri:
    """Read a URI that names a repository; a trailing slash is forgiven."""
    return uri.parse_repository(text, base=context.base_uri)


def read_ref(text: str, context: Context) -> LakeUri:
    """Read a URI that names a branch, a tag or a ref expression; a trailing slash is forgiven."""
    return uri.parse_ref(text, base=context.base_uri)


def read_branch(text: str, context: Context) -> LakeUri:
    """Read a URI that names a branch: a legal name, without modifiers."""
    from lakecli.refs.names import check_branch_name

    parsed = read_ref(text, context)
    check_branch_name(uri.ref_of(parsed))
    return parsed


def read_tag(text: str, context: Context) -> LakeUri:
    """Read a URI that names a tag: a legal name, without modifiers."""
    from lakecli.refs.names import check_tag_name

    parsed = read_ref(text, context)
    check_tag_name(uri.ref_of(parsed))
    return parsed


def read_repository_or_ref(text: str, context: Context) -> LakeUri:
    """Read a URI that names a repository, or a branch or tag of it by a legal name."""
    parsed = uri.parse(text, base=context.base_uri)
    if parsed.ref is None:
        return parsed
    from lakecli.refs.names import check_branch_name, is_tag_name

    parsed = read_ref(text, context)
    if not is_tag_name(uri.ref_of(parsed)):
        check_branch_name(uri.ref_of(parsed))
    return parsed


def read_path(text: str, context: Context) -> LakeUri:
    """Read a URI that names an object."""
    return uri.parse_path(text, base=context.base_uri)


def read_prefix(text: str, context: Context) -> LakeUri:
    """Read a URI that names a prefix, or all of a ref: ``lakefs://r/main`` and ``…/main/``."""
    return uri.parse_path(text, base=context.base_uri, allow_empty=True)


def read_branch_prefix(text: str, context: Context) -> LakeUri:
    """Read a URI that names a path on a branch, or all of the branch."""
    from lakecli.refs.names import check_branch_name

    parsed = read_prefix(text, context)
    check_branch_name(uri.ref_of(parsed))
    return parsed


def read_refs(texts: list[str], context: Context) -> list[LakeUri]:
    """Read URIs that name refs."""
    return [read_ref(text, context) for text in texts]


def read_metadata(texts: list[str], _context: Context) -> Mapping[str, str]:
    """Read ``--meta``: pairs split at the first ``=``, several in one value by CSV's rules.

    Raises:
        UsageError: a pair without ``=``, or without a key.
    """
    metadata: dict[str, str] = {}
    for text in texts:
        for pair in split_csv(text):
            key, equals, value = pair.partition("=")
            if not equals or not key:
                raise UsageError(
                    f'invalid key/value pair {pair!r}: should be separated by "="',
                    hint="--meta key=value, or --meta '\"key=a,b\"' for a value with a comma",
                )
            metadata[key] = value
    return metadata


def read_conf(texts: list[str], _context: Context) -> Mapping[str, str]:
    """Read ``--conf``: one pair in each, split at the first ``=``, as spark-submit does.

    Raises:
        UsageError: a pair without ``=``, or without a key.
    """
    conf: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(
                f'invalid key/value pair {text!r}: should be separated by "="',
                hint="--conf spark.executor.memory=4g",
            )
        conf[key] = value
    return conf


def read_texts(texts: list[str], _context: Context) -> list[str]:
    """Read an option that may be repeated, each value as it is."""
    return texts


def read_list(texts: list[str], _context: Context) -> list[str]:
    """Read an option that may be repeated and holds comma-separated values by CSV's rules."""
    return [item for text in texts for item in split_csv(text)]


def split_csv(text: str) -> list[str]:
    """Split one value at commas; double quotes keep a comma, as in lakectl.

    Raises:
        UsageError: a quote that does not end.
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


def read_time(text: str, _context: Context) -> datetime:
    """Read a time as RFC 3339 writes it; it says how far from UTC it is.

    Raises:
        UsageError: it is none.
    """
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        when = None
    if when is None or when.tzinfo is None:
        raise UsageError(
            f"not a time: {text!r}", hint="as RFC 3339: 2026-03-01T12:00:00Z or …T12:00:00+02:00"
        )
    return when


def read_duration(text: str, _context: Context) -> timedelta:
    """Read ``90s``, ``30m``, ``12h`` or ``7d``."""
    from lakecli.config import parse_duration

    return parse_duration(text)


RepositoryUri = Annotated[
    LakeUri,
    typer.Argument(metavar="REPOSITORY", help="lakefs://REPOSITORY"),
    Parser(read_repository),
    Completion(Kind.REPOSITORY),
]
BranchUri = Annotated[
    LakeUri,
    typer.Argument(metavar="BRANCH", help="lakefs://REPOSITORY/BRANCH"),
    Parser(read_branch),
    Completion(Kind.BRANCH),
]
TagUri = Annotated[
    LakeUri,
    typer.Argument(metavar="TAG", help="lakefs://REPOSITORY/TAG"),
    Parser(read_tag),
    Completion(Kind.TAG),
]
RepositoryOrRefUri = Annotated[
    LakeUri,
    typer.Argument(
        metavar="REF", help="lakefs://REPOSITORY[/BRANCH-OR-TAG]; by default its default branch"
    ),
    Parser(read_repository_or_ref),
    Completion(Kind.REF),
]
RefUri = Annotated[
    LakeUri,
    typer.Argument(metavar="REF", help="lakefs://REPOSITORY/REF, with modifiers such as ~2"),
    Parser(read_ref),
    Completion(Kind.REF),
]
RepositoryOrBranchUri = Annotated[
    LakeUri,
    typer.Argument(metavar="BRANCH", help="lakefs://REPOSITORY[/BRANCH]; by default all branches"),
    Parser(read_repository_or_ref),
    Completion(Kind.BRANCH),
]
BranchOrTagUri = Annotated[
    LakeUri,
    typer.Argument(metavar="REF", help="lakefs://REPOSITORY/BRANCH-OR-TAG"),
    Parser(read_ref),
    Completion(Kind.REF),
]
RefUris = Annotated[
    list[LakeUri],
    typer.Argument(metavar="REF", help="lakefs://REPOSITORY/REF, with modifiers such as ~2"),
    Parser(read_refs, repeatable=True),
    Completion(Kind.REF),
]
PathUri = Annotated[
    LakeUri,
    typer.Argument(metavar="PATH", help="lakefs://REPOSITORY/REF/PATH"),
    Parser(read_path),
    Completion(Kind.PATH),
]
NewPathUri = Annotated[
    LakeUri,
    typer.Argument(metavar="PATH", help="lakefs://REPOSITORY/BRANCH/PATH"),
    Parser(read_path),
    Completion(Kind.PATH),
]
PrefixUri = Annotated[
    LakeUri,
    typer.Argument(metavar="PATH", help="lakefs://REPOSITORY/REF/[PREFIX]"),
    Parser(read_prefix),
    Completion(Kind.PATH),
]
BranchPathUri = Annotated[
    LakeUri,
    typer.Argument(metavar="PATH", help="lakefs://REPOSITORY/BRANCH/[PATH]"),
    Parser(read_branch_prefix),
    Completion(Kind.PATH),
]

OperationId = Annotated[
    str,
    typer.Argument(metavar="ID", help="ID of an operation or its first digits; see op log"),
    Completion(Kind.OPERATION),
]

AtOp = Annotated[
    str,
    typer.Option("--at-op", metavar="ID", help="Read the state right after this operation"),
    Completion(Kind.OPERATION),
]
Remote = Annotated[
    bool, typer.Option("--remote", help="Undo it in the bucket too, if it was pushed")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation")]
Message = Annotated[str, typer.Option("--message", "-m", metavar="TEXT", help="Commit message")]
Metadata = Annotated[
    Mapping[str, str],
    typer.Option("--meta", metavar="KEY=VALUE", help="Metadata to record"),
    Parser(read_metadata, repeatable=True),
]
Include = Annotated[
    Sequence[str],
    typer.Option("--include", metavar="PATTERN", help="Only paths that match, as in .gitignore"),
    Parser(read_texts, repeatable=True),
]
Exclude = Annotated[
    Sequence[str],
    typer.Option("--exclude", metavar="PATTERN", help="Not paths that match, as in .gitignore"),
    Parser(read_texts, repeatable=True),
]
Amount = Annotated[
    int, typer.Option("--amount", min=0, metavar="N", help="Show at most N; 0 for all")
]
After = Annotated[str, typer.Option("--after", metavar="NAME", help="Start after this name")]
Prefix = Annotated[str, typer.Option("--prefix", metavar="TEXT", help="Only what begins with this")]
Expires = Annotated[
    timedelta | None,
    typer.Option("--expires", metavar="TIME", help="Lifetime of the URL: 90s, 30m, 12h, 7d"),
    Parser(read_duration),
]
Recursive = Annotated[bool, typer.Option("--recursive", "-r", help="All objects below the path")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, but do nothing")]
ParentNumber = Annotated[
    int | None,
    typer.Option(
        "--parent-number",
        "-m",
        min=1,
        metavar="N",
        help="Compare a merge commit with its parent N, counted from 1",
    ),
]
Winner = Annotated[
    Side | None,
    typer.Option("--strategy", help="Which side wins conflicts"),
]
AllowEmptyCommit = Annotated[
    bool,
    typer.Option("--allow-empty-commit", "--allow-empty", help="Commit even if nothing changes"),
]
ShowMetarangeId = Annotated[
    bool, typer.Option("--show-meta-range-id", help="Show the metarange ID too")
]
Parallelism = Annotated[
    int | None,
    typer.Option(
        "--parallelism",
        "-p",
        min=1,
        metavar="N",
        help="Transfer N objects at a time; default: transfer.parallelism",
    ),
]
Engine = Annotated[
    EngineName,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help="Where the work runs: local (this process), spark, or auto (by number of objects)",
    ),
]
Master = Annotated[
    str,
    typer.Option("--master", metavar="URL", help="Spark master; default: local[*], this machine"),
]
Conf = Annotated[
    Mapping[str, str],
    typer.Option("--conf", metavar="KEY=VALUE", help="Spark setting, as for spark-submit"),
    Parser(read_conf, repeatable=True),
]
SettingName = Annotated[
    str,
    typer.Argument(metavar="KEY", help="Name of a setting, as in lakecli config list"),
    Completion(Kind.SETTING),
]
