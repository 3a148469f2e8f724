"""``lakecli branch rename``."""

from __future__ import annotations

from typing import Annotated

from lakecli.base.uri import SCHEME, parse_ref, ref_of
from lakecli.cli.context import Context
from lakecli.cli.line.declare import Argument
from lakecli.cli.out.common_records import ref_record
from lakecli.cli.params import BranchUri
from lakecli.cli.reading import Completion, Kind
from lakecli.repository.branch import is_shared, rename, show


def branch_rename(
    context: Context,
    branch: BranchUri,
    name: Annotated[
        str,
        Argument(metavar="NAME", help="The new name, or lakefs://REPOSITORY/NAME"),
        Completion(Kind.NOTHING),
    ],
) -> None:
    """Rename a branch.

    The branch must have no uncommitted changes, and must not be the default branch. In the bucket
    the old branch stays until `lakecli push --delete`, unless `sync = auto`. With that, if the
    bucket has commits on it that are not here, nothing is renamed, and the exit code is 5. `lakecli
    undo` takes it back.

    Examples:
        lakecli branch rename lakefs://demo/experiment trial
        lakecli branch rename lakefs://demo/experiment lakefs://demo/trial
    """
    context.out.say(f"Branch: {branch}")
    uris = [parse_ref(name)] if name.startswith(SCHEME) else []
    # A push that ends while this fetches can make the branch follow an older state for a moment.
    here = context.repository(branch, *uris)
    expected = show(here, ref_of(branch)).commit_id if here.is_here() else None
    repository = context.synced_repository(branch, *uris)
    new_name = ref_of(uris[0]) if uris else name
    renamed = rename(repository, ref_of(branch), new_name, expected=expected)
    context.out.emit(
        lambda: ref_record(renamed), text=lambda: [f"renamed to '{new_name}' {renamed.commit_id}"]
    )
    if not repository.syncs and is_shared(repository):
        uri = repository.uri
        context.out.hint(
            f"the bucket is unchanged; to rename it there: lakecli push {uri}/{new_name}, then "
            f"lakecli push --delete {uri}/{ref_of(branch)}"
        )
