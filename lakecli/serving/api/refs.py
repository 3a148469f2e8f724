"""Branches, tags and commits: list, create, move, delete, log, diff, merge."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, cast

from starlette.responses import HTMLResponse

from lakecli.base.model import Branch, ChangeType, Commit, Difference, MergeStrategy, Tag
from lakecli.base.validation import MAX_COUNT, choice, nullable, optional, or_empty, whole
from lakecli.committed.decisions import Decisions
from lakecli.committed.scan import ListedObject, ListedPrefix, list_prefix
from lakecli.committed.values import decode_entry
from lakecli.errors import ConflictError
from lakecli.repository import branch, cherry_pick, commit, diff, log, merge, revert, tag
from lakecli.repository.reading.merge_points import find_merge_base
from lakecli.repository.reading.view import check_branch, open_view
from lakecli.repository.staged.changes import check_clean, uncommitted
from lakecli.serving.api import requests
from lakecli.serving.api.requests import (
    ApiCall,
    ApiError,
    ApiOperation,
    JsonFields,
    as_json,
    flag,
    name_text,
    shown_text,
)

_METADATA: Final = optional(requests.metadata, None)


def ref_json(ref: Branch | Tag) -> Mapping[str, Any]:
    """Return lakeFS's ``Ref``."""
    return {"id": ref.name, "commit_id": ref.commit_id}


def commit_json(found: Commit) -> Mapping[str, Any]:
    """Return lakeFS's ``Commit``."""
    same = ("id", "parents", "committer", "message", "metadata", "generation", "version")
    return as_json(found, *same, creation_date="created_at", meta_range_id="metarange_id")


# Branches ------------------------------------------------------------------------------------


def list_branches(call: ApiCall) -> Mapping[str, Any]:
    """List branches, without the hidden ones."""
    found = branch.iter_branches(
        call.repository, prefix=call.text("prefix"), after=call.text("after")
    )
    if not call.flag("show_hidden"):
        found = (each for each in found if not call.remembered.get(_hidden(call, each.name)))
    return requests.page(call, found, ref_json)


def _hidden(call: ApiCall, name: str) -> tuple[str, str]:
    return call["repository"], name


def create_branch(call: ApiCall) -> HTMLResponse:
    """Create a branch; a hidden one is left out of lists until the endpoint stops."""
    made = branch.create(call.repository, call.fields["name"], source=call.fields["source"])
    if call.fields["hidden"]:
        call.remembered.put(_hidden(call, made.name), value=True)
    return HTMLResponse(str(made.commit_id), 201)


def get_branch(call: ApiCall) -> Mapping[str, Any]:
    """Describe a branch."""
    return ref_json(branch.show(call.repository, call["branch"]))


def delete_branch(call: ApiCall) -> None:
    """Delete a branch with what is staged on it."""
    if call["branch"] == call.repository.record.default_branch:
        raise ApiError(403, "cannot delete repository default branch")
    branch.delete(call.repository, call["branch"])
    call.remembered.put(_hidden(call, call["branch"]), value=False)


_RESET: Final = JsonFields(
    type=choice("object", "common_prefix", "reset"),
    path=optional(or_empty(requests.path_text), ""),
)


def reset_branch(call: ApiCall) -> None:
    """Discard what is staged: of one object, below a prefix, or all of it."""
    path, kind = os.fsencode(call.fields["path"]), call.fields["type"]
    if kind == "reset":
        branch.reset(call.repository, call["branch"])
    else:
        reset = branch.reset_object if kind == "object" else branch.reset_prefix
        reset(call.repository, call["branch"], path)


def hard_reset_branch(call: ApiCall) -> None:
    """Move a branch without uncommitted changes to a commit."""
    name = call["branch"]
    check_branch(call.repository, name)
    with open_view(call.repository, name) as view:
        check_clean(view)
    branch.reset(call.repository, name, to=call.text("ref"), expected=view.commit.id)


_OVERRIDES: Final = JsonFields(
    message=optional(nullable(requests.free_text), None), metadata=_METADATA
)
_PICK: Final = JsonFields(
    ref=name_text,
    parent_number=optional(whole(0, 1 << 16), 0),
    commit_overrides=optional(_OVERRIDES, _OVERRIDES({})),
    allow_empty=flag,
)


def revert_branch(call: ApiCall) -> None:
    """Undo a commit by a new one."""
    revert.revert(
        call.repository,
        call["branch"],
        call.fields["ref"],
        committer=call.committer,
        parent_number=call.fields["parent_number"] or None,
        allow_empty=call.fields["allow_empty"],
        **call.fields["commit_overrides"],
    )


