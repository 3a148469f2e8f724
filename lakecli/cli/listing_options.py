"""Options that commands take in groups: of listings and counted differences."""

from typing import Annotated, NamedTuple

from lakecli.cli.line import Option
from lakecli.cli.params import After, Amount, Prefix


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
