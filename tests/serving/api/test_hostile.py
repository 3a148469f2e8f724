"""No request makes a handler fail unexpectedly: each gets an answer in lakeFS's form."""

from __future__ import annotations

import re
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.serving.api.routes import OPERATIONS
from tests.serving.api.test_refs import commit, put

if TYPE_CHECKING:
    from lakecli.serving.api.requests import ApiOperation
    from tests.serving.api.site import Site

NAMES = [
    "main", "%00", "%FF", "main$", "main@", "main~99999999999999999999", "main^9", "x" * 5_000,
    "..", "%2e%2e", "a%2Fb", "main..main", "main@{yesterday}", "main@{99999999999}", "@", "~", "%",
    "a*b", "%F0%9F%92%A9", "0" * 64, "%0A", ":",
]  # fmt: skip
TEXTS = [
    "main", "", "\0", "\udcff", "x" * 5_000, "\U0001f600", "-1", "1e9", "9" * 400, "true", "/",
    "a\r\nb", "2026-01-01T00:00:00Z", "0001-01-01T00:00:00-23:59", "\0ff", "reset", "*", "bytes=0-",
]  # fmt: skip
BODIES: list[Any] = [
    {}, [], None, 1, "x", {"name": "\udcff", "source": "main"}, {"message": "\0"},
    {"message": "\udcff", "allow_empty": True}, {"paths": ["\udcff", "\0", ""]},
    {"message": "m", "allow_empty": True, "date": -(2**53) + 1},
    {"message": "m", "allow_empty": True, "date": 253_000_000_000},
    {"id": "\udcff", "ref": "main"}, {"ref": "main", "parent_number": 1}, {"set": {"\0": "\udcff"}},
    {"src_path": "\udcff"}, {"type": "object", "path": "\udcff"}, [{"pattern": "\udcff"}],
    [{"pattern": "\n"}],
    {"physical_address": "s3://x/\udcff", "checksum": "\0", "size_bytes": 0},
    {"physical_address": "local:///\0", "checksum": "x", "size_bytes": 0},
    {"name": "abc", "storage_namespace": "s3://\0"},
    {"name": "abc", "storage_namespace": "local:///proc/none"},
    {"name": "abc", "storage_namespace": "http://u:p@x/y"},
    {"staging": {"physical_address": "\0"}, "checksum": "", "size_bytes": 0},
    {"commits_meta_range_id": "", "tags_meta_range_id": "", "branches_meta_range_id": ""},
    {"commits_meta_range_id": "0" * 64, "tags_meta_range_id": "0" * 64,
     "branches_meta_range_id": "0" * 64},
]  # fmt: skip
QUERY = (
    "path", "dest_path", "prefix", "delimiter", "after", "amount", "since", "stop_at", "objects",
    "prefixes", "ref", "task_id", "id", "type", "presign", "show_hidden", "search",
)  # fmt: skip


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_every_request_is_answered(site: Site, operation: ApiOperation) -> None:
    put(site, "a")
    commit(site)
    texts = cycle(TEXTS)
    statuses = set()
    for name, body in zip(islice(cycle(NAMES), 27), islice(cycle(BODIES), 27), strict=True):
        path = re.sub(r"\{repository\}", "demo", operation.path)
        path = re.sub(r"\{.*?\}", name, path)
        query = {each: next(texts) for each in islice(cycle(QUERY), 8)}
        headers = {"If-None-Match": '"x"', "Range": "bytes=0-0"}
        sent = b"data" if operation.is_raw else body
        for chosen in (query, {}):
            answer = site(operation.method, path, sent, headers, **chosen)
            assert answer.status != 500, (path, chosen, body, answer.body)
            statuses.add(answer.status)
    assert statuses
