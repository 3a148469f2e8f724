"""Branches, tags, commits, log, diff and merge of the REST API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakecli.repository.branch import delete
from lakecli.serving.api import tasks

if TYPE_CHECKING:
    import pytest

    from lakecli.repository.handle.lake import Lake
    from tests.serving.api.site import Answer, Site

DEMO = "/repositories/demo"
MAIN = DEMO + "/branches/main"


def put(site: Site, path: str, data: bytes = b"1", branch: str = "main") -> Answer:
    return site("POST", f"{DEMO}/branches/{branch}/objects", data, path=path)


def commit(site: Site, message: str = "m", branch: str = "main", **fields: Any) -> dict[str, Any]:
    answer = site("POST", f"{DEMO}/branches/{branch}/commits", {"message": message, **fields})
    assert answer.status == 201, answer.body
    return dict(answer.json)


def branch(site: Site, name: str, source: str = "main", **fields: Any) -> Answer:
    return site("POST", DEMO + "/branches", {"name": name, "source": source, **fields})


def results(answer: Answer, field: str = "id") -> list[str]:
    assert answer.status == 200, answer.body
    return [each[field] for each in answer.json["results"]]


def test_branches(site: Site) -> None:
    head = site("GET", MAIN).json["commit_id"]
    made = branch(site, "dev")
    assert (made.status, made.body.decode()) == (201, head)
    assert branch(site, "dev").status == 409
    assert branch(site, "x", "nowhere").status == 404
    assert branch(site, "x.y").status == 400
    assert branch(site, "tx", hidden=True).status == 201
    assert results(site("GET", DEMO + "/branches")) == ["dev", "main"]
    assert results(site("GET", DEMO + "/branches", show_hidden="true")) == ["dev", "main", "tx"]
    page = site("GET", DEMO + "/branches", amount=1)
    assert page.json["pagination"] == {
        "has_more": True, "next_offset": "dev", "results": 1, "max_per_page": 1000,
    }  # fmt: skip
    assert results(site("GET", DEMO + "/branches", after="dev")) == ["main"]
    assert results(site("GET", DEMO + "/branches", prefix="d")) == ["dev"]
    assert site("DELETE", DEMO + "/branches/tx").status == 204
    assert branch(site, "tx").status == 201
    assert "tx" in results(site("GET", DEMO + "/branches"))
    assert site("DELETE", DEMO + "/branches/nope").status == 404
    assert site("DELETE", MAIN).status == 403


def test_a_branch_stays_hidden_whatever_else_is_kept(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "MOST_TASKS", 2)
    assert branch(site, "tx", hidden=True).status == 201
    for number in range(3):
        site.context.own(tasks.Tasks).put(f"task {number}", {}, 1)
        assert branch(site, "other", hidden=True).status == 201
        assert site("DELETE", DEMO + "/branches/other").status == 204
    assert results(site("GET", DEMO + "/branches")) == ["main"]


def test_a_branch_that_is_made_again_is_hidden_only_if_asked(lake: Lake, site: Site) -> None:
    assert branch(site, "tx", hidden=True).status == 201
    delete(lake.repository("demo"), "tx")
    assert branch(site, "tx").status == 201
    assert results(site("GET", DEMO + "/branches")) == ["main", "tx"]


def test_reset(site: Site) -> None:
    for path in ("a/1", "a/2", "b", "c"):
        put(site, path)
    assert site("PUT", MAIN, {"type": "object", "path": "b"}).status == 204
    assert results(site("GET", MAIN + "/diff"), "path") == ["a/1", "a/2", "c"]
    assert site("PUT", MAIN, {"type": "common_prefix", "path": "a/"}).status == 204
    assert results(site("GET", MAIN + "/diff"), "path") == ["c"]
    assert site("PUT", MAIN, {"type": "reset"}).status == 204
    assert results(site("GET", MAIN + "/diff"), "path") == []
    assert site("PUT", MAIN, {"type": "all"}).status == 400


def test_commits(site: Site) -> None:
    nothing = site("POST", MAIN + "/commits", {"message": "none"})
    assert (nothing.status, nothing.message[:17]) == (400, "nothing to commit")
    put(site, "a")
    made = commit(site, "one", metadata={"k": "v"}, date=0)
    assert made["committer"] == "Ada <ada@example.com>"
    assert (made["creation_date"], made["metadata"], made["generation"]) == (0, {"k": "v"}, 2)
    assert commit(site, "", allow_empty=True, date=-1)["creation_date"] > 0
    assert site("GET", DEMO + "/commits/main~1").json == made
    assert site("GET", DEMO + f"/commits/{made['id'][:12]}").json["message"] == "one"
    assert site("GET", DEMO + "/commits/nope").status == 404
    assert site("GET", DEMO + "/commits/main$").status == 400
    answer = site("POST", MAIN + "/commits", {"message": "x"}, source_metarange="y")
    assert answer.status == 501


def test_log(site: Site) -> None:
    ids = []
    for number, path in enumerate(("a/1", "b", "a/2")):
        put(site, path)
        ids.append(commit(site, str(number))["id"])
    log = DEMO + "/refs/main/commits"
    assert results(site("GET", log), "message") == ["2", "1", "0", "Repository created"]
    page = site("GET", log, amount=2)
    assert results(page, "message") == ["2", "1"]
    assert page.json["pagination"]["next_offset"] == ids[1]
    assert results(site("GET", log, after=ids[1]), "message") == ["0", "Repository created"]
    assert results(site("GET", log, objects="b"), "message") == ["1"]
    assert results(site("GET", log, prefixes=["a/", "x"]), "message") == ["2", "0"]
    limited = site("GET", log, amount=1, limit="true", prefixes="a/").json["pagination"]
    assert (limited["results"], limited["has_more"]) == (1, False)
    assert results(site("GET", log, stop_at="main~1"), "message") == ["2", "1"]
    assert results(site("GET", log, since="2030-01-01T00:00:00Z"), "message") == []
    assert len(results(site("GET", log, since="2020-01-01T00:00:00 00:00"))) == 4
    assert site("GET", log, since="yesterday").status == 400
    assert site("GET", log, amount="x").status == 400
    assert len(results(site("GET", log, first_parent="1", amount=-1))) == 4


def test_diff_of_what_is_staged(site: Site) -> None:
    for path in ("a/1", "a/2", "b", "c/1"):
        put(site, path)
    commit(site)
    put(site, "a/1", b"22")
    put(site, "d/1")
    site("DELETE", MAIN + "/objects", path="b")
    found = site("GET", MAIN + "/diff").json["results"]
    assert [(each["type"], each["path"], each["size_bytes"]) for each in found] == [
        ("changed", "a/1", 2), ("removed", "b", 1), ("added", "d/1", 1),
    ]  # fmt: skip
    grouped = site("GET", MAIN + "/diff", delimiter="/").json["results"]
    assert [(each["type"], each["path"]) for each in grouped] == [
        ("prefix_changed", "a/"), ("removed", "b"), ("prefix_changed", "d/"),
    ]  # fmt: skip
    walked, after = [], ""
    while True:
        page = site("GET", MAIN + "/diff", delimiter="/", amount=1, after=after)
        walked += results(page, "path")
        if not page.json["pagination"]["has_more"]:
            break
        after = page.json["pagination"]["next_offset"]
    assert walked == ["a/", "b", "d/"]
    assert results(site("GET", MAIN + "/diff", prefix="d"), "path") == ["d/1"]
    assert site("GET", DEMO + "/branches/none/diff").status == 404


def test_diff_of_refs(site: Site) -> None:
    for path in ("a/1", "b"):
        put(site, path)
    commit(site)
    branch(site, "dev")
    put(site, "a/2", branch="dev")
    put(site, "b", b"dev", branch="dev")
    commit(site, branch="dev")
    put(site, "b", b"main")
    put(site, "c")
    commit(site)
    diff = DEMO + "/refs/main/diff/dev"
    found = site("GET", diff).json["results"]
    assert [(each["type"], each["path"]) for each in found] == [("added", "a/2"), ("conflict", "b")]
    found = site("GET", diff, type="two_dot", include_right_stats="true").json["results"]
    assert [(each["type"], each["path"]) for each in found] == [
        ("added", "a/2"), ("changed", "b"), ("removed", "c"),
    ]  # fmt: skip
    assert found[1]["right"]["content_type"] == "application/octet-stream"
    assert "right" not in found[2]
    assert results(site("GET", diff, type="two_dot", after="a/2"), "path") == ["b", "c"]
    assert results(site("GET", diff, delimiter="/"), "path") == ["a/", "b"]
    put(site, "z", branch="dev")
    staged = site("GET", diff + "$", type="two_dot", after="b")
    assert results(staged, "path") == ["c", "z"]
    assert site("GET", diff, type="one_dot").status == 400


def test_merge(site: Site) -> None:
    put(site, "a")
    commit(site)
    branch(site, "dev")
    merge = DEMO + "/refs/dev/merge/main"
    assert site("POST", merge).status == 400
    put(site, "b", branch="dev")
    put(site, "a", b"dev", branch="dev")
    commit(site, branch="dev")
    put(site, "a", b"main")
    assert site("POST", merge, {}).status == 400  # the branch is dirty
    commit(site)
    conflict = site("POST", merge, {"message": "M"})
    assert (conflict.status, conflict.json["reference"]) == (409, "")
    assert site("POST", merge, {"strategy": "ours"}).status == 400
    base = site("GET", merge).json
    assert base["base_commit_id"] == site("GET", DEMO + "/commits/dev~1").json["id"]
    done = site(
        "POST", merge, {"strategy": "source-wins", "message": "M", "metadata": {"k": "v"}}
    ).json
    made = site("GET", DEMO + "/commits/main").json
    assert made["id"] == done["reference"]
    assert (made["message"], len(made["parents"])) == ("M", 2)
    assert made["metadata"] == {".lakefs.merge.strategy": "source-wins", "k": "v"}
    assert site("GET", DEMO + "/refs/main/objects", path="a").body == b"dev"
    assert site("POST", merge, {}).status == 400
    assert site("POST", merge, {"allow_empty": True, "squash_merge": True}).status == 200
    made = site("GET", DEMO + "/commits/main").json
    assert (made["message"], len(made["parents"])) == ("Merge 'dev' into 'main'", 1)


def test_revert_and_cherry_pick(site: Site) -> None:
    put(site, "a")
    commit(site, "one", metadata={"k": "v"})
    branch(site, "dev", "main~1")
    picked = site("POST", DEMO + "/branches/dev/cherry-pick", {"ref": "main"})
    assert picked.status == 201
    assert picked.json["metadata"]["k"] == "v"
    overridden = {"ref": "main", "commit_overrides": {"message": "x"}}
    assert site("POST", DEMO + "/branches/dev/cherry-pick", overridden).status == 501
    revert = {"ref": "main", "parent_number": 0, "commit_overrides": {"message": "back"}}
    assert site("POST", MAIN + "/revert", revert).status == 204
    assert site("GET", DEMO + "/commits/main").json["message"] == "back"
    assert site("HEAD", DEMO + "/refs/main/objects", path="a").status == 404
    assert site("POST", MAIN + "/revert", {"ref": "nope", "parent_number": 0}).status == 404
    assert site("POST", MAIN + "/revert", {"ref": "main", "parent_number": 9}).status >= 400


def test_tags(site: Site) -> None:
    head = site("GET", MAIN).json["commit_id"]
    made = site("POST", DEMO + "/tags", {"id": "v1.0", "ref": "main"})
    assert (made.status, made.json) == (201, {"id": "v1.0", "commit_id": head})
    assert site("POST", DEMO + "/tags", {"id": "v1.0", "ref": "main"}).status == 409
    assert site("POST", DEMO + "/tags", {"id": "main", "ref": "main"}).status == 409
    assert site("POST", DEMO + "/tags", {"id": "v~", "ref": "main"}).status == 400
    assert site("GET", DEMO + "/tags/v1.0").json["commit_id"] == head
    assert results(site("GET", DEMO + "/tags")) == ["v1.0"]
    assert site("DELETE", DEMO + "/tags/v1.0").status == 204
    assert site("GET", DEMO + "/tags/v1.0").status == 404


BAD_BODIES: list[tuple[str, str, Any]] = [
    ("POST", "/branches", {"name": "x"}),
    ("POST", "/branches", {"name": 1, "source": "main"}),
    ("POST", "/branches", {"name": "x", "source": "main", "hidden": "yes"}),
    ("POST", "/branches", []),
    ("POST", "/branches", b""),
    ("POST", "/branches", b"{"),
    ("POST", "/branches", b'{"name": "x", "name": "y", "source": "main"}'),
    ("POST", "/branches", b'{"name": "\\ud800", "source": "main"}'),
    ("POST", "/branches/main/commits", {}),
    ("POST", "/branches/main/commits", {"message": "m", "metadata": {"k": 1}}),
    ("POST", "/branches/main/commits", {"message": "m", "metadata": ["k"]}),
    ("POST", "/branches/main/commits", {"message": "m", "date": 1e300}),
    ("POST", "/branches/main/commits", {"message": "m", "date": 10**15}),
    ("PUT", "/branches/main", {"type": "object", "path": "x" * 2000}),
    ("POST", "/branches/main/revert", {"ref": "main", "parent_number": -1}),
    ("POST", "/branches/main/objects/delete", {"paths": "a"}),
    ("POST", "/branches/main/objects/delete", {"paths": ["a"] * 1001}),
    ("POST", "/branches/main/import", {"paths": [{"type": "x"}], "commit": {"message": ""}}),
    ("PUT", "/settings/branch_protection", {"pattern": "x"}),
    ("PUT", "/settings/branch_protection", [{}]),
]


def test_malformed_bodies_are_refused(site: Site) -> None:
    for method, path, body in BAD_BODIES:
        answer = site(method, DEMO + path, body)
        assert answer.status == 400, (method, path, body, answer.body)
        assert answer.message
