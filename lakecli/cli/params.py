"""The arguments and options that commands share, and options that are used together.

A parameter of a command is annotated with a type from this module::

    def branch_create(context: Context, branch: BranchUri, *, source: SourceRef) -> None:

If the type is one of the classes, such as `PageOptions`, the parameter declares all options of the
class.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from lakecli.base.model import NO_METADATA
from lakecli.base.uri import LakeUri
from lakecli.cli.line import Argument, Kind, Option
from lakecli.cli.parsers import (
    Side,
    each,
    read_branch,
    read_branch_prefix,
    read_conf,
    read_duration,
    read_metadata,
    read_path,
    read_prefix,
    read_prefix_or_file,
    read_ref,
    read_repository,
    read_repository_or_ref,
    read_tag,
)
from lakecli.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.committed.decisions import Decisions
    from lakecli.repository.transfer.ignore_patterns import Selection
    from lakecli.repository.transfer.walk import LinkPolicy

RepositoryUri = Annotated[LakeUri, Argument("REPOSITORY", "lakefs://REPOSITORY", read_repository)]
BranchUri = Annotated[LakeUri, Argument("BRANCH", "lakefs://REPOSITORY/BRANCH", read_branch)]
TagUri = Annotated[LakeUri, Argument("TAG", "lakefs://REPOSITORY/TAG", read_tag)]
RefUri = Annotated[
    LakeUri, Argument("REF", "lakefs://REPOSITORY/REF, with modifiers such as ~2", read_ref)
]
SourceUri = Annotated[
    LakeUri, Argument("SOURCE", "lakefs://REPOSITORY/REF to merge", read_ref, Kind.REF)
]
BranchOrTagUri = Annotated[LakeUri, Argument("REF", "lakefs://REPOSITORY/BRANCH-OR-TAG", read_ref)]
_HERE = "default: of this directory, or set by `lakecli use`"
HereRepositoryUri = Annotated[
    LakeUri | None, Argument("REPOSITORY", f"lakefs://REPOSITORY; {_HERE}", read_repository)
]
HereBranchUri = Annotated[
    LakeUri | None, Argument("BRANCH", f"lakefs://REPOSITORY/BRANCH; {_HERE}", read_branch)
]
HereRepositoryOrRefUri = Annotated[
    LakeUri | None,
    Argument(
        "REF",
        "lakefs://REPOSITORY/BRANCH-OR-TAG, or lakefs://REPOSITORY for its default branch; "
        f"{_HERE}",
        read_repository_or_ref,
    ),
]
HereRepositoryOrBranchUri = Annotated[
    LakeUri | None,
    Argument("BRANCH", f"lakefs://REPOSITORY[/BRANCH]; {_HERE}", read_repository_or_ref),
]
PrefixOrFileUri = Annotated[
    LakeUri,
    Argument(
        "PATH",
        "lakefs://REPOSITORY/REF/[PREFIX]; or a file of a linked directory",
        read_prefix_or_file,
        Kind.PATH_OR_FILE,
    ),
]
RefUris = Annotated[
    list[LakeUri],
    Argument("REF", "lakefs://REPOSITORY/REF, with modifiers such as ~2", each(read_ref)),
]
_IN_PLACE = (
    "lakefs://REPOSITORY/REF/PATH, or NAMESPACE@REF/PATH to read without a clone (lakecli help "
    "remotes); with --files-from, the directory of the names"
)
PathOrDirectoryUri = Annotated[LakeUri, Argument("PATH", _IN_PLACE, read_prefix)]
NewPathUri = Annotated[LakeUri, Argument("PATH", "lakefs://REPOSITORY/BRANCH/PATH", read_path)]
PrefixUri = Annotated[LakeUri, Argument("PATH", "lakefs://REPOSITORY/REF/[PREFIX]", read_prefix)]
BranchPathUri = Annotated[
    LakeUri, Argument("PATH", "lakefs://REPOSITORY/BRANCH/[PATH]", read_branch_prefix)
]
BranchUris = Annotated[
    list[LakeUri], Argument("BRANCH", "lakefs://REPOSITORY/BRANCH", each(read_branch))
]
TagUris = Annotated[list[LakeUri], Argument("TAG", "lakefs://REPOSITORY/TAG", each(read_tag))]
PathOrDirectoryUris = Annotated[list[LakeUri], Argument("PATH", _IN_PLACE, each(read_prefix))]
BranchPathUris = Annotated[
    list[LakeUri], Argument("PATH", "lakefs://REPOSITORY/BRANCH/[PATH]", each(read_branch_prefix))
]

StorageNamespace = Annotated[
    str,
    Argument(
        "NAMESPACE",
        "s3://BUCKET/PREFIX, gs://…, az://…, local:///DIRECTORY or an absolute path",
        kind=Kind.DIRECTORY,
    ),
]

OperationId = Annotated[
    str, Argument("ID", "ID of an operation or its first digits; see op log", kind=Kind.OPERATION)
]

AtOp = Annotated[
    str, Option("ID", "Read the state right after an operation; see op log", kind=Kind.OPERATION)
]
Remote = Annotated[bool, Option(None, "Move pushed refs back in the bucket, too")]
Yes = Annotated[bool, Option(None, "Do not ask for confirmation", "--yes", "-y")]
Message = Annotated[str, Option("TEXT", "Commit message", "--message", "-m")]
CheckName = Annotated[str, Argument("NAME", "Name of a check: the setting checks.NAME")]
Checks = Annotated[
    Sequence[str],
    Option("CHECK", "Publish only if this passes: the name of a check (checks.NAME), or a command"),
]
NoVerify = Annotated[
    bool, Option(None, "Leave out hooks of this machine; the operation log says so")
]
Metadata = Annotated[
    Mapping[str, str],
    Option(
        "KEY=VALUE[,...]",
        "Metadata to record; quote a pair whose value has a comma: '\"KEY=A,B\"'",
        "--meta",
        read=read_metadata,
    ),
]
AllowEmptyMessage = Annotated[bool, Option(None, "Commit without a message")]
ContentType = Annotated[str | None, Option("TYPE", "Content type; default: by the suffix of PATH")]
Amount = Annotated[int, Option("N", "Show at most N; 0 or -1 for all", "--amount", min=-1)]
After = Annotated[str, Option("NAME", "Start after this name")]
Prefix = Annotated[str, Option("TEXT", "Only what begins with this", "--prefix")]
Expires = Annotated[
    timedelta | None,
    Option(
        "TIME",
        "Lifetime of the URL: 90s, 30m, 12h or 7d; default: 15m (presign.expires)",
        read=read_duration,
    ),
]
Recursive = Annotated[bool, Option(None, "All objects below the path", "--recursive", "-r")]
ForceWithLease = Annotated[
    str | None,
    Option(
        "[=COMMIT]",
        "Move the branch or tag even backwards, unless somebody else moved it in the bucket",
        bare="",
    ),
]
DryRun = Annotated[bool, Option(None, "Show what would be done, but do nothing")]
ParentNumber = Annotated[
    int | None,
    Option(
        "N",
        "Compare a merge commit with its parent N, counted from 1",
        "--parent-number",
        "-m",
        min=1,
    ),
]
Winner = Annotated[
    Side | None, Option(None, "Resolve all conflicts: take the source's side or the destination's")
]
AllowEmptyCommit = Annotated[
    bool, Option(None, "Commit even if nothing changes", "--allow-empty-commit", "--allow-empty")
]
ShowMetarangeId = Annotated[bool, Option(None, "Show the metarange ID too")]
SettingName = Annotated[
    str, Argument("KEY", "Name of a setting, as in lakecli config list", kind=Kind.SETTING)
]
NO_EFFECT: Final = "Accepted for lakectl compatibility; has no effect"
PreSign = Annotated[bool, Option(None, NO_EFFECT, "--pre-sign", hidden=True)]


class EngineName(StrEnum):
    """The engine that runs bulk work."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


