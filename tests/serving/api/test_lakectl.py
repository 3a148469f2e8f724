"""The requests of lakectl 1.84, command by command, as its client sends them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.serving.api.test_refs import DEMO, MAIN

if TYPE_CHECKING:
    from pathlib import Path

    from tests.serving.api.site import Answer, Site

PAGE = {"prefix": "", "after": "", "amount": 100}
OBJECTS = MAIN + "/objects"
MERGE = {"strategy": "", "force": False, "allow_empty": False, "squash_merge": False}


class Lakectl:
    """Sends the requests of commands; before each command those that lakectl always sends."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def __call__(
        self, status: int, method: str, target: str, body: Any = None, /, **query: Any
    ) -> Any:
        headers = {"User-Agent": "lakectl/1.84.0", "X-Lakefs-Client": "lakectl/1.84.0"}
        events = {"events": [{"class": "lakectl", "name": "x", "count": 1}]}
        assert self._site("POST", "/statistics", events, headers).status == 204
        assert self._site("GET", "/config", None, headers).status == 200
        answer: Answer = self._site(method, target, body, headers, **query)
        assert answer.status == status, (method, target, answer.body)
        is_json = answer.headers.get("content-type") == "application/json"
        return answer.json if is_json and answer.body else answer.body


@pytest.fixture
def lakectl(site: Site) -> Lakectl:
    return Lakectl(site)


def upload(lakectl: Lakectl, path: str, data: bytes = b"1", branch: str = "main") -> None:
    """fs upload."""
    lakectl(201, "POST", f"{DEMO}/branches/{branch}/objects", data, path=path)


def commit(lakectl: Lakectl, message: str, branch: str = "main") -> str:
    """commit."""
    body = {"message": message, "metadata": {}, "allow_empty": False}
    return str(lakectl(201, "POST", f"{DEMO}/branches/{branch}/commits", body)["id"])


def test_repositories(lakectl: Lakectl, tmp_path: Path) -> None:
    body = {
        "name": "shop", "storage_namespace": f"local://{tmp_path}/shop", "default_branch": "trunk",
        "sample_data": False,
    }  # fmt: skip
    lakectl(201, "POST", "/repositories", body)
    assert "message" in lakectl(409, "POST", "/repositories", body)
    names = [each["id"] for each in lakectl(200, "GET", "/repositories", **PAGE)["results"]]
    assert names == ["demo", "shop"]
    lakectl(200, "GET", "/repositories/shop/branches/trunk")
    lakectl(204, "DELETE", "/repositories/shop", force="false")
    lakectl(404, "DELETE", "/repositories/shop")


def test_branches_tags_and_merges(lakectl: Lakectl) -> None:
    upload(lakectl, "a")
    first = commit(lakectl, "first")
    made = lakectl(201, "POST", DEMO + "/branches", {"name": "dev", "source": "main"})
    assert made.decode() == first
    assert len(lakectl(200, "GET", DEMO + "/branches", **PAGE)["results"]) == 2
    upload(lakectl, "b", branch="dev")
    assert len(lakectl(200, "GET", DEMO + "/branches/dev/diff", **PAGE)["results"]) == 1
    commit(lakectl, "second", branch="dev")
    diff = lakectl(200, "GET", DEMO + "/refs/main/diff/dev", type="three_dot", delimiter="", **PAGE)
    assert [each["path"] for each in diff["results"]] == ["b"]
    merge = DEMO + "/refs/dev/merge/main"
    made = lakectl(200, "POST", merge, {"message": "", "metadata": {}, **MERGE})
    lakectl(400, "POST", merge, {"message": "", "metadata": {}, **MERGE})
    assert lakectl(200, "GET", merge)["source_commit_id"]
    lakectl(200, "GET", DEMO + f"/commits/{made['reference']}")
    log = {"amount": 0, "limit": "false", "first_parent": "false", "after": ""}
    assert len(lakectl(200, "GET", DEMO + "/refs/main/commits", **log)["results"]) == 4
    lakectl(
        204, "POST", MAIN + "/revert", {"ref": "main", "parent_number": 1, "allow_empty": False}
    )
    lakectl(201, "POST", MAIN + "/cherry-pick", {"ref": "dev", "parent_number": 1})
    tag = {"id": "v1.0", "ref": "main~1", "force": False}
    assert lakectl(201, "POST", DEMO + "/tags", tag)["id"] == "v1.0"
    assert len(lakectl(200, "GET", DEMO + "/tags", **PAGE)["results"]) == 1
    lakectl(204, "DELETE", DEMO + "/tags/v1.0")
    lakectl(404, "DELETE", DEMO + "/tags/v1.0")
    upload(lakectl, "c")
    lakectl(204, "PUT", MAIN, {"type": "common_prefix", "path": "c"})
    lakectl(204, "DELETE", DEMO + "/branches/dev")
    annotate = {"amount": 1, "limit": "true", "objects": "a", "prefixes": ""}
    found = lakectl(200, "GET", DEMO + "/refs/main/commits", **annotate)["results"]
    assert [each["message"] for each in found] == ["first"]


def test_fs(lakectl: Lakectl, tmp_path: Path) -> None:
    for path in ("d/1", "d/2", "e"):
        upload(lakectl, path)
    listed = lakectl(
        200, "GET", DEMO + "/refs/main/objects/ls", delimiter="/", prefix="", after="", amount=1000
    )
    assert [each["path"] for each in listed["results"]] == ["d/", "e"]
    lakectl(200, "GET", DEMO + "/refs/main/objects/stat", path="e", presign="false")
    assert lakectl(200, "GET", DEMO + "/refs/main/objects", path="e", presign="false") == b"1"
    lakectl(204, "PUT", OBJECTS + "/stat/user_metadata", {"set": {"k": "v"}}, path="e")
    lakectl(204, "DELETE", OBJECTS, path="e")
    assert lakectl(200, "POST", OBJECTS + "/delete", {"paths": ["d/1", "d/2"]}) == {"errors": []}
    (tmp_path / "out").write_bytes(b"1")
    staged = {
        "physical_address": f"local://{tmp_path}/out", "checksum": "c", "size_bytes": 1,
        "mtime": 0, "content_type": "", "metadata": {},
    }  # fmt: skip
    lakectl(201, "PUT", OBJECTS, staged, path="staged")
    lakectl(400, "POST", MAIN + "/commits", {"message": "x", "date": "soon"})


def test_settings_and_plumbing(lakectl: Lakectl) -> None:
    rules = DEMO + "/settings/branch_protection"
    assert lakectl(200, "GET", rules) == []
    lakectl(204, "PUT", rules, [{"pattern": "stable_*"}])
    lakectl(501, "GET", DEMO + "/settings/gc_rules")
    assert lakectl(200, "GET", DEMO + "/actions/runs", **PAGE)["results"] == []
    assert lakectl(200, "GET", "/user")["user"]["id"] == "Ada <ada@example.com>"
    assert lakectl(200, "GET", "/setup_lakefs")["state"] == "initialized"
    lakectl(501, "GET", "/auth/users", **PAGE)
