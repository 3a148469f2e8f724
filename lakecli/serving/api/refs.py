"""Branches, tags and commits: list, create, move, delete, log, diff, merge."""

import os
from collections.abc import Iterator, Mapping
from functools import partial
from operator import attrgetter
from typing import Any, Final

from starlette.responses import HTMLResponse, Response

from lakecli.base.model import Branch, Commit, Difference, MergeStrategy, Tag
from lakecli.base.validation import MAX_COUNT, choice, optional, or_empty, whole
from lakecli.committed.decisions import Decisions
from lakecli.committed.scan import ListedPrefix
from lakecli.committed.values import decode_entry
from lakecli.errors import ConflictError, PermissionDenied, Unsupported
from lakecli.repository import branch, cherry_pick, commit, diff, log, merge, revert, tag
from lakecli.repository.reading.merge_points import find_merge_base
from lakecli.repository.reading.view import check_branch, open_view
from lakecli.repository.staged.changes import uncommitted
from lakecli.serving.api import requests
from lakecli.serving.api.requests import ApiCall, ApiOperation, JsonFields, as_json, flag

_METADATA: Final = optional(requests.metadata, None)


def ref_json(ref: Branch | Tag) -> Mapping[str, Any]:
    """Return lakeFS's ``Ref``."""
    return {"id": ref.name, "commit_id": ref.commit_id}


def commit_json(found: Commit) -> Mapping[str, Any]:
    """Return lakeFS's ``Commit``."""
    same = ("id", "parents", "committer", "message", "metadata", "generation", "version")
    return as_json(found, *same, creation_date="created_at", meta_range_id="metarange_id")


# Branches ------------------------------------------------------------------------------------


class HiddenBranches(set[tuple[str, str]]):
    """The repository and name of each hidden branch, kept in memory until the endpoint stops."""


def list_branches(call: ApiCall) -> Mapping[str, Any]:
    """List branches; hidden ones only with ``show_hidden``."""
    prefix, after = call.text("prefix"), call.text("after")
    found = branch.iter_branches(call.repository, prefix=prefix, after=after)
    if not call.flag("show_hidden"):
        hidden, name = call.context.own(HiddenBranches), call["repository"]
        found = (each for each in found if (name, each.name) not in hidden)
    return requests.page(call, found, ref_json)


def create_branch(call: ApiCall) -> HTMLResponse:
    """Create a branch; lists leave out a hidden branch until the endpoint stops."""
    made = branch.create(call.repository, call.fields["name"], source=call.fields["source"])
    hidden = call.context.own(HiddenBranches)
    change = hidden.add if call.fields["hidden"] else hidden.discard
    change((call["repository"], made.name))
    return HTMLResponse(str(made.commit_id), 201)


def get_branch(call: ApiCall) -> Mapping[str, Any]:
    """Return a branch as ``Ref``."""
    return ref_json(branch.show(call.repository, call["branch"]))


def delete_branch(call: ApiCall) -> None:
    """Delete a branch and its uncommitted changes; refuse the default branch."""
    if call["branch"] == call.repository.record.default_branch:
        raise PermissionDenied("cannot delete repository default branch")
    branch.delete(call.repository, call["branch"])
    call.context.own(HiddenBranches).discard((call["repository"], call["branch"]))


_RESET: Final = JsonFields(
    type=choice("object", "common_prefix", "reset"), path=optional(or_empty(requests.path_text), "")
)


def reset_branch(call: ApiCall) -> None:
    """Discard uncommitted changes: of one path, below a prefix, or all of them."""
    path, kind = os.fsencode(call.fields["path"]), call.fields["type"]
    if kind == "reset":
        branch.reset(call.repository, call["branch"])
    else:
        reset = branch.reset_object if kind == "object" else branch.reset_prefix
        reset(call.repository, call["branch"], path)


_OVERRIDES: Final = JsonFields(message=requests.no_text, metadata=_METADATA)
_PICK: Final = JsonFields(
    ref=requests.name_text,
    parent_number=optional(lambda value: whole(0, 1 << 16)(value) or None, None),
    commit_overrides=optional(_OVERRIDES, _OVERRIDES({})),
    allow_empty=flag,
)