def cherry_pick_on(call: ApiCall) -> Mapping[str, Any]:
    """Apply the change of a commit to a branch."""
    if any(each is not None for each in call.fields["commit_overrides"].values()):
        raise ApiError(501, "a cherry-pick keeps the message and the metadata")
    made = cherry_pick.cherry_pick(
        call.repository,
        call.fields["ref"],
        call["branch"],
        committer=call.committer,
        parent_number=call.fields["parent_number"] or None,
    )
    return commit_json(made)


# Commits -------------------------------------------------------------------------------------

COMMIT: Final = JsonFields(
    message=requests.free_text,
    metadata=_METADATA,
    date=optional(whole(-MAX_COUNT, 253_000_000_000), -1),
    allow_empty=flag,
)


def create_commit(call: ApiCall) -> Mapping[str, Any]:
    """Commit what is staged."""
    if call.text("source_metarange"):
        raise ApiError(501, "commits are made of what is staged only")
    date = call.fields.pop("date")
    at = None if date < 0 else datetime.fromtimestamp(date, UTC)
    who = call.committer
    made = commit.commit(
        call.repository, call["branch"], committer=who, created_at=at, **call.fields
    )
    return commit_json(made)


def get_commit(call: ApiCall) -> Mapping[str, Any]:
    """Return the commit that an ID, or any ref expression, names."""
    return commit_json(log.show_commit(call.repository, call["commitId"]))


def log_commits(call: ApiCall) -> Mapping[str, Any]:
    """Return the history of a ref."""
    options = log.LogOptions(
        first_parent=call.flag("first_parent"),
        since=call.time("since"),
        after=call.text("after") or None,
        stop_at=call.text("stop_at") or None,
        objects=call.paths("objects"),
        prefixes=call.paths("prefixes"),
    )
    # With `limit`, no commit after the last one is searched for.
    looks_on = not call.flag("limit")
    with log.log(call.repository, call["ref"], options) as commits:
        return requests.page(
            call, commits, commit_json, lambda each: str(each.id), looks_on=looks_on
        )


# Differences ---------------------------------------------------------------------------------


def diff_branch(call: ApiCall) -> Mapping[str, Any]:
    """List what is staged on a branch."""
    check_branch(call.repository, call["branch"])
    with open_view(call.repository, call["branch"]) as view:
        return _page_of_changes(
            call, lambda start: uncommitted(view, prefix=call.raw("prefix"), start=start)
        )


def diff_of_refs(call: ApiCall) -> Mapping[str, Any]:
    """List the differences of two refs: since the merge base, or directly with ``two_dot``."""
    kind = choice("two_dot", "three_dot")(call.text("type") or "three_dot")
    refs = call["leftRef"], call["rightRef"]
    prefix, is_direct, trees = call.raw("prefix"), kind == "two_dot", call.repository.trees

    def changes(start: bytes) -> Iterator[Difference]:
        between = partial(diff.compare_here, trees, start=start)
        with diff.diff_refs(
            call.repository, *refs, prefix=prefix, two_way=is_direct, compare=between
        ) as found:
            yield from (each for each in found if each.path >= start)

    return _page_of_changes(call, changes, has_right=call.flag("include_right_stats"))


def _page_of_changes(
    call: ApiCall, changes: Callable[[bytes], Iterator[Difference]], *, has_right: bool = False
) -> Mapping[str, Any]:
    def by_path(start: bytes) -> Iterator[tuple[bytes, bytes]]:
        return ((each.path, cast("bytes", each)) for each in changes(start))

    listed = list_prefix(
        by_path, prefix=call.raw("prefix"), delimiter=call.raw("delimiter"), after=call.after
    )
    record = partial(_difference_json, has_right=has_right)
    return requests.page(call, listed, record, lambda each: requests.offset_of(each.path))


def _difference_json(found: ListedObject | ListedPrefix, *, has_right: bool) -> Mapping[str, Any]:
    """Return lakeFS's ``Diff``.

    Args:
        found: a path with its `Difference` as the value, or a common prefix of several paths.
        has_right: whether to describe the object of the right side.
    """
    path = shown_text(found.path)
    if isinstance(found, ListedPrefix):
        kind = {"type": "prefix_changed", "path_type": "common_prefix"}
        return {**kind, "path": path, "size_bytes": 0}
    change = cast("Difference", found.value)
    value = change.left if change.type is ChangeType.REMOVED else change.right or change.left
    assert value is not None
    entry = decode_entry(value)
    size = entry.size
    record = {"type": change.type, "path": path, "path_type": "object", "size_bytes": size}
    if not has_right or change.right is None:
        return record
    right = as_json(entry, "checksum", "content_type", "metadata", mtime="modified_at")
    return {**record, "right": right}


