"""Objects, staging and imports of the REST API."""

from __future__ import annotations

import os
import time
from pathlib import Path
from threading import current_thread
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from lakecli.base.model import CLIENT_MTIME
from lakecli.errors import IntegrityError
from lakecli.serving.api import objects, tasks
from tests.serving.api.test_bodies import CONTENT, TYPE, form
from tests.serving.api.test_refs import DEMO, MAIN, commit, put, results

if TYPE_CHECKING:
    from tests.serving.api.site import Site

OBJECTS = MAIN + "/objects"
READ = DEMO + "/refs/main/objects"


def test_upload_and_stat(site: Site) -> None:
    headers = {
        "Content-Type": "text/csv",
        "X-Lakefs-Meta-Owner": "ada",
        "X-Lakefs-Internal-Client-Mtime": "1700000000",  # sent by lakectl local
    }
    made = site("POST", OBJECTS, b"12345", headers, path="a/b.csv").json
    assert made == site("GET", READ + "/stat", path="a/b.csv").json
    assert made["metadata"] == {"owner": "ada", CLIENT_MTIME: "1700000000"}
    assert (made["content_type"], made["size_bytes"]) == ("text/csv", 5)
    bare = site("GET", READ + "/stat", path="a/b.csv", user_metadata="false", presign="true").json
    assert "metadata" not in bare
    assert bare["physical_address"] == made["physical_address"]
    assert site("GET", READ + "/stat", path="a").status == 404
    assert site("GET", READ + "/stat").status == 400
    assert site("GET", DEMO + "/refs/nope/objects/stat", path="a").status == 404
    assert site("POST", OBJECTS, b"", path="empty").json["size_bytes"] == 0
    assert site("POST", OBJECTS, b"", path="x" * 1025).status == 400
    assert site("POST", DEMO + "/branches/nope/objects", b"", path="x").status == 404


