"""``lakecli rev-parse``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakecli.cli.context import Context
from lakecli.cli.params import AtOp, RefUris
from lakecli.uri import ref_of

if TYPE_CHECKING:
    from lakecli.cli.answers.history import Resolved as ResolvedRecord
    from lakecli.refs.resolve import Resolved
    from lakecli.uri import LakeUri


def rev_parse(context: Context, refs: RefUris, *, at_op: AtOp = "") -> None:
    """Show the commit ID that a ref expression names.

    One line is printed for each ref. With --json, one object for each ref also shows the branch,
    tag or commit that the expression starts from, and the commit after each modifier.

    Examples:
        lakecli rev-parse lakefs://demo/main
        lakecli rev-parse lakefs://demo/main~2^2 lakefs://demo/v1.0
        lakecli rev-parse --json lakefs://demo/8d7c~1
    """
    from lakecli.repository.rev_parse import rev_parse as resolve

    found = [
        (uri, resolve(context.synced_repository(uri, at_op=at_op), ref_of(uri))) for uri in refs
    ]
    context.out.stream(
        found, record=lambda item: _record(*item), text=lambda item: item[1].commit.id
    )


def _record(uri: LakeUri, resolved: Resolved) -> ResolvedRecord:
    from lakecli.cli.answers import pick
    from lakecli.cli.answers.history import Resolved as ResolvedRecord
    from lakecli.cli.answers.history import Step

    return pick(
        ResolvedRecord,
        resolved,
        uri=str(uri),
        kind=resolved.kind.value,
        commit_id=resolved.commit.id,
        base=resolved.name,
        base_commit_id=resolved.base_id,
        steps=[pick(Step, step) for step in resolved.steps],
    )
