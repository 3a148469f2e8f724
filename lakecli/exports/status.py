"""What an export writes to its destination besides the objects: a report and a marker.

Their names begin with an underscore, so that Spark, Hive and Trino ignore them.
"""

from __future__ import annotations

import json
import os
from datetime import datetime
from typing import Final, NamedTuple

from lakecli import __version__
from lakecli.base.model import CommitId
from lakecli.exports.records import SUCCESS, Job, Outcome
from lakecli.exports.target import open_destination
from lakecli.repository.contract import Repository
from lakecli.repository.transfer.destination import Destination
from lakecli.stores.contract import ANY, JSON, PLAIN
from lakecli.stores.uri import is_local, parse

FORMAT: Final = 1


class Run(NamedTuple):
    """An export that has begun.

    Attributes:
        ref: the ref as given.
        commit_id: the commit that the ref names.
        since_commit_id: the commit of the earlier export, if given.
        started_at: time by this machine's clock.
    """

    repository: Repository
    job: Job
    ref: str
    commit_id: CommitId
    since_commit_id: CommitId | None
    started_at: datetime


def write_status(run: Run, outcome: Outcome) -> str:
    """Write the report ``_lakecli_export_<commit>_<time>_{SUCCESS|FAILURE}.json``.

    Returns:
        Its name below the destination.
    """
    finished_at = run.repository.lake.now()
    result = "FAILURE" if outcome.failed else "SUCCESS"
    fields = {
        "format": FORMAT,
        "result": result.lower(),
        "repository": run.repository.record.uuid,
        "ref": run.ref,
        "commit_id": run.commit_id,
        "since_commit_id": run.since_commit_id,
        "prefix": os.fsdecode(run.job.prefix),
        "destination": run.job.destination,
        "started_at": f"{run.started_at:%Y-%m-%dT%H:%M:%SZ}",
        "finished_at": f"{finished_at:%Y-%m-%dT%H:%M:%SZ}",
        "new": outcome.new.count,
        "changed": outcome.changed.count,
        "unchanged": outcome.unchanged.count,
        "deleted": outcome.deleted.count,
        "size": outcome.new.size + outcome.changed.size,
        "failed": outcome.failed,
        "failures": [
            {"path": os.fsdecode(each.path), "error": each.why} for each in outcome.failures
        ],
        "lakecli": __version__,
    }
    name = f"_lakecli_export_{run.commit_id}_{finished_at:%Y%m%dT%H%M%SZ}_{result}.json"
    _put(run.job, name, json.dumps(fields, indent=2).encode() + b"\n")
    return name


def was_exported(job: Job, commit_id: CommitId) -> bool:
    """Return whether the destination has the report of a successful export of a commit."""
    start = f"_lakecli_export_{commit_id}_"
    if is_local(job.destination):
        try:
            names = os.listdir(parse(job.destination).path)  # noqa: PTH208 - names, and no more
        except OSError:
            return False
    else:
        found = open_destination(job).list(start)
        names = [info.key for info in found]
    return any(name.startswith(start) and name.endswith("_SUCCESS.json") for name in names)


def put_success(job: Job) -> None:
    """Write the marker of a complete export."""
    _put(job, SUCCESS.decode(), b"")


def clear_success(job: Job) -> None:
    """Delete the marker of an earlier export, if there is one."""
    if is_local(job.destination):
        with Destination(os.fsencode(parse(job.destination).path)) as target:
            target.delete(SUCCESS)
    else:
        open_destination(job).delete([SUCCESS.decode()])


def _put(job: Job, name: str, body: bytes) -> None:
    if is_local(job.destination):
        with Destination(os.fsencode(parse(job.destination).path)) as target:
            target.write(name.encode(), [body])
        return
    store = open_destination(job)
    store.put(name, body, ANY, JSON if body else PLAIN)
