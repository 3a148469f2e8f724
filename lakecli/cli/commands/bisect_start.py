"""``lakecli bisect start``."""

from __future__ import annotations

from typing import Annotated

from lakecli.base import uri
from lakecli.cli.bisecting import answer
from lakecli.cli.context import Context
from lakecli.cli.line.declare import Argument
from lakecli.cli.params import RepositoryOrRefExpression
from lakecli.cli.reading import Completion, Kind
from lakecli.repository.bisect import start


def bisect_start(
    context: Context,
    bad: RepositoryOrRefExpression,
    good: Annotated[
        list[str],
        Argument(metavar="GOOD", help="Commit without the problem: a ref or its URI"),
        Completion(Kind.REF),
    ] = [],  # noqa: B006 - never changed
) -> None:
    """Begin to search history for the first commit with a problem.

    Name a commit that has the problem and commits that have not, here or later by `lakecli bisect
    bad` and `lakecli bisect good`. Each answer of yours then halves the commits that are left: of
    1,000 commits, about 10 are tested. Merges are searched as by `git bisect`. To search for a
    change that is no problem, say `lakecli bisect new` and `lakecli bisect old` instead.

    A repository has one session, which is kept on this machine until `lakecli bisect reset`. While
    only one repository has a session, the other commands need no argument.

    Examples:
        lakecli bisect start lakefs://demo/main lakefs://demo/v1.0
        lakecli bisect start lakefs://demo/main main~100 v1.0
        lakecli bisect start lakefs://demo
    """
    base = context.base_uri
    uris = [uri.parse_ref(each, base=base) for each in good if _is_uri(each, base)]
    repository = context.synced_repository(bad, *uris)
    refs = [
        uri.ref_of(uri.parse_ref(each, base=base)) if _is_uri(each, base) else each for each in good
    ]
    answer(context, repository, start(repository, bad=bad.ref, good=refs))


def _is_uri(text: str, base: str) -> bool:
    return bool(base) or text.startswith(uri.SCHEME)