def test_an_upload_leaves_the_threads_to_fast_requests(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    def open_upload(content_type: str, pieces: Any) -> Any:
        threads.append(current_thread().name)
        return content_type, pieces

    monkeypatch.setattr(objects, "open_upload", open_upload)
    assert put(site, "a").status == 201
    assert threads[0].startswith("serve-slow")


def test_upload_of_a_form(site: Site) -> None:
    body = form((CONTENT, b"a,b\r\n" * 2000))
    made = site("POST", OBJECTS, body, {"Content-Type": TYPE}, path="f").json
    assert (made["content_type"], made["size_bytes"]) == ("text/csv", 10_000)
    assert site("GET", READ, path="f").body == b"a,b\r\n" * 2000
    cut = site("POST", OBJECTS, body[:-30], {"Content-Type": TYPE}, path="g")
    assert (cut.status, site("HEAD", READ, path="g").status) == (400, 404)


def test_conditions_of_writes(site: Site) -> None:
    first = put(site, "a").json["checksum"]

    def write(**headers: str) -> int:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return site("POST", OBJECTS, b"other", sent, path="a").status

    assert write(if_none_match="*") == 412
    assert write(if_match='"other"') == 412
    assert write(if_match=f'"{first}"') == 201
    assert write(if_match=f'"{first}"') == 412
    assert site("POST", OBJECTS, b"1", {"If-None-Match": "*"}, path="new").status == 201


def test_reading(site: Site) -> None:
    put(site, "a", b"0123456789")

    def read(**headers: str) -> tuple[int, bytes, str | None]:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = site("GET", READ, None, sent, path="a")
        return answer.status, answer.body, answer.headers.get("content-range")

    whole = site("GET", READ, path="a")
    assert whole.body == b"0123456789"
    assert whole.headers["content-length"] == "10"
    assert whole.headers["content-type"] == "application/octet-stream"
    assert "sandbox" in whole.headers["content-security-policy"]
    site("POST", OBJECTS, b"x", {"Content-Type": "text/csv"}, path="b")
    assert site("GET", READ, path="b").headers["content-type"] == "text/csv"
    assert read(range="bytes=2-4") == (206, b"234", "bytes 2-4/10")
    assert read(range="bytes=7-") == (206, b"789", "bytes 7-9/10")
    assert read(range="bytes=-3") == (206, b"789", "bytes 7-9/10")
    assert read(range="bytes=-30") == (206, b"0123456789", "bytes 0-9/10")
    assert read(range="bytes=8-99") == (206, b"89", "bytes 8-9/10")
    assert read(range="bytes=4-2")[:2] == (200, b"0123456789")
    assert read(range="bytes=1-2,4-5")[0] == 200
    assert read(range="bytes=10-")[::2] == (416, "bytes */10")
    assert read(range="bytes=-0")[0] == 416
    etag = whole.headers["etag"]
    assert read(if_none_match=etag)[:2] == (304, b"")
    assert read(if_none_match='"x"')[0] == 200
    assert read(range="bytes=1-1", if_range=etag)[0] == 206
    assert read(range="bytes=1-1", if_range='"x"')[0] == 200
    head = site("HEAD", READ, None, {"Range": "bytes=0-1"}, path="a")
    assert (head.status, head.body, head.headers["content-length"]) == (206, b"", "2")
    assert site("HEAD", READ, path="none").status == 404


def test_object_whose_data_is_gone_is_not_found(site: Site, tmp_path: Path) -> None:
    address = put(site, "a", b"data").json["physical_address"]
    Path(address.removeprefix("local://")).unlink()
    assert site("GET", READ, path="a").status == 404
    assert site("GET", READ, None, {"Range": "bytes=0-1"}, path="a").status == 404


def test_empty_object_whose_data_is_gone_is_not_found(site: Site) -> None:
    address = put(site, "a", b"").json["physical_address"]
    assert site("GET", READ, path="a").status == 200
    Path(address.removeprefix("local://")).unlink()
    assert site("GET", READ, path="a").status == 404


@pytest.mark.parametrize("size", [100, 3_000_000])
def test_damaged_object_is_never_sent_whole(site: Site, size: int) -> None:
    address = put(site, "a", b"x" * size).json["physical_address"]
    file = Path(address.removeprefix("local://"))
    file.chmod(0o600)
    file.write_bytes(b"x" * (size - 1) + b"y")
    try:
        answer = site("GET", READ, path="a")
    except IntegrityError:  # the server closes the connection
        assert size > 1 << 20
    else:
        assert (size, answer.status) == (100, 500)


def test_listing(site: Site) -> None:
    odd = (b"a/\xff", "a/ü ?&#%".encode(), b"a/1", b"b", b"c/1", b"c/2")
    for path in odd:
        put(site, os.fsdecode(path))
    found = site("GET", READ + "/ls", delimiter="/").json["results"]
    assert [(each["path_type"], each["path"]) for each in found] == [
        ("common_prefix", "a/"), ("object", "b"), ("common_prefix", "c/"),
    ]  # fmt: skip
    for delimiter in ("", "/"):
        walked, after = [], ""
        while True:
            page = site("GET", READ + "/ls", amount=1, after=after, delimiter=delimiter)
            walked += results(page, "path")
            if not page.json["pagination"]["has_more"]:
                break
            after = page.json["pagination"]["next_offset"]
            after.encode()
        whole = site("GET", READ + "/ls", delimiter=delimiter)
        assert walked == results(whole, "path")
    assert walked == ["a/", "b", "c/"]
    assert results(site("GET", READ + "/ls", prefix="c/"), "path") == ["c/1", "c/2"]
    assert results(site("GET", READ + "/ls", prefix="none"), "path") == []
    assert site("GET", READ, path=b"a/\xff").body == b"1"
    assert results(site("GET", READ + "/ls", after="\0c/%31"), "path") == ["c/2"]
    assert site("GET", DEMO + "/refs/" + quote("main@{1}") + "/objects/ls").status in {200, 404}


def test_delete(site: Site) -> None:
    for path in ("a", "b", "c"):
        put(site, path)
    commit(site)
    assert site("DELETE", OBJECTS, path="a").status == 204
    assert site("DELETE", OBJECTS, path="a").status == 204
    answer = site("POST", OBJECTS + "/delete", {"paths": ["b", "none", "x" * 2000]})
    (error,) = answer.json["errors"]
    assert error["status_code"] == 400
    assert results(site("GET", READ + "/ls"), "path") == ["c"]
    assert site("DELETE", DEMO + "/branches/nope/objects", path="a").status == 404


def test_copy_and_metadata(site: Site) -> None:
    put(site, "a", b"data")
    made = site("POST", OBJECTS + "/copy", {"src_path": "a"}, dest_path="b")
    assert (made.status, made.json["path"], made.json["size_bytes"]) == (201, "b", 4)
    commit(site)
    old = {"src_path": "a", "src_ref": "main@"}
    assert site("POST", OBJECTS + "/copy", old, dest_path="c").status == 201
    assert site("POST", OBJECTS + "/copy", {"src_path": "a"}, dest_path="a").status == 201
    assert site("POST", OBJECTS + "/copy", {"src_path": "no"}, dest_path="b").status == 404
    changed = site("PUT", OBJECTS + "/stat/user_metadata", {"set": {"k": "v"}}, path="b")
    assert changed.status == 204
    assert site("GET", READ + "/stat", path="b").json["metadata"] == {"k": "v"}


def test_stage_an_object_outside(site: Site, tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"data")
    body = {
        "physical_address": f"local://{tmp_path}/outside", "checksum": "x", "size_bytes": 4,
        "mtime": 5, "content_type": "text/plain", "metadata": {"k": "v"},
    }  # fmt: skip
    made = site("PUT", OBJECTS, body, path="out")
    assert (made.status, made.json["mtime"], made.json["metadata"]) == (201, 5, {"k": "v"})
    odd = {**body, "checksum": 'x"\r\nSet-Cookie: a', "content_type": "a/b\r\nSet-Cookie: a\udcff"}
    assert site("PUT", OBJECTS, odd, path="odd").status in {201, 400}
    odd["content_type"] = "a/b\r\nSet-Cookie: a"
    assert site("PUT", OBJECTS, odd, path="odd").status == 201
    for headers in (site("HEAD", READ, path="odd").headers, site("GET", READ, path="out").headers):
        assert "set-cookie" not in headers
        assert not {"\r", "\n"} & set("".join(headers.values()))
    inside = put(site, "in").json["physical_address"]
    assert site("PUT", OBJECTS, {**body, "physical_address": inside}, path="x").status == 409


def test_physical_address(site: Site) -> None:
    backing = MAIN + "/staging/backing"
    place = site("GET", backing, path="a", presign="true").json
    file = Path(place["physical_address"].removeprefix("local://"))
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_bytes(b"data")
    body = {"staging": place, "checksum": "any", "size_bytes": 4, "user_metadata": {"k": "v"}}
    assert site("PUT", backing, {**body, "size_bytes": 5}, path="a").status == 400
    made = site("PUT", backing, body, path="a").json
    assert (made["metadata"]["k"], made["size_bytes"]) == ("v", 4)
    assert site("GET", READ, path="a").body == b"data"
    assert not file.exists()
    assert site("PUT", backing, body, path="a").status == 404
    for address in ("", "local:///etc/passwd", str(file), place["physical_address"] + "/../x"):
        wrong = {**body, "staging": {"physical_address": address}}
        assert site("PUT", backing, wrong, path="a").status == 400
    assert site("GET", DEMO + "/branches/nope/staging/backing", path="a").status == 404


def test_import(site: Site, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    for name in ("1", "2"):
        (tmp_path / "source" / name).write_text(name)
    location = {"type": "common_prefix", "path": f"local://{tmp_path}/source", "destination": "in/"}
    body = {"paths": [location], "commit": {"message": "", "metadata": {"k": "v"}}}
    status = _imported(site, body)
    assert (status["ingested_objects"], status["completed"]) == (2, True)
    assert status["commit"]["message"] == "Import objects"
    assert site("GET", READ, path="in/2").body == b"2"
    location["path"] = f"local://{tmp_path}/none"
    status = _imported(site, body)
    assert not status["completed"]
    assert status["error"]["message"]
    several = {**body, "paths": [location, location]}
    assert site("POST", MAIN + "/import", several).status == 501
    assert site("GET", MAIN + "/import", id="none").status == 404


def test_imports_that_cannot_start_do_not_count_as_running(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = {"type": "common_prefix", "path": f"local://{tmp_path}/none", "destination": "in/"}
    body = {"paths": [location], "commit": {"message": ""}}

    def fail(*_: object, **_fields: object) -> None:
        raise RuntimeError("can't start new thread")

    for name in ("Thread", "_note"):
        with monkeypatch.context() as patched:
            patched.setattr(tasks, name, fail)
            for _ in range(5):
                with pytest.raises(RuntimeError):
                    site("POST", MAIN + "/import", body)
    assert "error" in _imported(site, body)


def _imported(site: Site, body: object) -> dict[str, Any]:
    started = site("POST", MAIN + "/import", body)
    assert started.status == 202
    for _ in range(500):
        status = site("GET", MAIN + "/import", id=started.json["id"]).json
        if status["completed"] or "error" in status:
            return dict(status)
        time.sleep(0.02)
    pytest.fail("the import did not end")
