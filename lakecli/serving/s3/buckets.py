"""Repositories as buckets, and what is answered for all buckets and objects alike."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from lakecli.serving.s3 import xml
from lakecli.serving.s3.call import Call, S3Answer
from lakecli.serving.s3.errors import S3Error
from lakecli.serving.s3.objects import find_entry, iso_date

OWNER: Final = xml.elements(ID="lakecli", DisplayName="lakecli")
"""The owner of everything; there are no others."""

_UNKNOWN: Final = datetime(1970, 1, 1, tzinfo=UTC)

_GRANTEE: Final = (
    '<Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="CanonicalUser">'
    f"{OWNER}</Grantee><Permission>FULL_CONTROL</Permission>"
)
_GRANTS: Final = xml.elements(Grant=xml.Markup(_GRANTEE))


def list_buckets(call: Call) -> S3Answer:
    """Answer ListBuckets."""
    served, prefix = call.context.served, call.query.get("prefix", "")
    created = {record.name: record.created_at for record in served.lake.repositories()}
    found = [
        xml.elements(Name=name, CreationDate=iso_date(created.get(name, _UNKNOWN)))
        for name in served.names()
        if name.startswith(prefix)
    ]
    buckets = xml.elements(Bucket=found)
    return S3Answer.document("ListAllMyBucketsResult", Owner=OWNER, Buckets=buckets)


def head_bucket(call: Call) -> S3Answer:
    """Answer HeadBucket."""
    call.check_bucket()
    return S3Answer(200, {"x-amz-bucket-region": call.context.options.region})


def create_bucket(call: Call) -> S3Answer:
    """Answer CreateBucket: a repository is made by another command."""
    if call.bucket in call.context.served.names():
        raise S3Error("BucketAlreadyOwnedByYou", f"the repository {call.bucket!r} exists already")
    raise S3Error("NotImplemented", "create the repository: `lakecli repo create`")


def get_location(call: Call) -> S3Answer:
    """Answer GetBucketLocation."""
    call.check_bucket()
    region = call.context.options.region
    return S3Answer.document("LocationConstraint", "" if region == "us-east-1" else region)


def get_versioning(call: Call) -> S3Answer:
    """Answer GetBucketVersioning: there was never any, because commits are the versions."""
    call.check_bucket()
    return S3Answer.document("VersioningConfiguration")


def get_acl(call: Call) -> S3Answer:
    """Answer GetBucketAcl, or GetObjectAcl."""
    if call.key:
        find_entry(call)
    call.check_bucket()
    return S3Answer.document("AccessControlPolicy", Owner=OWNER, AccessControlList=_GRANTS)


def get_object_tagging(call: Call) -> S3Answer:
    """Answer GetObjectTagging."""
    find_entry(call)
    return S3Answer.document("Tagging", TagSet="")
