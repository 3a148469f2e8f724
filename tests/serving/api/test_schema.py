"""Every operation of lakeFS's document is answered, or is refused on purpose."""

from __future__ import annotations

import inspect
import re
from functools import cache
from pathlib import Path

import pytest

from lakecli.serving.api.requests import ApiOperation
from lakecli.serving.api.routes import OPERATIONS
from tests.serving.api.site import MODELS, WITHOUT_MODEL
from tests.support.serving import ROOT

lakefs_sdk = pytest.importorskip("lakefs_sdk")

_CALL = re.compile(r"call_api\(\s*'([^']+)', '([A-Z]+)'")
_STATUS = re.compile(r"'(2\d\d)': (?:\"(\w[^\"]*)\"|None)")


OTHER_STATUSES = {"updateObjectUserMetadata": {204}}
"""What lakeFS 1.84 answers, and lakectl requires, other than its document says."""


@cache
def document() -> dict[str, tuple[str, str, set[int]]]:
    """Return method, path and typed statuses of each operation, by its plain name."""
    found = {}
    for file in Path(inspect.getfile(lakefs_sdk)).parent.glob("api/*_api.py"):
        for part in file.read_text().split("    def ")[1:]:
            name = part.partition("(")[0]
            if name.endswith("_with_http_info"):
                call = _CALL.search(part)
                assert call is not None
                statuses = {int(code) for code, _ in _STATUS.findall(part)}
                plain = name.removesuffix("_with_http_info").replace("_", "")
                found[plain] = call[2], call[1], statuses
    return found


def refused_operations() -> set[str]:
    """Return the names of the operations that the page `serve` says are refused."""
    page = (ROOT / "lakecli/cli/manual/topics/serve.md").read_text(encoding="utf-8")
    listed = page.partition("answered with 501:\n\n")[2].partition("\n\n")[0]
    groups = listed.removeprefix("- ").replace("\n  ", " ").split("\n- ")
    return {name for group in groups for name in group.rpartition(": ")[2].lower().split(", ")}


def test_every_operation_is_answered_or_said_to_be_refused() -> None:
    ours = {each.name.lower() for each in OPERATIONS}
    refused = refused_operations()
    assert not ours & refused
    assert ours | refused == set(document())


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_operation_is_that_of_the_document(operation: ApiOperation) -> None:
    method, path, statuses = document()[operation.name.lower()]
    assert (operation.method, re.sub(r"\{.*?\}", "{}", operation.path)) == (
        method,
        re.sub(r"\{.*?\}", "{}", path),
    )
    assert not statuses or operation.status in statuses | OTHER_STATUSES.get(operation.name, set())
    if statuses:
        assert operation.name in {*MODELS, *WITHOUT_MODEL, "createBranch", "getObject"}


def test_names_of_parameters_do_not_hide_operations() -> None:
    """Of two operations with one method, no path is an example of the other's template."""
    seen: dict[str, str] = {}
    for each in OPERATIONS:
        key = f"{each.method} {re.sub(r'{.*?}', '*', each.path)}"
        assert key not in seen, (each.name, seen[key])
        seen[key] = each.name