def revert_branch(call: ApiCall) -> None:
    """Revert a commit: commit the opposite change on a branch."""
    overrides, who = call.fields.pop("commit_overrides"), call.committer
    revert.revert(call.repository, call["branch"], committer=who, **call.fields, **overrides)


def cherry_pick_on(call: ApiCall) -> Mapping[str, Any]:
    """Cherry-pick a commit: commit its change on a branch."""
    given = call.fields
    if any(each is not None for each in given["commit_overrides"].values()):
        raise Unsupported("a cherry-pick keeps the message and the metadata")
    made = cherry_pick.cherry_pick(
        call.repository, given["ref"], call["branch"], committer=call.committer,
        parent_number=given["parent_number"],
    )  # fmt: skip
    return commit_json(made)


# Commits -------------------------------------------------------------------------------------

COMMIT: Final = JsonFields(
    message=requests.free_text,
    metadata=_METADATA,
    date=optional(requests.seconds(-MAX_COUNT), None),
    allow_empty=flag,
)


def create_commit(call: ApiCall) -> Mapping[str, Any]:
    """Commit the uncommitted changes of a branch."""
    if call.text("source_metarange"):
        raise Unsupported("commits are made of what is staged only")
    given = {"committer": call.committer, "created_at": call.fields.pop("date"), **call.fields}
    return commit_json(commit.commit(call.repository, call["branch"], **given))


def get_commit(call: ApiCall) -> Mapping[str, Any]:
    """Return the commit that an ID or another ref expression names."""
    return commit_json(log.show_commit(call.repository, call["commitId"]))


def log_commits(call: ApiCall) -> Mapping[str, Any]:
    """Return the history of a ref."""
    options = log.LogOptions(
        first_parent=call.flag("first_parent"), since=call.time("since"),
        after=call.text("after") or None, stop_at=call.text("stop_at") or None,
        objects=call.paths("objects"), prefixes=call.paths("prefixes"),
    )  # fmt: skip
    # With `limit`, do not search for a commit beyond the page.
    looks_on = not call.flag("limit")
    with log.log(call.repository, call["ref"], options) as commits:
        return requests.page(call, commits, commit_json, attrgetter("id"), looks_on=looks_on)


# Differences ---------------------------------------------------------------------------------


def diff_branch(call: ApiCall) -> Mapping[str, Any]:
    """List the uncommitted changes of a branch."""
    check_branch(call.repository, call["branch"])
    with open_view(call.repository, call["branch"]) as view:
        changes = partial(uncommitted, view, prefix=call.raw("prefix"))
        return requests.page_of_paths(call, partial(diff.list_changes, changes), _difference_json)


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

    record = partial(_difference_json, has_right=call.flag("include_right_stats"))
    return requests.page_of_paths(call, partial(diff.list_changes, changes), record)


def _difference_json(
    change: Difference | ListedPrefix, *, has_right: bool = False
) -> Mapping[str, Any]:
    """Return lakeFS's ``Diff``.

    Args:
        has_right: whether to describe the object on the right side, too.
    """
    record: dict[str, Any] = {"path": requests.shown_text(change.path)}
    if isinstance(change, ListedPrefix):
        return record | {"type": "prefix_changed", "path_type": "common_prefix", "size_bytes": 0}
    value = change.right or change.left
    assert value is not None
    entry, same = decode_entry(value), ("checksum", "content_type", "metadata")
    record |= {"type": change.type, "path_type": "object", "size_bytes": entry.size}
    if has_right and change.right is not None:
        record["right"] = as_json(entry, *same, mtime="modified_at")
    return record


# Merges --------------------------------------------------------------------------------------

_MERGE: Final = JsonFields(
    message=optional(requests.free_text, ""),
    metadata=_METADATA,
    strategy=optional(or_empty(choice(*MergeStrategy)), ""),
    force=flag,
    allow_empty=flag,
    squash_merge=flag,
)


