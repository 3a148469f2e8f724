"""Repositories as buckets; and what every bucket and object answers alike."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from lakecli.serving.s3 import xml
from lakecli.serving.s3.call import Call, S3Answer, empty_answer, xml_answer
from lakecli.serving.s3.errors import S3Error
from lakecli.serving.s3.objects import find_entry, iso_date

if TYPE_CHECKING:
    from lakecli.serving.served import Served

OWNER: Final = xml.branch("Owner", [xml.leaf("ID", "lakecli"), xml.leaf("DisplayName", "lakecli")])
"""The owner of everything; there are no others."""

_UNKNOWN: Final = datetime(1970, 1, 1, tzinfo=UTC)

_GRANTEE: Final = xml.Markup(
    '<Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="CanonicalUser">'
    "<ID>lakecli</ID><DisplayName>lakecli</DisplayName></Grantee>"
)
_ACL: Final = xml.document(
    "AccessControlPolicy",
    [
        OWNER,
        xml.branch(
            "AccessControlList",
            [xml.branch("Grant", [_GRANTEE, xml.leaf("Permission", "FULL_CONTROL")])],
        ),
    ],
)


def check_bucket(call: Call) -> None:
    """Raise an error unless the bucket is served."""
    if call.bucket not in call.context.served.names():
        raise S3Error("NoSuchBucket", f"no repository {call.bucket!r} is served here")


async def list_buckets(call: Call) -> S3Answer:
    """Answer ListBuckets."""
    found = await call.in_thread(_names, call.context.served)
    prefix = call.query.get("prefix", "")
    listed = [
        xml.branch(
            "Bucket",
            [
                xml.leaf("Name", name),
                xml.leaf("CreationDate", iso_date(created_at)),
            ],
        )
        for name, created_at in found
        if name.startswith(prefix)
    ]
    children = [OWNER, xml.branch("Buckets", listed)]
    return xml_answer(xml.document("ListAllMyBucketsResult", children))


def _names(served: Served) -> list[tuple[str, datetime]]:
    created = {record.name: record.created_at for record in served.lake.repositories()}
    return [(name, created.get(name, _UNKNOWN)) for name in served.names()]


async def head_bucket(call: Call) -> S3Answer:
    """Answer HeadBucket."""
    await call.in_thread(check_bucket, call)
    return empty_answer(200, [(b"x-amz-bucket-region", call.context.options.region.encode())])


async def create_bucket(call: Call) -> S3Answer:
    """Answer CreateBucket: a repository is made by another command."""
    if call.bucket in await call.in_thread(call.context.served.names):
        raise S3Error("BucketAlreadyOwnedByYou", f"the repository {call.bucket!r} exists already")
    raise S3Error("NotImplemented", "create the repository: `lakecli repo create`")


async def get_location(call: Call) -> S3Answer:
    """Answer GetBucketLocation."""
    await call.in_thread(check_bucket, call)
    region = call.context.options.region
    text = "" if region == "us-east-1" else region
    return xml_answer(xml.document("LocationConstraint", [xml.Markup(text)]))


async def get_versioning(call: Call) -> S3Answer:
    """Answer GetBucketVersioning: there was never any, because commits are the versions."""
    await call.in_thread(check_bucket, call)
    return xml_answer(xml.document("VersioningConfiguration", []))


async def get_acl(call: Call) -> S3Answer:
    """Answer GetBucketAcl."""
    await call.in_thread(check_bucket, call)
    return xml_answer(_ACL)


async def get_object_acl(call: Call) -> S3Answer:
    """Answer GetObjectAcl."""
    await call.in_thread(find_entry, call)
    return xml_answer(_ACL)


async def get_object_tagging(call: Call) -> S3Answer:
    """Answer GetObjectTagging."""
    await call.in_thread(find_entry, call)
    return xml_answer(xml.document("Tagging", [xml.branch("TagSet", [])]))