Include = Annotated[Sequence[str], Option("PATTERN", "Only paths that match, as in .gitignore")]
Exclude = Annotated[Sequence[str], Option("PATTERN", "Not paths that match, as in .gitignore")]


class SelectionOptions(NamedTuple):
    """Options that select the objects of a transfer of many objects."""

    include: Include = ()
    exclude: Exclude = ()
    dry_run: DryRun = False

    def selection(self, *, recursive: bool, may_plan: bool = False) -> "Selection":
        """Return the selection of paths by ``--include`` and ``--exclude``.

        Args:
            recursive: whether the command works on many objects (``-r``).
            may_plan: whether ``--dry-run`` is allowed without ``-r``.

        Raises:
            UsageError: a pattern can match no path, or an option for many objects is given without
                ``-r``.
        """
        if self.dry_run and not (recursive or may_plan):
            raise UsageError(
                "--dry-run needs -r", hint="leave it out for one object; for several, add -r"
            )
        if (self.include or self.exclude) and not recursive:
            raise UsageError("--include and --exclude need -r", hint="add -r")
        from lakecli.repository.transfer.ignore_patterns import Selection

        return Selection(self.include, self.exclude)


class LinkOptions(NamedTuple):
    """Options for symbolic links in a directory.

    Attributes:
        follow: Follow symbolic links.
        skip: Skip symbolic links and special files.
    """

    follow: Annotated[bool, Option(None, "")] = False
    skip: Annotated[bool, Option(None, "")] = False

    def policy(self) -> "LinkPolicy":
        """Return the policy that ``--follow`` or ``--skip`` selects; by default, links are errors.

        Raises:
            UsageError: both options are given.
        """
        from lakecli.repository.transfer.walk import LinkPolicy

        refuse_several({"--follow": self.follow, "--skip": self.skip})
        if self.follow:
            return LinkPolicy.FOLLOW
        return LinkPolicy.SKIP if self.skip else LinkPolicy.FAIL


