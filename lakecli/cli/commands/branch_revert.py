"""``lakecli branch revert``."""

from __future__ import annotations

from typing import Annotated

from lakecli.base.model import Commit
from lakecli.base.uri import SCHEME, parse_ref, ref_of
from lakecli.cli.context import Context
from lakecli.cli.line.declare import Argument
from lakecli.cli.out.common_records import commit_record
from lakecli.cli.out.text import one_line
from lakecli.cli.params import AllowEmptyCommit, BranchUri, ParentNumber, Yes
from lakecli.cli.reading import Completion, Kind
from lakecli.refs.expression import parse
from lakecli.repository import branch as branches
from lakecli.repository.contract import Repository
from lakecli.repository.log import show_commit
from lakecli.repository.revert import revert


def branch_revert(
    context: Context,
    branch: BranchUri,
    refs: Annotated[
        list[str],
        Argument(metavar="REF", help="Commit to revert: a commit ID, a ref, or its URI"),
        Completion(Kind.REF),
    ],
    *,
    parent_number: ParentNumber = None,
    allow_empty_commit: AllowEmptyCommit = False,
    yes: Yes = False,
) -> None:
    """Revert commits, with one new commit for each.

    Commits are reverted from left to right. A ref that starts at the branch itself, such as main~1,
    is resolved after the reverts before it. If a commit cannot be reverted, those before it stay
    reverted. A merge commit needs --parent-number.

    Examples:
        lakecli branch revert lakefs://demo/main main~2
        lakecli branch revert lakefs://demo/main 8d7c1b02 44fe19a3 -y
        lakecli branch revert lakefs://demo/main main -m 1
    """
    name = ref_of(branch)
    uris = {text: parse_ref(text) for text in refs if text.startswith(SCHEME)}
    expressions = [ref_of(uris[text]) if text in uris else text for text in refs]
    context.out.say(f"Branch: {branch}")
    repository = context.synced_repository(branch, *uris.values())
    branches.show(repository, name)
    _check(repository, name, expressions)
    asked = one_line(" ".join(expressions))
    context.confirm(f"revert commits {asked} on branch '{name}'", yes=yes)
    committer = context.committer()
    commits: list[Commit] = []
    try:
        for expression in expressions:
            commit = revert(
                repository,
                name,
                expression,
                committer=committer,
                parent_number=parent_number,
                allow_empty=allow_empty_commit,
            )
            commits.append(commit)
            context.out.say(f"commit {one_line(expression)} successfully reverted")
    finally:
        if commits:
            context.out.emit({"branch": name, "commits": list(map(commit_record, commits))})


def _check(repository: Repository, branch: str, expressions: list[str]) -> None:
    """Look up what does not move with the branch, so that a typing error reverts nothing."""
    for expression in expressions:
        if parse(expression).base != branch:
            show_commit(repository, expression)