def merge_into_branch(call: ApiCall) -> Mapping[str, Any] | Response:
    """Merge a ref into a branch; return the ID of the merge commit."""
    wanted = call.fields
    decisions = Decisions(MergeStrategy(wanted["strategy"] or MergeStrategy.FAIL))
    options = merge.MergeOptions(
        call.committer, wanted["message"] or None, wanted["metadata"], decisions,
        squash=wanted["squash_merge"], allow_empty=wanted["allow_empty"] or wanted["force"],
    )  # fmt: skip
    try:
        made = merge.merge(call.repository, call["sourceRef"], call["destinationBranch"], options)
    except ConflictError as error:
        # Old clients read a `MergeResult` here, newer clients an `Error`.
        return requests.json_response({"message": error.message, "reference": ""}, 409)
    return {"reference": made.id}


def get_merge_base(call: ApiCall) -> Mapping[str, Any]:
    """Return the commit IDs of the source, the destination and their merge base."""
    points = find_merge_base(call.repository, call["sourceRef"], call["destinationBranch"])
    base, sides = points.bases[0], {"source": points.source, "destination": points.destination}
    return {f"{side}_commit_id": found.id for side, found in {"base": base, **sides}.items()}


# Tags ----------------------------------------------------------------------------------------


def list_tags(call: ApiCall) -> Mapping[str, Any]:
    """List tags."""
    found = tag.iter_tags(call.repository, prefix=call.text("prefix"), after=call.text("after"))
    return requests.page(call, found, ref_json)


def create_tag(call: ApiCall) -> Mapping[str, Any]:
    """Create a tag."""
    return ref_json(tag.create(call.repository, call.fields["id"], call.fields["ref"]))


def get_tag(call: ApiCall) -> Mapping[str, Any]:
    """Return a tag as ``Ref``."""
    return ref_json(tag.show(call.repository, call["tag"]))


def delete_tag(call: ApiCall) -> None:
    """Delete a tag."""
    tag.delete(call.repository, call["tag"])


_BRANCH: Final = JsonFields(name=requests.name_text, source=requests.name_text, hidden=flag)
_TAG: Final = JsonFields(id=requests.name_text, ref=requests.name_text)

_MERGES: Final = "/refs/{sourceRef}/merge/{destinationBranch}"

OPERATIONS: Final = requests.on_repository(
    ApiOperation("listBranches", "GET", "/branches", list_branches),
    ApiOperation("createBranch", "POST", "/branches", create_branch, 201, _BRANCH),
    ApiOperation("getBranch", "GET", "/branches/{branch}", get_branch),
    ApiOperation("deleteBranch", "DELETE", "/branches/{branch}", delete_branch, 204),
    ApiOperation("resetBranch", "PUT", "/branches/{branch}", reset_branch, 204, _RESET),
    ApiOperation("revertBranch", "POST", "/branches/{branch}/revert", revert_branch, 204, _PICK),
    ApiOperation(
        "cherryPick", "POST", "/branches/{branch}/cherry-pick", cherry_pick_on, 201, _PICK
    ),
    ApiOperation("diffBranch", "GET", "/branches/{branch}/diff", diff_branch),
    ApiOperation("commit", "POST", "/branches/{branch}/commits", create_commit, 201, COMMIT),
    ApiOperation("getCommit", "GET", "/commits/{commitId}", get_commit),
    ApiOperation("logCommits", "GET", "/refs/{ref}/commits", log_commits),
    ApiOperation("diffRefs", "GET", "/refs/{leftRef}/diff/{rightRef}", diff_of_refs),
    ApiOperation("mergeIntoBranch", "POST", _MERGES, merge_into_branch, body=_MERGE),
    ApiOperation("findMergeBase", "GET", _MERGES, get_merge_base),
    ApiOperation("listTags", "GET", "/tags", list_tags),
    ApiOperation("createTag", "POST", "/tags", create_tag, 201, _TAG),
    ApiOperation("getTag", "GET", "/tags/{tag}", get_tag),
    ApiOperation("deleteTag", "DELETE", "/tags/{tag}", delete_tag, 204),
)
