"""Repositories: list, create, delete, metadata, protected branches, refs dumps."""

from __future__ import annotations

from datetime import UTC
from hashlib import sha256
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from lakecli.base.ids import MetarangeId
from lakecli.base.model import is_repository_name
from lakecli.base.validation import (
    Record,
    boolean,
    identifier,
    list_of,
    optional,
    or_empty,
    text_that,
)
from lakecli.refs.names import is_branch_name
from lakecli.repository import branch_protect, refs_dump, repo
from lakecli.repository.handle.lake import Lake
from lakecli.repository.lakefs.dump import RefsManifest
from lakecli.repository.lakefs.restore import restore_refs
from lakecli.serving.api.records import repository_json
from lakecli.serving.api.requests import (
    ApiCall,
    ApiError,
    ApiOperation,
    Json,
    json_response,
    name_text,
    page,
    read_fields,
)

if TYPE_CHECKING:
    from starlette.responses import Response

_branch_name = text_that(is_branch_name, "the name of a branch")

_CREATION: Final = Record(
    {
        "name": text_that(is_repository_name, "the name of a repository"),
        "storage_namespace": name_text,
        "default_branch": optional(or_empty(_branch_name), ""),
        "sample_data": optional(boolean, default=False),
        "read_only": optional(boolean, default=False),
        "storage_id": optional(or_empty(name_text), ""),
    }
)


def list_repositories(call: ApiCall) -> Json:
    """List the served repositories."""
    prefix, after, search = call.text("prefix"), call.text("after"), call.text("search")
    records = (
        each
        for each in call.context.served.records()
        if each.name.startswith(prefix) and each.name > after and search in each.name
    )
    return page(call, records, repository_json, lambda each: each.name)


def create_repository(call: ApiCall) -> Json:
    """Create a repository; every new one is as empty as lakeFS's bare ones."""
    wanted = call.read(_CREATION)
    for name in ("sample_data", "read_only", "storage_id"):
        if wanted[name]:
            raise ApiError(HTTPStatus.NOT_IMPLEMENTED, f"repositories have no {name}")
    served = call.context.served
    if not served.takes_new:
        raise ApiError(HTTPStatus.FORBIDDEN, "this endpoint serves certain repositories only")
    lake = served.lake
    made = repo.create(
        Lake(lake.home, lake.kv, lake.runtime._replace(command=call.client.command(call.action))),
        wanted["name"],
        wanted["storage_namespace"],
        default_branch=wanted["default_branch"] or repo.DEFAULT_BRANCH,
    )
    return repository_json(made.record)


def get_repository(call: ApiCall) -> Json:
    """Describe a repository."""
    return repository_json(call.repository().record._replace(name=call.name))


def delete_repository(call: ApiCall) -> Json:
    """Delete a repository on this machine; its namespace stays."""
    with call.acting() as repository:
        repo.delete(repository.lake, call.name)
    call.context.served.forget(call.name)
    return None


def get_metadata(call: ApiCall) -> Json:
    """Return the metadata of a repository: there is none."""
    call.repository()
    return {}


# Protected branches --------------------------------------------------------------------------

_RULE: Final = Record({"pattern": name_text})
_MOST_RULES: Final = 1_000


def _etag(patterns: list[str]) -> str:
    return sha256("\0".join(patterns).encode("utf-8", "surrogateescape")).hexdigest()


def get_branch_protection(call: ApiCall) -> Response:
    """List the patterns of branches that take merges only."""
    patterns = branch_protect.patterns(call.repository())
    found = [{"pattern": each} for each in patterns]
    return json_response(found, headers={"ETag": f'"{_etag(patterns)}"'})


