"""Where the rows of a DataFrame come from: the commits of branches that `read_table` has read.

The commit is part of the query plan, as the alias of the table, so it survives filters, joins and
views. It is lost where Spark cuts the plan: `checkpoint`, or rows that went through Python.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakecli.ids import CommitId

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    java = getattr(frame, "_jdf", None)
    names = _aliases(java.queryExecution().analyzed()) if java is not None else ()
    found = (_ALIAS.fullmatch(name) for name in names)
    return list(
        dict.fromkeys(Origin(match[1], match[2], CommitId(match[3])) for match in found if match)
    )


def _aliases(plan: Any) -> Iterator[str]:  # noqa: ANN401 - an object of the JVM
    """Yield the aliases in a query plan and its subqueries."""
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        if node.nodeName() == _NODE:
            yield str(node.alias())
        for below in (node.children(), node.subqueries()):
            waiting += (below.apply(at) for at in range(below.size()))