# Merges --------------------------------------------------------------------------------------

_MERGE: Final = JsonFields(
    message=optional(requests.free_text, ""),
    metadata=_METADATA,
    strategy=optional(or_empty(choice(*MergeStrategy)), ""),
    force=flag,
    allow_empty=flag,
    squash_merge=flag,
)


def merge_into_branch(call: ApiCall) -> Mapping[str, Any]:
    """Merge a ref into a branch."""
    wanted = _MERGE(call.document() if call.body else {})
    options = merge.MergeOptions(
        committer=call.committer,
        message=wanted["message"] or None,
        metadata=wanted["metadata"],
        decisions=Decisions(MergeStrategy(wanted["strategy"] or MergeStrategy.FAIL)),
        squash=wanted["squash_merge"],
        allow_empty=wanted["allow_empty"] or wanted["force"],
    )
    try:
        made = merge.merge(call.repository, call["sourceRef"], call["destinationBranch"], options)
    except ConflictError as error:
        # Old clients read a `MergeResult` here, newer ones an `Error`.
        raise ApiError(409, error.message, reference="") from error
    return {"reference": made.id}


def get_merge_base(call: ApiCall) -> Mapping[str, Any]:
    """Return the commits of a merge, and their best common ancestor."""
    points = find_merge_base(call.repository, call["sourceRef"], call["destinationBranch"])
    return {
        "source_commit_id": points.source.id,
        "destination_commit_id": points.destination.id,
        "base_commit_id": points.bases[0].id,
    }


# Tags ----------------------------------------------------------------------------------------


def list_tags(call: ApiCall) -> Mapping[str, Any]:
    """List tags."""
    found = tag.iter_tags(call.repository, prefix=call.text("prefix"), after=call.text("after"))
    return requests.page(call, found, ref_json)


def create_tag(call: ApiCall) -> Mapping[str, Any]:
    """Create a tag."""
    return ref_json(tag.create(call.repository, call.fields["id"], call.fields["ref"]))


def get_tag(call: ApiCall) -> Mapping[str, Any]:
    """Describe a tag."""
    return ref_json(tag.show(call.repository, call["tag"]))


def delete_tag(call: ApiCall) -> None:
    """Delete a tag."""
    tag.delete(call.repository, call["tag"])


_ONE: Final = "/repositories/{repository}"
_ALL: Final = _ONE + "/branches"
_NAMED: Final = _ALL + "/{branch}"
_MERGES: Final = _ONE + "/refs/{sourceRef}/merge/{destinationBranch}"
_TAGS: Final = _ONE + "/tags"
_BRANCH: Final = JsonFields(name=name_text, source=name_text, hidden=flag)
_TAG: Final = JsonFields(id=name_text, ref=name_text, force=flag)

OPERATIONS: Final = (
    ApiOperation("listBranches", "GET", _ALL, list_branches),
    ApiOperation("createBranch", "POST", _ALL, create_branch, 201, _BRANCH),
    ApiOperation("getBranch", "GET", _NAMED, get_branch),
    ApiOperation("deleteBranch", "DELETE", _NAMED, delete_branch, 204),
    ApiOperation("resetBranch", "PUT", _NAMED, reset_branch, 204, _RESET),
    ApiOperation("hardResetBranch", "PUT", _NAMED + "/hard_reset", hard_reset_branch, 204),
    ApiOperation("revertBranch", "POST", _NAMED + "/revert", revert_branch, 204, _PICK),
    ApiOperation("cherryPick", "POST", _NAMED + "/cherry-pick", cherry_pick_on, 201, _PICK),
    ApiOperation("diffBranch", "GET", _NAMED + "/diff", diff_branch),
    ApiOperation("commit", "POST", _NAMED + "/commits", create_commit, 201, COMMIT),
    ApiOperation("getCommit", "GET", _ONE + "/commits/{commitId}", get_commit),
    ApiOperation("logCommits", "GET", _ONE + "/refs/{ref}/commits", log_commits),
    ApiOperation("diffRefs", "GET", _ONE + "/refs/{leftRef}/diff/{rightRef}", diff_of_refs),
    ApiOperation("mergeIntoBranch", "POST", _MERGES, merge_into_branch),
    ApiOperation("findMergeBase", "GET", _MERGES, get_merge_base),
    ApiOperation("listTags", "GET", _TAGS, list_tags),
    ApiOperation("createTag", "POST", _TAGS, create_tag, 201, _TAG),
    ApiOperation("getTag", "GET", _TAGS + "/{tag}", get_tag),
    ApiOperation("deleteTag", "DELETE", _TAGS + "/{tag}", delete_tag, 204),
)
