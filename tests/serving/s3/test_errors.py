"""Errors of lakecli are answered as S3's, without what concerns only this machine."""

from __future__ import annotations

import pytest

from lakecli import errors
from lakecli.errors import LakeError
from lakecli.serving.s3.errors import of_lake_error
from lakecli.stores.contract import BucketNotFound, ConditionFailed, NotAllowed, ObjectArchived


@pytest.mark.parametrize(
    ("kind", "code", "status"),
    [
        (errors.UsageError, "InvalidArgument", 400),
        (errors.NotFound, "NoSuchKey", 404),
        (BucketNotFound, "NoSuchKey", 404),
        (errors.LostRace, "SlowDown", 503),
        (ConditionFailed, "SlowDown", 503),
        (errors.ConflictError, "OperationAborted", 409),
        (errors.Refused, "MethodNotAllowed", 405),
        (errors.Forbidden, "AccessDenied", 403),
        (errors.AlreadyExists, "BucketAlreadyExists", 409),
        (errors.DirtyBranch, "MethodNotAllowed", 405),
        (errors.Unsupported, "NotImplemented", 501),
        (ObjectArchived, "InvalidObjectState", 403),
        (errors.IntegrityError, "InternalError", 500),
        (errors.PermissionDenied, "AccessDenied", 403),
        (NotAllowed, "AccessDenied", 403),
        (errors.Unreachable, "ServiceUnavailable", 503),
        (errors.Unresponsive, "ServiceUnavailable", 503),
        (errors.OutcomeUnknown, "InternalError", 500),
        (errors.JobFailed, "InternalError", 500),
        (errors.CheckFailed, "AccessDenied", 403),
        (errors.HookFailed, "AccessDenied", 403),
        (errors.NothingToDo, "InvalidRequest", 400),
        (LakeError, "InternalError", 500),
    ],
)
def test_families(kind: type[LakeError], code: str, status: int) -> None:
    made = of_lake_error(kind("cannot do it", hint="do that"))
    assert (made.code, made.status) == (code, status)
    assert made.message == "cannot do it (do that)"


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("cannot read /home/me/.lakecli/db: denied", "cannot read (a local path) denied"),
        ("cannot read '/home/me/a': denied", "cannot read '(a local path)': denied"),
        ("no space at file:///home/me", "no space at (a local path)"),
        ("/tmp/x", "(a local path)"),
        ("no such object: lakefs://sales/main/a", "no such object: lakefs://sales/main/a"),
        ("s3://bucket/a does not answer", "s3://bucket/a does not answer"),
        ("s3://me:secret@bucket/a", "s3://bucket/a"),
        ("no such ref: main/a", "no such ref: main/a"),
    ],
)
def test_local_paths_and_passwords_are_not_shown(message: str, shown: str) -> None:
    assert of_lake_error(errors.Unreachable(message)).message == shown
