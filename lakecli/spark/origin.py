"""Where the rows of a DataFrame come from: the commits of branches that `read_table` has read.

The commit is part of the query plan, as the alias of the table, so it survives filters, joins and
views. It is lost where Spark cuts the plan: `checkpoint`, or rows that went through Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakecli.base.ids import CommitId
from lakecli.spark.sessions import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ALIAS: Final = re.compile(r"lakefs://([^/@]+)/(.+)@([0-9a-f]{64})")
_NODE: Final = "SubqueryAlias"


class Origin(NamedTuple):
    """A commit from which rows were read.

    Attributes:
        repository: its name on this machine.
        branch: the branch whose head the commit was.
        commit_id: the commit.
    """

    repository: str
    branch: str
    commit_id: CommitId

    @property
    def alias(self) -> str:
        """The origin as the alias of a table."""
        return f"lakefs://{self.repository}/{self.branch}@{self.commit_id}"


def origins(frame: DataFrame) -> list[Origin]:
    """Return the commits that the rows of a DataFrame were read from, each once.

    Only tables that were read by the name of a branch count. Who reads a tag, a commit or
    ``main~1`` means an old state.
    """
    names = _aliases_sent(frame) if is_connect(frame.sparkSession) else _aliases(frame)
    found = (_ALIAS.fullmatch(name) for name in names)
    return list(
        dict.fromkeys(Origin(match[1], match[2], CommitId(match[3])) for match in found if match)
    )


def _aliases(frame: DataFrame) -> Iterator[str]:
    """Yield the aliases in a DataFrame's query plan and its subqueries."""
    waiting: list[Any] = [frame._jdf.queryExecution().analyzed()]  # noqa: SLF001
    while waiting:
        node = waiting.pop()
        if node.nodeName() == _NODE:
            yield str(node.alias())
        for below in (node.children(), node.subqueries()):
            waiting += (below.apply(at) for at in range(below.size()))


def _aliases_sent(frame: Any) -> Iterator[str]:  # noqa: ANN401 - a DataFrame of Spark Connect
    """Yield the aliases in the plan that a client of Spark Connect sends.

    Views of the server are only names in it, so their rows come from an unknown commit.
    """
    waiting: list[Any] = [frame._plan.to_proto(frame.sparkSession.client)]  # noqa: SLF001
    while waiting:
        node = waiting.pop()
        if node.DESCRIPTOR.name == _NODE:
            yield str(node.alias)
        for field, value in node.ListFields():
            if field.message_type is None or field.message_type.GetOptions().map_entry:
                continue
            waiting += [value] if hasattr(value, "DESCRIPTOR") else list(value)
