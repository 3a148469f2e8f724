"""Tasks whose result clients request later: imports of existing objects, refs dumps and restores.

A dump or restore is complete when the request is answered, but clients may still poll for it.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC
from threading import Semaphore, Thread
from typing import Any, Final

from starlette.exceptions import HTTPException

from lakecli.base.ids import MetarangeId
from lakecli.base.validation import choice, identifier, list_of, or_empty
from lakecli.committed.tree_store import LruCache
from lakecli.engine.runner import LocalRunner
from lakecli.errors import LakeError, NotFound, Unsupported
from lakecli.imports.job import import_objects
from lakecli.imports.report import ImportOptions
from lakecli.imports.sources import open_source
from lakecli.repository import refs_dump
from lakecli.repository.lakefs.dump import RefsManifest
from lakecli.repository.lakefs.restore import restore_refs
from lakecli.repository.reading.view import check_branch
from lakecli.repository.transfer.walk import LinkPolicy
from lakecli.serving.api import requests
from lakecli.serving.api.refs import COMMIT, commit_json
from lakecli.serving.api.requests import ApiCall, ApiOperation, JsonFields

MOST_TASKS: Final = 10_000


class Tasks(LruCache[str, Mapping[str, Any]]):
    """The statuses of the last `MOST_TASKS` tasks, kept in memory until the endpoint stops."""

    def __init__(self) -> None:
        super().__init__(MOST_TASKS)


def _note(call: ApiCall, task: str = "", **status: object) -> Mapping[str, Any]:
    """Store the status of a task, and return the task's ID as JSON.

    Args:
        task: the ID of the task; ``""`` for a new task.
        status: the fields of the status.
    """
    task = task or call.context.served.lake.runtime.new_id().hex()
    at = call.context.clock().astimezone(UTC).isoformat()
    call.context.own(Tasks).put(task, {"update_time": at, **status}, 1)
    return {"id": task}


def _status(call: ApiCall, task: str) -> dict[str, Any]:
    found = call.context.own(Tasks).get(task)
    if found is None:
        raise NotFound(f"no task {task!r}")
    return {**found}


# Imports -------------------------------------------------------------------------------------

_LOCATION: Final = JsonFields(
    type=choice("common_prefix", "object"),
    path=requests.path_text,
    destination=or_empty(requests.path_text),
)
_IMPORT: Final = JsonFields(paths=list_of(_LOCATION, 1_000), commit=COMMIT)
_PARALLELISM: Final = 8

_turns = Semaphore(4)
"""Limits the number of concurrent imports."""


def start_import(call: ApiCall) -> Mapping[str, Any]:
    """Start to import one prefix in one commit; the client polls for the result."""
    locations = call.fields["paths"]
    if [each["type"] for each in locations] != ["common_prefix"]:
        message = "an import has one location, a common_prefix; import several one by one"
        raise Unsupported(message)
    check_branch(call.repository, call["branch"])
    if not _turns.acquire(blocking=False):
        raise HTTPException(429, "other imports are running")
    try:
        task = _note(call, completed=False)
        Thread(target=_import, args=(call, task["id"], locations[0]), daemon=True).start()
    except BaseException:
        _turns.release()
        raise
    return task


def _import(call: ApiCall, task: str, location: Mapping[str, str]) -> None:
    commit, error = call.fields["commit"], "the import failed unexpectedly"
    result: dict[str, Any] = {}
    try:
        with call.acting() as repository, LocalRunner(parallelism=_PARALLELISM) as runner:
            options = ImportOptions(metadata=commit["metadata"] or {}, allow_empty=True)
            options = replace(options, message=commit["message"] or options.message)
            report = import_objects(
                repository, call["branch"], os.fsencode(location["destination"]),
                source=open_source(repository, location["path"], links=LinkPolicy.FAIL),
                runner=runner, committer=call.committer, options=options,
            )  # fmt: skip
        whys = "; ".join(each.why for each in report.failures[:3])
        error = f"{report.failed} objects failed: {whys}"
        if (made := report.commit) is not None:
            result = {"ingested_objects": report.tally.objects, "metarange_id": made.metarange_id}
            result["commit"] = commit_json(made)
    except LakeError as failed:
        error = requests.of_lake_error(failed).detail
    finally:
        _turns.release()
        result = result or {"error": {"message": error}}
        _note(call, task, completed="error" not in result, **result)


# Refs dumps ----------------------------------------------------------------------------------

_tree = or_empty(identifier(MetarangeId))
_LISTS: Final = {each: f"{each}_meta_range_id" for each in ("commits", "branches", "tags")}
_REFS: Final = JsonFields(**dict.fromkeys(_LISTS.values(), _tree))


def dump_refs(call: ApiCall) -> Mapping[str, Any]:
    """Write a refs dump, and return a task with its result.

    Like lakeFS's, the dump lacks uncommitted changes.
    """
    dumped = refs_dump.refs_dump(call.repository, leave_out={refs_dump.Loss.UNCOMMITTED})
    refs = requests.as_json(dumped.manifest, **{name: each for each, name in _LISTS.items()})
    return _note(call, done=True, refs=refs)


def restore_from_dump(call: ApiCall) -> Mapping[str, Any]:
    """Fill an empty repository from a dump, and return a completed task."""
    restore_refs(call.repository, RefsManifest(*(call.fields[each] for each in _LISTS.values())))
    return _note(call, done=True)


def get_task(call: ApiCall) -> Mapping[str, Any]:
    """Return the status of a dump or restore task."""
    return {"id": call.text("task_id"), **_status(call, call.text("task_id"))}


def list_runs(call: ApiCall) -> Mapping[str, Any]:
    """Return an empty page: there are no actions, hence no runs."""
    return requests.page(call, [], dict, str)


_IMPORTS: Final = "/branches/{branch}/import"

OPERATIONS: Final = requests.on_repository(
    ApiOperation("importStart", "POST", _IMPORTS, start_import, 202, _IMPORT, acts=False),
    ApiOperation("importStatus", "GET", _IMPORTS, lambda call: _status(call, call.text("id"))),
    ApiOperation("dumpSubmit", "POST", "/dump", dump_refs, 202),
    ApiOperation("dumpStatus", "GET", "/dump", get_task),
    ApiOperation("restoreSubmit", "POST", "/restore", restore_from_dump, 202, _REFS),
    ApiOperation("restoreStatus", "GET", "/restore", get_task),
    ApiOperation("listRepositoryRuns", "GET", "/actions/runs", list_runs),
)