class TransferOptions(NamedTuple):
    """Options for the concurrency and the progress of a transfer.

    Attributes:
        workers: Transfer N objects at a time; default: 25 (transfer.parallelism).
        no_progress: Show no progress.
    """

    workers: Annotated[int | None, Option("N", "", "--parallelism", "-p", min=1)] = None
    no_progress: Annotated[bool, Option(None, "")] = False


def refuse_several(given: Mapping[str, bool]) -> None:
    """Refuse options that exclude each other.

    Args:
        given: for each option, whether it is given.

    Raises:
        UsageError: more than one of the options is given.
    """
    flags = [flag for flag, is_given in given.items() if is_given]
    if len(flags) > 1:
        raise UsageError(f"{' and '.join(flags)} exclude each other", hint="give one of them")


def refuse_first(*rules: tuple[object, str, str | None]) -> None:
    """Refuse options that cannot be combined: the first rule that applies is the error.

    Args:
        rules: triples: whether the rule applies, the message of its error, and the hint.

    Raises:
        UsageError: a rule applies.
    """
    for applies, message, hint in rules:
        if applies:
            raise UsageError(message, hint=hint)


def check_mirror(*, delete: bool, max_delete: int | None, recursive: bool, is_listed: bool) -> None:
    """Refuse options that cannot be combined with ``--delete`` or with ``--max-delete``.

    Raises:
        UsageError: the options cannot be combined.
    """
    if max_delete is not None and not delete:
        raise UsageError("--max-delete needs --delete", hint="add --delete")
    if delete and (is_listed or not recursive):
        hint = "leave out --files-from" if is_listed else "add -r"
        raise UsageError("--delete needs -r, and no --files-from", hint=hint)


class EngineOptions(NamedTuple):
    """Options that select the engine of bulk work.

    Attributes:
        engine: Where the work runs: local (this process), spark, or auto (by number of objects).
        master: Spark master; default: local[*], this machine.
        conf: Spark setting, as for spark-submit.
    """

    engine: Annotated[EngineName, Option("ENGINE", "")] = EngineName.AUTO
    master: Annotated[str, Option("URL", "")] = ""
    conf: Annotated[Mapping[str, str], Option("KEY=VALUE", "", read=read_conf)] = NO_METADATA

    @property
    def names_spark(self) -> bool:
        """Whether the options select or configure Spark."""
        return bool(self.master or self.conf)


class PageOptions(NamedTuple):
    """Options that select a part of a listing."""

    amount: Amount = 100
    after: After = ""
    prefix: Prefix = ""


class StatOptions(NamedTuple):
    """Options that count differences by prefix instead of listing them.

    Attributes:
        stat: Count paths and bytes by prefix instead of listing paths.
        depth: With --stat, most directories in a prefix.
    """

    stat: Annotated[bool, Option(None, "")] = False
    depth: Annotated[int, Option("N", "", min=0)] = 1


class DecisionOptions(NamedTuple):
    """Options that choose the side that conflicts take, path by path.

    Attributes:
        take: Resolve conflicts at matching paths: source:PATTERN or dest:PATTERN, as in .gitignore;
            the last match counts.
        table_logs: Resolve conflicts in logs of tables, too, and lose rows.
    """

    take: Annotated[Sequence[str], Option("SIDE:PATTERN", "")] = ()
    table_logs: Annotated[bool, Option(None, "")] = False

    def decisions(self, strategy: "Side | None" = None, plan: "Path | None" = None) -> "Decisions":
        """Return the decisions of these options, a strategy and a plan.

        Raises:
            UsageError: ``--take`` has no side, or a pattern that matches nothing.
        """
        from lakecli.base.model import MergeStrategy
        from lakecli.committed.decisions import Decisions

        winner = MergeStrategy.FAIL if strategy is None else MergeStrategy(strategy)
        return Decisions(winner, self.take, plan, self.table_logs)
