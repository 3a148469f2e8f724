"""Access, configuration, repositories and what is refused, of the REST API."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakecli import errors
from lakecli.kv import operations
from lakecli.repository import push
from lakecli.serving.access import COOKIE
from lakecli.serving.api.requests import of_lake_error
from lakecli.serving.context import Options
from lakecli.serving.statuses import PreconditionFailed
from tests.serving.api.site import Site
from tests.serving.api.test_refs import DEMO, MAIN, commit, put, results

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.repository.handle.lake import Lake


FAMILIES = (
    errors.UsageError, errors.NothingToDo, errors.DirtyBranch, errors.PermissionDenied,
    errors.Forbidden, errors.NotFound, errors.AlreadyExists, errors.ConflictError, errors.Refused,
    errors.HookFailed, PreconditionFailed, errors.LostRace, errors.IntegrityError,
    errors.Unsupported, errors.Unreachable, errors.OutcomeUnknown,
)  # fmt: skip
STRANGERS = ("", "Basic", "Basic !!!", "Basic S0VZOndyb25n", "Bearer x", "Bearer ", "Digest x")


def test_strangers_are_refused(site: Site) -> None:
    for authorization in STRANGERS:
        headers = {"Authorization": authorization}
        for method, path in (("GET", "/user"), ("POST", DEMO + "/branches"), ("GET", "/nonsense")):
            answer = site(method, path, None, headers)
            assert answer.status == 401
            assert answer.headers["www-authenticate"].startswith("Basic")
        for path in ("/healthcheck", "/setup_lakefs"):
            assert site("GET", path, None, headers).status < 300


def test_cookie_of_a_browser_only_reads(site: Site) -> None:
    session = site.access.begin_session(site.access.new_link_token())
    headers = {"Authorization": "", "Cookie": f"{COOKIE}={session}"}
    assert site("GET", "/repositories", None, headers).status == 200
    assert site("DELETE", DEMO, None, headers).status == 401


def test_configuration(site: Site) -> None:
    config = site("GET", "/config").json
    assert config["storage_config"] == site("GET", "/config/storage").json
    assert config["storage_config"]["blockstore_type"] == "local"
    assert not config["storage_config"]["pre_sign_support"]
    version = site("GET", "/config/version").json["version"]
    assert tuple(map(int, version.split("."))) > (1, 80)
    assert site("GET", "/setup_lakefs").json["state"] == "initialized"
    user = site("GET", "/user").json["user"]
    assert user["id"] == user["friendly_name"] == "Ada <ada@example.com>"
    assert site("POST", "/statistics", {"events": []}).status == 204


def test_presigned_urls_are_announced_with_redirect(lake: Lake) -> None:
    site = Site(lake)
    options = Options(redirect=True)
    site.context = replace(site.context, options=options)
    assert not site("GET", "/config").json["storage_config"]["pre_sign_support"]
    record = lake.repository("demo").record._replace(storage_namespace="s3://bucket/demo")
    site.context.served.records = lambda: [record]  # type: ignore[method-assign]
    found = site("GET", "/config").json["storage_config"]
    assert (found["blockstore_type"], found["pre_sign_support"]) == ("s3", True)


def test_repositories(site: Site, tmp_path: Path) -> None:
    assert results(site("GET", "/repositories")) == ["demo"]
    body = {"name": "other", "storage_namespace": f"local://{tmp_path}/other"}
    made = site("POST", "/repositories", body, bare="true")
    assert (made.status, made.json["default_branch"]) == (201, "main")
    assert made.json["storage_namespace"] == body["storage_namespace"]
    assert site("POST", "/repositories", body).status == 409
    assert site("POST", "/repositories", {**body, "name": "UPPER"}).status == 400
    assert site("POST", "/repositories", {**body, "sample_data": True}).status == 501
    assert results(site("GET", "/repositories")) == ["demo", "other"]
    assert results(site("GET", "/repositories", search="the")) == ["other"]
    page = site("GET", "/repositories", amount=1)
    assert page.json["pagination"]["next_offset"] == "demo"
    assert results(site("GET", "/repositories", after="demo")) == ["other"]
    assert site("GET", "/repositories/other/metadata").json == {}
    assert site("DELETE", "/repositories/other").status == 204
    assert site("GET", "/repositories/other").status == 404
    assert site("GET", "/repositories/other/branches").status == 404


def test_writes_are_refused_where_only_reading_is_served(lake: Lake) -> None:
    site = Site(lake, read_only=True)
    assert put(site, "a").status == 403
    assert site("DELETE", DEMO).status == 403
    assert site("POST", MAIN + "/commits", {"message": "m"}).status == 403
    assert site("GET", MAIN).status == 200
    body = {"name": "other", "storage_namespace": "s3://x/y"}
    assert Site(lake, names=["demo"])("POST", "/repositories", body).status == 403


def test_namespace_without_a_clone_is_read(lake: Lake, site: Site, tmp_path: Path) -> None:
    put(site, "a", b"data")
    made = commit(site)
    push.push(lake.repository("demo"), "main", options=push.PushOptions(who="Ada"))
    uri = f"local://{tmp_path}/namespace"
    there = Site(lake, names=[], namespaces={"remote": uri})
    assert results(there("GET", "/repositories")) == ["remote"]
    remote = "/repositories/remote"
    assert there("GET", remote).json["id"] == "remote"
    assert there("GET", "/config").status == 200
    assert results(there("GET", remote + "/branches")) == ["main"]
    assert results(there("GET", remote + "/refs/main/commits"))[0] == made["id"]
    assert there("GET", remote + "/refs/main/objects", path="a").body == b"data"
    assert results(there("GET", remote + "/refs/main/objects/ls"), "path") == ["a"]
    assert results(there("GET", remote + "/branches/main/diff"), "path") == []
    found = there("GET", remote + "/refs/main~1/diff/main", type="two_dot")
    assert results(found, "path") == ["a"]
    assert there("POST", remote + "/branches/main/objects", b"x", path="b").status == 403
    assert there("DELETE", remote).status == 403


def test_committed_only(lake: Lake, site: Site) -> None:
    put(site, "a")
    commit(site)
    put(site, "b")
    shown = Site(lake, committed=True)
    assert results(shown("GET", DEMO + "/refs/main/objects/ls"), "path") == ["a"]


def test_protected_branches(site: Site) -> None:
    rules = DEMO + "/settings/branch_protection"
    assert site("GET", rules).json == []
    assert site("PUT", rules, [{"pattern": "A"}, {"pattern": "["}]).status == 400
    assert site("GET", rules).json == []
    assert site("PUT", rules, [{"pattern": "main"}, {"pattern": "v*"}]).status == 204
    found = site("GET", rules)
    assert [each["pattern"] for each in found.json] == ["main", "v*"]
    assert put(site, "a").status == 403
    assert site("PUT", rules, [], {"If-Match": '"old"'}).status == 412
    assert (
        site("PUT", rules, [{"pattern": "v*"}], {"If-Match": found.headers["etag"]}).status == 204
    )


def test_dump_and_restore(lake: Lake, site: Site) -> None:
    dump = DEMO + "/dump"
    assert site("POST", dump).status == 409  # nothing was pushed
    push.push(lake.repository("demo"), "main", options=push.PushOptions(who="Ada"))
    task = site("POST", dump)
    assert task.status == 202
    status = site("GET", dump, task_id=task.json["id"]).json
    refs = status["refs"]
    assert (status["done"], set(map(len, refs.values()))) == (True, {64})
    task = site("POST", DEMO + "/restore", {**refs, "force": True})
    assert site("GET", DEMO + "/restore", task_id=task.json["id"]).json["done"]
    put(site, "a")
    assert site("POST", DEMO + "/restore", refs).status == 409
    assert site("POST", DEMO + "/restore", {"commits_meta_range_id": "x"}).status == 400
    assert site("GET", dump, task_id="none").status == 404


def test_absent_features(site: Site) -> None:
    assert results(site("GET", DEMO + "/actions/runs")) == []
    assert site("GET", DEMO + "/actions/runs/1").status == 501
    for path in ("/auth/users", "/auth/groups", DEMO + "/pulls", "/usage-report/summary", "/x"):
        answer = site("GET", path)
        assert (answer.status, bool(answer.message)) == (501, True)
    assert site("PATCH", DEMO).status == 501


def test_operation_log_names_client_and_action(lake: Lake, site: Site) -> None:
    put(site, "a")
    commit(site)
    repository = lake.repository("demo")
    with lake.kv.read() as txn:
        found: list[Any] = list(operations.iter_operations(txn, repository.key))
    assert [each.command for each in found[:2]] == [
        "api: commit by test",
        "api: uploadObject by test",
    ]


def test_statuses_of_errors() -> None:
    found = {
        error.__name__: of_lake_error(error("what", hint="why")).status_code for error in FAMILIES
    }
    assert found == {
        "UsageError": 400, "NothingToDo": 400, "DirtyBranch": 400, "PermissionDenied": 403,
        "Forbidden": 403, "NotFound": 404, "AlreadyExists": 409, "ConflictError": 409,
        "Refused": 409, "HookFailed": 412, "PreconditionFailed": 412, "LostRace": 423,
        "IntegrityError": 500, "Unsupported": 501, "Unreachable": 503, "OutcomeUnknown": 504,
    }  # fmt: skip
    assert of_lake_error(errors.NotFound("what", hint="why")).detail == "what (why)"
