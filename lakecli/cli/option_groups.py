"""Options that commands take in groups: of bulk work, transfers, listings and counted differences.

A parameter whose type is one of these classes stands for all options of that class.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, NamedTuple

from lakecli.cli.line import Option
from lakecli.cli.params import After, Amount, DryRun, Prefix
from lakecli.cli.parsers import NO_METADATA, Parser, read_conf


class EngineName(StrEnum):
    """Where bulk work runs."""

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
Parallelism = Annotated[
    int | None,
    Option(
        "--parallelism",
        "-p",
        min=1,
        metavar="N",
        help="Transfer N objects at a time; default: 25 (transfer.parallelism)",
    ),
]
NoProgress = Annotated[bool, Option("--no-progress", help="Show no progress")]
Engine = Annotated[
    EngineName,
    Option(
        "--engine",
        metavar="ENGINE",
        help="Where the work runs: local (this process), spark, or auto (by number of objects)",
    ),
]
Master = Annotated[
    str,
    Option("--master", metavar="URL", help="Spark master; default: local[*], this machine"),
]
Conf = Annotated[
    Mapping[str, str],
    Option("--conf", metavar="KEY=VALUE", help="Spark setting, as for spark-submit"),
    Parser(read_conf),
]
_Follow = Annotated[bool, Option("--follow", help="Follow symbolic links")]
_Skip = Annotated[bool, Option("--skip", help="Skip symbolic links and special files")]


class SelectionOptions(NamedTuple):
    """The objects to transfer among many."""

    include: Include = ()
    exclude: Exclude = ()
    dry_run: DryRun = False


class LinkOptions(NamedTuple):
    """What to do with symbolic links in a directory."""

    follow: _Follow = False
    skip: _Skip = False


class TransferOptions(NamedTuple):
    """How a transfer runs."""

    workers: Parallelism = None
    no_progress: NoProgress = False


class EngineOptions(NamedTuple):
    """Where bulk work runs."""

    engine: Engine = EngineName.AUTO
    master: Master = ""
    conf: Conf = NO_METADATA

    @property
    def names_spark(self) -> bool:
        """Whether there are options for Spark."""
        return bool(self.master or self.conf)


class PageOptions(NamedTuple):
    """The part of a listing to show."""

    amount: Amount = 100
    after: After = ""
    prefix: Prefix = ""


_Stat = Annotated[
    bool, Option("--stat", help="Count paths and bytes by prefix instead of listing paths")
]
_Depth = Annotated[
    int, Option("--depth", min=0, metavar="N", help="With --stat, most directories in a prefix")
]


class StatOptions(NamedTuple):
    """Differences counted by prefix instead of listed."""

    stat: _Stat = False
    depth: _Depth = 1
