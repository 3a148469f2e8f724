"""Branches, tags and commits: list, create, move, delete, log, diff, merge."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, cast

from starlette.responses import HTMLResponse

from lakecli.base.model import Difference, MergeStrategy
from lakecli.base.validation import (
    MAX_COUNT,
    Record,
    boolean,
    choice,
    nullable,
    optional,
    or_empty,
    whole,
)
from lakecli.committed.decisions import Decisions
from lakecli.committed.diff import diff
from lakecli.committed.merge import compare
from lakecli.committed.scan import list_prefix
from lakecli.errors import ConflictError
from lakecli.repository import branch, cherry_pick, commit, log, merge, revert, tag
from lakecli.repository.diff import TreesToCompare, diff_refs
from lakecli.repository.reading.merge_points import find_merge_base
from lakecli.repository.reading.view import check_branch, open_view
from lakecli.repository.staged.changes import check_clean, uncommitted
from lakecli.serving.api.records import commit_json, difference_json, ref_json
from lakecli.serving.api.requests import (
    ApiCall,
    ApiError,
    ApiOperation,
    Json,
    free_text,
    metadata,
    name_text,
    offset_of,
    page,
    path_text,
    read_fields,
)

if TYPE_CHECKING:
    from starlette.responses import Response

_FALSE: Final = optional(boolean, default=False)
_METADATA: Final = optional(metadata, None)

# Branches ------------------------------------------------------------------------------------


def list_branches(call: ApiCall) -> Json:
    """List branches, without the hidden ones."""
    found = branch.iter_branches(
        call.repository(), prefix=call.text("prefix"), after=call.text("after")
    )
    shows_all = call.flag("show_hidden")
    shown = (
        each for each in found if shows_all or not call.remembered.is_hidden(call.name, each.name)
    )
    return page(call, shown, ref_json, lambda each: each.name)


_BRANCH: Final = Record({"name": name_text, "source": name_text, "hidden": _FALSE})


def create_branch(call: ApiCall) -> Response:
    """Create a branch; a hidden one is left out of lists until the endpoint stops."""
    wanted = call.read(_BRANCH)
    with call.acting() as repository:
        made = branch.create(repository, wanted["name"], source=wanted["source"])
    if wanted["hidden"]:
        call.remembered.hide(call.name, made.name)
    return HTMLResponse(str(made.commit_id), HTTPStatus.CREATED)


def get_branch(call: ApiCall) -> Json:
    """Describe a branch."""
    return ref_json(branch.show(call.repository(), call.branch))


def delete_branch(call: ApiCall) -> Json:
    """Delete a branch with what is staged on it."""
    with call.acting() as repository:
        if call.branch == repository.record.default_branch:
            raise ApiError(HTTPStatus.FORBIDDEN, "cannot delete repository default branch")
        branch.delete(repository, call.branch)
    call.remembered.show(call.name, call.branch)
    return None


_RESET: Final = Record(
    {
        "type": choice("object", "common_prefix", "reset"),
        "path": optional(or_empty(path_text), ""),
    }
)


def reset_branch(call: ApiCall) -> Json:
    """Discard what is staged: of one object, below a prefix, or all of it."""
    wanted = call.read(_RESET)
    path = os.fsencode(wanted["path"])
    with call.acting() as repository:
        if wanted["type"] == "object":
            branch.reset_object(repository, call.branch, path)
        elif wanted["type"] == "common_prefix":
            branch.reset_prefix(repository, call.branch, path)
        else:
            branch.reset(repository, call.branch)
    return None


def hard_reset_branch(call: ApiCall) -> Json:
    """Move a branch without uncommitted changes to a commit."""
    with call.acting() as repository:
        check_branch(repository, call.branch)
        with open_view(repository, call.branch) as view:
            check_clean(view)
        branch.reset(repository, call.branch, to=call.text("ref"), expected=view.commit.id)
    return None


_OVERRIDES: Final = Record({"message": optional(nullable(free_text), None), "metadata": _METADATA})
_no_overrides: Final = read_fields({}, _OVERRIDES)
_PICK: Final = Record(
    {
        "ref": name_text,
        "parent_number": optional(whole(0, 1 << 16), 0),
        "commit_overrides": optional(partial(read_fields, record=_OVERRIDES), _no_overrides),
        "allow_empty": _FALSE,
    }
)


def revert_branch(call: ApiCall) -> Json:
    """Undo a commit by a new one."""
    wanted = call.read(_PICK)
    with call.acting() as repository:
        revert.revert(
            repository,
            call.branch,
            wanted["ref"],
            committer=call.committer(),
            parent_number=wanted["parent_number"] or None,
            allow_empty=wanted["allow_empty"],
            **wanted["commit_overrides"],
        )
    return None


def cherry_pick_on(call: ApiCall) -> Json:
    """Apply the change of a commit to a branch."""
    wanted = call.read(_PICK)
    if wanted["commit_overrides"] != _no_overrides:
        raise ApiError(
            HTTPStatus.NOT_IMPLEMENTED, "a cherry-pick keeps the message and the metadata"
        )
    with call.acting() as repository:
        made = cherry_pick.cherry_pick(
            repository,
            wanted["ref"],
            call.branch,
            committer=call.committer(),
            parent_number=wanted["parent_number"] or None,
        )
    return commit_json(made)


# Commits -------------------------------------------------------------------------------------

COMMIT: Final = Record(
    {
        "message": free_text,
        "metadata": _METADATA,
        "date": optional(whole(-MAX_COUNT, 253_000_000_000), -1),
        "allow_empty": _FALSE,
    }
)


def create_commit(call: ApiCall) -> Json:
    """Commit what is staged."""
    wanted = call.read(COMMIT)
    if call.text("source_metarange"):
        raise ApiError(HTTPStatus.NOT_IMPLEMENTED, "commits are made of what is staged only")
    date = wanted["date"]
    with call.acting() as repository:
        made = commit.commit(
            repository,
            call.branch,
            message=wanted["message"],
            committer=call.committer(),
            metadata=wanted["metadata"],
            allow_empty=wanted["allow_empty"],
            created_at=None if date < 0 else datetime.fromtimestamp(date, UTC),
        )
    return commit_json(made)


def get_commit(call: ApiCall) -> Json:
    """Return the commit that an ID, or any ref expression, names."""
    return commit_json(log.show_commit(call.repository(), call.parameters["commitId"]))


def log_commits(call: ApiCall) -> Json:
    """Return the history of a ref."""
    options = log.LogOptions(
        first_parent=call.flag("first_parent"),
        since=call.time("since"),
        after=call.text("after") or None,
        stop_at=call.text("stop_at") or None,
        objects=call.paths("objects"),
        prefixes=call.paths("prefixes"),
    )
    with log.log(call.repository(), call.parameters["ref"], options) as commits:
        # With `limit`, no commit after the last one is searched for.
        return page(
            call, commits, commit_json, lambda each: str(each.id), looks_on=not call.flag("limit")
        )


# Differences ---------------------------------------------------------------------------------


def diff_branch(call: ApiCall) -> Json:
    """List what is staged on a branch."""
    repository = call.repository()
    check_branch(repository, call.branch)
    prefix = call.raw("prefix")
    with open_view(repository, call.branch) as view:

        def changes(start: bytes) -> Iterator[Difference]:
            return uncommitted(view, prefix=prefix, start=start)

        return _page_of_changes(call, changes)


def diff_of_refs(call: ApiCall) -> Json:
    """List the differences of two refs: since the merge base, or directly with ``two_dot``."""
    kind = call.text("type") or "three_dot"
    choice("two_dot", "three_dot")(kind)
    repository = call.repository()

    def changes(start: bytes) -> Iterator[Difference]:
        def from_start(trees: TreesToCompare) -> Iterator[Difference]:
            base, left, right, prefix = trees
            if base is None:
                return diff(repository.trees, left, right, prefix=prefix, start=start)
            return compare(
                repository.trees, base=base, left=left, right=right, prefix=prefix, start=start
            )

        with diff_refs(
            repository,
            call.parameters["leftRef"],
            call.parameters["rightRef"],
            prefix=call.raw("prefix"),
            two_way=kind == "two_dot",
            compare=from_start,
        ) as found:
            yield from (each for each in found if each.path >= start)

    return _page_of_changes(call, changes, has_right=call.flag("include_right_stats"))


def _by_path(changes: Iterator[Difference]) -> Iterator[tuple[bytes, Difference]]:
    return ((each.path, each) for each in changes)


def _page_of_changes(
    call: ApiCall, changes: Callable[[bytes], Iterator[Difference]], *, has_right: bool = False
) -> Json:
    listed = list_prefix(
        lambda start: cast("Iterator[tuple[bytes, bytes]]", _by_path(changes(start))),
        prefix=call.raw("prefix"),
        delimiter=call.raw("delimiter"),
        after=call.after,
    )
    record = partial(difference_json, has_right=has_right)
    return page(call, listed, record, lambda each: offset_of(each.path))


# Merges --------------------------------------------------------------------------------------

_MERGE: Final = Record(
    {
        "message": optional(free_text, ""),
        "metadata": _METADATA,
        "strategy": optional(or_empty(choice(*MergeStrategy)), ""),
        "force": _FALSE,
        "allow_empty": _FALSE,
        "squash_merge": _FALSE,
    }
)


def merge_into_branch(call: ApiCall) -> Json:
    """Merge a ref into a branch."""
    wanted = call.read(_MERGE) if call.body else read_fields({}, _MERGE)
    options = merge.MergeOptions(
        committer=call.committer(),
        message=wanted["message"] or None,
        metadata=wanted["metadata"],
        decisions=Decisions(MergeStrategy(wanted["strategy"] or MergeStrategy.FAIL)),
        squash=wanted["squash_merge"],
        allow_empty=wanted["allow_empty"] or wanted["force"],
    )
    source, destination = call.parameters["sourceRef"], call.parameters["destinationBranch"]
    try:
        with call.acting() as repository:
            made = merge.merge(repository, source, destination, options)
    except ConflictError as error:
        # Old clients read a `MergeResult` here, newer ones an `Error`.
        raise ApiError(HTTPStatus.CONFLICT, error.message, more={"reference": ""}) from error
    return {"reference": made.id}


def get_merge_base(call: ApiCall) -> Json:
    """Return the commits of a merge, and their best common ancestor."""
    points = find_merge_base(
        call.repository(), call.parameters["sourceRef"], call.parameters["destinationBranch"]
    )
    return {
        "source_commit_id": points.source.id,
        "destination_commit_id": points.destination.id,
        "base_commit_id": points.bases[0].id,
    }


# Tags ----------------------------------------------------------------------------------------


def list_tags(call: ApiCall) -> Json:
    """List tags."""
    found = tag.iter_tags(call.repository(), prefix=call.text("prefix"), after=call.text("after"))
    return page(call, found, ref_json, lambda each: each.name)


_TAG: Final = Record({"id": name_text, "ref": name_text, "force": _FALSE})


def create_tag(call: ApiCall) -> Json:
    """Create a tag."""
    wanted = call.read(_TAG)
    with call.acting() as repository:
        return ref_json(tag.create(repository, wanted["id"], wanted["ref"]))


def get_tag(call: ApiCall) -> Json:
    """Describe a tag."""
    return ref_json(tag.show(call.repository(), call.parameters["tag"]))


def delete_tag(call: ApiCall) -> Json:
    """Delete a tag."""
    with call.acting() as repository:
        tag.delete(repository, call.parameters["tag"])
    return None


_ONE: Final = "/repositories/{repository}"
_ALL: Final = _ONE + "/branches"
_BRANCH_PATH: Final = _ALL + "/{branch}"
_MERGES: Final = _ONE + "/refs/{sourceRef}/merge/{destinationBranch}"
_TAGS: Final = _ONE + "/tags"

OPERATIONS: Final = (
    ApiOperation("listBranches", "GET", _ALL, list_branches),
    ApiOperation("createBranch", "POST", _ALL, create_branch, 201),
    ApiOperation("getBranch", "GET", _BRANCH_PATH, get_branch),
    ApiOperation("deleteBranch", "DELETE", _BRANCH_PATH, delete_branch, 204),
    ApiOperation("resetBranch", "PUT", _BRANCH_PATH, reset_branch, 204),
    ApiOperation("hardResetBranch", "PUT", _BRANCH_PATH + "/hard_reset", hard_reset_branch, 204),
    ApiOperation("revertBranch", "POST", _BRANCH_PATH + "/revert", revert_branch, 204),
    ApiOperation("cherryPick", "POST", _BRANCH_PATH + "/cherry-pick", cherry_pick_on, 201),
    ApiOperation("diffBranch", "GET", _BRANCH_PATH + "/diff", diff_branch),
    ApiOperation("commit", "POST", _BRANCH_PATH + "/commits", create_commit, 201),
    ApiOperation("getCommit", "GET", _ONE + "/commits/{commitId}", get_commit),
    ApiOperation("logCommits", "GET", _ONE + "/refs/{ref}/commits", log_commits),
    ApiOperation("diffRefs", "GET", _ONE + "/refs/{leftRef}/diff/{rightRef}", diff_of_refs),
    ApiOperation("mergeIntoBranch", "POST", _MERGES, merge_into_branch),
    ApiOperation("findMergeBase", "GET", _MERGES, get_merge_base),
    ApiOperation("listTags", "GET", _TAGS, list_tags),
    ApiOperation("createTag", "POST", _TAGS, create_tag, 201),
    ApiOperation("getTag", "GET", _TAGS + "/{tag}", get_tag),
    ApiOperation("deleteTag", "DELETE", _TAGS + "/{tag}", delete_tag, 204),
)
