"""Operations on repositories: list, create, delete, and protect branches."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from starlette.responses import Response

from lakecli.base.model import RepositoryRecord, is_repository_name
from lakecli.base.validation import list_of, text_that
from lakecli.errors import PermissionDenied, Unsupported
from lakecli.remote.policy import read_policy
from lakecli.repository import branch_protect, repo
from lakecli.repository.handle.lake import Lake
from lakecli.serving.api import requests
from lakecli.serving.api.requests import ApiCall, ApiOperation, JsonFields, name_text
from lakecli.serving.statuses import PreconditionFailed
from lakecli.stores.uri import as_url


def _as_json(record: RepositoryRecord) -> Mapping[str, Any]:
    """Return lakeFS's ``Repository``."""
    found = requests.as_json(
        record, "default_branch", id="name", creation_date="created_at", read_only="is_borrowed"
    )
    return {**found, "storage_id": "", "storage_namespace": as_url(record.storage_namespace)}


def list_repositories(call: ApiCall) -> Mapping[str, Any]:
    """List the served repositories."""
    prefix, after, search = call.text("prefix"), call.text("after"), call.text("search")
    records = (
        each
        for each in call.context.served.records()
        if each.name.startswith(prefix) and each.name > after and search in each.name
    )
    return requests.page(call, records, _as_json)


_CREATION: Final = JsonFields(
    name=text_that(is_repository_name, "the name of a repository"),
    storage_namespace=name_text,
    default_branch=requests.no_text,
    sample_data=requests.flag,
    read_only=requests.flag,
    storage_id=requests.no_text,
)


def create_repository(call: ApiCall) -> Mapping[str, Any]:
    """Create an empty repository, without sample data."""
    wanted, served = call.fields, call.context.served
    for name in ("sample_data", "read_only", "storage_id"):
        if wanted[name]:
            raise Unsupported(f"repositories have no {name}")
    if not served.takes_new:
        raise PermissionDenied("this endpoint serves certain repositories only")
    runtime = served.lake.runtime._replace(command=call.client.command(call.action))
    lake = Lake(served.lake.home, served.lake.kv, runtime)
    branch = wanted["default_branch"] or repo.DEFAULT_BRANCH
    made = repo.create(lake, wanted["name"], wanted["storage_namespace"], default_branch=branch)
    return _as_json(made.record)


def get_repository(call: ApiCall) -> Mapping[str, Any]:
    """Return a repository as ``Repository``, under its served name."""
    return _as_json(call.repository.record._replace(name=call["repository"]))


def delete_repository(call: ApiCall) -> None:
    """Delete a repository on this machine; the objects in its namespace stay."""
    repo.delete(call.repository.lake, call["repository"])


def _etag(patterns: list[str]) -> str:
    return sha256("\0".join(patterns).encode("utf-8", "surrogateescape")).hexdigest()


def get_branch_protection(call: ApiCall) -> Response:
    """List the patterns of protected branches, which accept only merges."""
    patterns = branch_protect.patterns(call.repository)
    found = [{"pattern": each} for each in patterns]
    return requests.json_response(found, headers={"ETag": f'"{_etag(patterns)}"'})


def set_branch_protection(call: ApiCall) -> None:
    """Replace the patterns of protected branches."""
    wanted = {each["pattern"] for each in call.fields}
    present = read_policy(call.repository.store)
    expected = call.request.headers.get("if-match", "").strip('"')
    if expected and expected != _etag(branch_protect.patterns_of(present)):
        raise PreconditionFailed("the rules have changed")
    branch_protect.set_patterns(call.repository, wanted, who=call.committer, present=present)


_PATTERNS: Final = list_of(JsonFields(pattern=name_text), 1_000)

_RULES: Final = "/settings/branch_protection"

OPERATIONS: Final = (
    ApiOperation("listRepositories", "GET", "/repositories", list_repositories),
    ApiOperation("createRepository", "POST", "/repositories", create_repository, 201, _CREATION),
    *requests.on_repository(
        ApiOperation("getRepository", "GET", "", get_repository),
        ApiOperation("deleteRepository", "DELETE", "", delete_repository, 204),
        ApiOperation("getRepositoryMetadata", "GET", "/metadata", lambda _: {}),
        ApiOperation("getBranchProtectionRules", "GET", _RULES, get_branch_protection),
        ApiOperation(
            "setBranchProtectionRules", "PUT", _RULES, set_branch_protection, 204, _PATTERNS
        ),
    ),
)
