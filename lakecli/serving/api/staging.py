"""Objects that clients bring into the bucket themselves, and imports of existing objects."""

from __future__ import annotations

import os
from datetime import UTC
from http import HTTPStatus
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from lakecli.base.ids import MalformedId
from lakecli.base.layout import INCOMING, incoming_key
from lakecli.base.validation import (
    MAX_COUNT,
    Record,
    boolean,
    choice,
    list_of,
    optional,
    or_empty,
    whole,
)
from lakecli.committed.values import encode_entry
from lakecli.engine.runner import LocalRunner
from lakecli.errors import IntegrityError, LakeError
from lakecli.imports.job import import_objects
from lakecli.imports.report import ImportOptions
from lakecli.imports.sources import open_source
from lakecli.repository.handoff.incoming import bring_in, clear
from lakecli.repository.reading.view import check_branch
from lakecli.repository.transfer.walk import LinkPolicy
from lakecli.serving.api.objects import conditional
from lakecli.serving.api.records import (
    PRESIGNED_FOR,
    can_presign,
    commit_json,
    object_json,
)
from lakecli.serving.api.refs import COMMIT
from lakecli.serving.api.requests import (
    ApiCall,
    ApiError,
    ApiOperation,
    Json,
    free_text,
    metadata,
    of_lake_error,
    path_text,
    read_fields,
)
from lakecli.stores.presigned_urls import PresignRequest
from lakecli.stores.uri import as_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakecli.repository.contract import Repository

# A place in the namespace ---------------------------------------------------------------------


def _place(repository: Repository) -> str:
    return f"{as_url(repository.record.storage_namespace)}/"


def get_physical_address(call: ApiCall) -> Json:
    """Return an address for an object, and with ``presign`` a URL that writes it."""
    call.path()
    repository = call.repository()
    check_branch(repository, call.branch)
    runtime = repository.lake.runtime
    key = incoming_key(runtime.new_id().hex())
    location: dict[str, Any] = {"physical_address": _place(repository) + key}
    if call.flag("presign") and can_presign(repository):
        request = PresignRequest("PUT", PRESIGNED_FOR)
        signed = repository.store.presign(key, request, now=runtime.clock())
        location["presigned_url"] = signed.url
        location["presigned_url_expiry"] = int(signed.expires_at.timestamp())
    return location


_LINK: Final = Record(
    {
        "staging": lambda value: read_fields(value, Record({"physical_address": free_text})),
        "checksum": free_text,
        "size_bytes": whole(0, MAX_COUNT),
        "user_metadata": optional(metadata, {}),
        "content_type": optional(free_text, None),
    }
)


def link_physical_address(call: ApiCall) -> Json:
    """Stage an object that was written to an address of `get_physical_address`.

    The object is copied to its content address, and read once for that, so that nobody can change
    it by the URL any more.
    """
    wanted, path = call.read(_LINK), call.path()
    repository = call.repository()
    check_branch(repository, call.branch)
    address = wanted["staging"]["physical_address"]
    found = address.removeprefix(_place(repository) + INCOMING)
    try:
        key = incoming_key(found)
    except MalformedId:
        raise ApiError(HTTPStatus.BAD_REQUEST, "not a staging address of this repository") from None
    version = repository.store.head(key).version
    try:
        with call.acting() as acting:
            entry = bring_in(
                acting,
                path,
                found,
                content_type=wanted["content_type"],
                metadata=wanted["user_metadata"],
                size=wanted["size_bytes"],
            )
    except IntegrityError as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, error.message) from error
    staged = call.apply(path, conditional(call, encode_entry(entry)))
    clear(repository, found, version)
    return object_json(repository, path, staged)


# Imports --------------------------------------------------------------------------------------

_LOCATION: Final = Record(
    {
        "type": choice("common_prefix", "object"),
        "path": path_text,
        "destination": or_empty(path_text),
    }
)
_MOST_LOCATIONS: Final = 1_000
_IMPORT: Final = Record(
    {
        "paths": list_of(lambda each: read_fields(each, _LOCATION), _MOST_LOCATIONS),
        "commit": lambda value: read_fields(value, COMMIT),
        "force": optional(boolean, default=False),
    }
)
_PARALLELISM: Final = 8


def start_import(call: ApiCall) -> Json:
    """Begin to import one prefix, in one commit; the client asks for the result later."""
    wanted = call.read(_IMPORT)
    locations = wanted["paths"]
    if len(locations) != 1 or locations[0]["type"] != "common_prefix":
        message = "an import has one location, a common_prefix; import several one by one"
        raise ApiError(HTTPStatus.NOT_IMPLEMENTED, message)
    check_branch(call.repository(), call.branch)
    if not call.remembered.imports.acquire(blocking=False):
        raise ApiError(HTTPStatus.TOO_MANY_REQUESTS, "other imports are running")
    task = call.context.served.lake.runtime.new_id().hex()
    _note(call, task, completed=False)
    Thread(target=_import, args=(call, task, locations[0], wanted["commit"]), daemon=True).start()
    return {"id": task}


def _import(
    call: ApiCall, task: str, location: Mapping[str, str], wanted: Mapping[str, Any]
) -> None:
    try:
        with call.acting() as repository, LocalRunner(parallelism=_PARALLELISM) as runner:
            report = import_objects(
                repository,
                call.branch,
                os.fsencode(location["destination"]),
                source=open_source(repository, location["path"], links=LinkPolicy.FAIL),
                runner=runner,
                committer=call.committer(),
                options=ImportOptions(
                    message=wanted["message"] or ImportOptions().message,
                    metadata=wanted["metadata"] or {},
                    allow_empty=True,
                ),
            )
        if report.commit is None:
            whys = "; ".join(each.why for each in report.failures[:3])
            _note(call, task, error={"message": f"{report.failed} objects failed: {whys}"})
            return
        made, count = report.commit, report.tally.objects
        _note(
            call,
            task,
            ingested_objects=count,
            metarange_id=made.metarange_id,
            commit=commit_json(made),
        )
    except LakeError as error:
        _note(call, task, error={"message": of_lake_error(error).message})
    except Exception:
        _note(call, task, error={"message": "the import failed unexpectedly"})
        raise
    finally:
        call.remembered.imports.release()


def _note(call: ApiCall, task: str, *, completed: bool = True, **result: Any) -> None:  # noqa: ANN401
    at = call.context.clock().astimezone(UTC).isoformat()
    is_done = completed and "error" not in result
    call.remembered.put_task(task, {"completed": is_done, "update_time": at, **result})


def get_import(call: ApiCall) -> Json:
    """Return the status of an import."""
    call.repository()
    return call.remembered.task(call.text("id"))


_BACKING: Final = "/repositories/{repository}/branches/{branch}/staging/backing"
_IMPORTS: Final = "/repositories/{repository}/branches/{branch}/import"

OPERATIONS: Final = (
    ApiOperation("getPhysicalAddress", "GET", _BACKING, get_physical_address),
    ApiOperation("linkPhysicalAddress", "PUT", _BACKING, link_physical_address),
    ApiOperation("importStart", "POST", _IMPORTS, start_import, 202),
    ApiOperation("importStatus", "GET", _IMPORTS, get_import),
)