def set_branch_protection(call: ApiCall) -> Json:
    """Replace the patterns."""
    found = list_of(lambda each: read_fields(each, _RULE)["pattern"], _MOST_RULES)(call.document())
    wanted = set(found)
    with call.acting() as repository:
        present = branch_protect.patterns(repository)
        expected = call.headers.get("if-match", "").strip('"')
        if expected and expected != _etag(present):
            raise ApiError(HTTPStatus.PRECONDITION_FAILED, "the rules have changed")
        for pattern in sorted(set(present) - wanted):
            branch_protect.delete(repository, pattern, who=call.committer())
        for pattern in sorted(wanted - set(present)):
            branch_protect.add(repository, pattern, who=call.committer())
    return None


# Refs dumps ----------------------------------------------------------------------------------

_tree = or_empty(identifier(MetarangeId))
_REFS: Final = Record(
    {
        "commits_meta_range_id": _tree,
        "branches_meta_range_id": _tree,
        "tags_meta_range_id": _tree,
        "force": optional(boolean, default=False),
    }
)


def dump_refs(call: ApiCall) -> Json:
    """Write a refs dump; as lakeFS's, it lacks what is staged."""
    with call.acting() as repository:
        dumped = refs_dump.refs_dump(repository, leave_out={refs_dump.Loss.UNCOMMITTED})
    return {
        "commits_meta_range_id": dumped.manifest.commits,
        "branches_meta_range_id": dumped.manifest.branches,
        "tags_meta_range_id": dumped.manifest.tags,
    }


def restore_from_dump(call: ApiCall) -> Json:
    """Fill an empty repository from a dump."""
    wanted = call.read(_REFS)
    trees = (wanted[f"{each}_meta_range_id"] for each in ("commits", "branches", "tags"))
    with call.acting() as repository:
        restore_refs(repository, RefsManifest(*trees))
    return None


def submit_dump(call: ApiCall) -> Json:
    """Write a refs dump, whose result is asked for later."""
    return _finished(call, refs=dump_refs(call))


def submit_restore(call: ApiCall) -> Json:
    """Fill an empty repository, and let the client ask for the result later."""
    restore_from_dump(call)
    return _finished(call)


def _finished(call: ApiCall, **result: Any) -> Json:  # noqa: ANN401 - JSON
    task = call.context.served.lake.runtime.new_id().hex()
    at = call.context.clock().astimezone(UTC).isoformat()
    call.remembered.put_task(task, {"id": task, "done": True, "update_time": at, **result})
    return {"id": task}


def get_task(call: ApiCall) -> Json:
    """Return the status of a dump or a restoration."""
    call.repository()
    return call.remembered.task(call.text("task_id"))


def list_runs(call: ApiCall) -> Json:
    """List runs of actions: there are none."""
    call.repository()
    return page(call, [], dict, str)


_ONE: Final = "/repositories/{repository}"
_RULES: Final = _ONE + "/settings/branch_protection"

OPERATIONS: Final = (
    ApiOperation("listRepositories", "GET", "/repositories", list_repositories),
    ApiOperation("createRepository", "POST", "/repositories", create_repository, 201),
    ApiOperation("getRepository", "GET", _ONE, get_repository),
    ApiOperation("deleteRepository", "DELETE", _ONE, delete_repository, 204),
    ApiOperation("getRepositoryMetadata", "GET", _ONE + "/metadata", get_metadata),
    ApiOperation("getBranchProtectionRules", "GET", _RULES, get_branch_protection),
    ApiOperation("setBranchProtectionRules", "PUT", _RULES, set_branch_protection, 204),
    ApiOperation("dumpRefs", "PUT", _ONE + "/refs/dump", dump_refs, 201),
    ApiOperation("restoreRefs", "PUT", _ONE + "/refs/restore", restore_from_dump),
    ApiOperation("dumpSubmit", "POST", _ONE + "/dump", submit_dump, 202),
    ApiOperation("dumpStatus", "GET", _ONE + "/dump", get_task),
    ApiOperation("restoreSubmit", "POST", _ONE + "/restore", submit_restore, 202),
    ApiOperation("restoreStatus", "GET", _ONE + "/restore", get_task),
    ApiOperation("listRepositoryRuns", "GET", _ONE + "/actions/runs", list_runs),
)
