"""Groups of options: for bulk work, transfers, listings, counted differences and conflicts.

If the type of a parameter is one of these classes, the parameter declares all options of the class.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from lakecli.cli.line import Option
from lakecli.cli.params import After, Amount, DryRun, Prefix
from lakecli.cli.parsers import NO_METADATA, read_conf
from lakecli.errors import UsageError
from lakecli.stores.uri import is_local

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.cli.context import Context
    from lakecli.cli.parsers import Side
    from lakecli.committed.decisions import Decisions
    from lakecli.repository.contract import Repository
    from lakecli.repository.transfer.ignore_patterns import Selection
    from lakecli.repository.transfer.walk import LinkPolicy


class EngineName(StrEnum):
    """The engine that runs bulk work."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


Include = Annotated[
    Sequence[str],
    Option("--include", metavar="PATTERN", help="Only paths that match, as in .gitignore"),
]
Exclude = Annotated[
    Sequence[str],
    Option("--exclude", metavar="PATTERN", help="Not paths that match, as in .gitignore"),
]


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
    """Options for symbolic links in a directory."""

    follow: Annotated[bool, Option("--follow", help="Follow symbolic links")] = False
    skip: Annotated[bool, Option("--skip", help="Skip symbolic links and special files")] = False

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
    """Options for the concurrency and the progress of a transfer."""

    workers: Annotated[
        int | None,
        Option(
            "--parallelism",
            "-p",
            min=1,
            metavar="N",
            help="Transfer N objects at a time; default: 25 (transfer.parallelism)",
        ),
    ] = None
    no_progress: Annotated[bool, Option("--no-progress", help="Show no progress")] = False


LOCAL_WORKERS: Final = 2
"""The number of concurrent transfers to a local store: one thread hashes while another waits for
the disk."""


def parallelism(context: "Context", repository: "Repository", asked: int | None) -> int:
    """Return the number of concurrent transfers: `asked`, or the setting.

    For a local store, the setting is limited to `LOCAL_WORKERS`.
    """
    if asked is not None:
        return asked
    configured = context.settings.transfer_parallelism
    if is_local(repository.record.storage_namespace):
        return min(configured, LOCAL_WORKERS)
    return configured


def refuse_several(given: Mapping[str, bool]) -> None:
    """Refuse options that exclude each other; the mapping says of each whether it is given."""
    flags = [flag for flag, is_given in given.items() if is_given]
    if len(flags) > 1:
        raise UsageError(f"{' and '.join(flags)} exclude each other", hint="give one of them")


def refuse_first(*rules: tuple[object, str, str | None]) -> None:
    """Refuse options that cannot be combined: the first rule that applies is the error.

    Args:
        rules: whether a rule applies, the message of the error, and its hint.

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
    """Options that select the engine of bulk work."""

    engine: Annotated[
        EngineName,
        Option(
            "--engine",
            metavar="ENGINE",
            help="Where the work runs: local (this process), spark, or auto (by number of objects)",
        ),
    ] = EngineName.AUTO
    master: Annotated[
        str, Option("--master", metavar="URL", help="Spark master; default: local[*], this machine")
    ] = ""
    conf: Annotated[
        Mapping[str, str],
        Option(
            "--conf", metavar="KEY=VALUE", help="Spark setting, as for spark-submit", read=read_conf
        ),
    ] = NO_METADATA

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
    """Options that count differences by prefix instead of listing them."""

    stat: Annotated[
        bool, Option("--stat", help="Count paths and bytes by prefix instead of listing paths")
    ] = False
    depth: Annotated[
        int, Option("--depth", min=0, metavar="N", help="With --stat, most directories in a prefix")
    ] = 1


class DecisionOptions(NamedTuple):
    """Which side conflicts take, path by path."""

    take: Annotated[
        Sequence[str],
        Option(
            "--take",
            metavar="SIDE:PATTERN",
            help="Resolve conflicts at matching paths: source:PATTERN or dest:PATTERN, as in "
            ".gitignore; the last match counts",
        ),
    ] = ()
    table_logs: Annotated[
        bool, Option("--table-logs", help="Resolve conflicts in logs of tables, too, and lose rows")
    ] = False

    def decisions(self, strategy: "Side | None" = None, plan: "Path | None" = None) -> "Decisions":
        """Return the decisions of these options, a strategy and a plan.

        Raises:
            UsageError: ``--take`` has no side, or a pattern that matches nothing.
        """
        from lakecli.base.model import MergeStrategy
        from lakecli.committed.decisions import Decisions

        winner = MergeStrategy.FAIL if strategy is None else MergeStrategy(strategy)
        return Decisions(winner, self.take, plan, self.table_logs)
