"""The adapter of Amazon S3, and of servers with the same protocol.

The SDK determines credentials, profile, endpoint, proxies and certificates, so lakecli works with
the same configuration as AWS's own tools. A version is an ETag without its quotes. All servers
accept an unquoted ETag as a condition; radosgw 16 refuses a quoted one in If-Match.

The SDK retries every request except conditional writes. Conditional writes are sent once: a retry
could fail because the first attempt succeeded. So if the outcome of a write is unknown, the caller
reads the object back.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import Any, BinaryIO

from lakecli.base.retry import REQUESTS, Retries
from lakecli.errors import Unsupported
from lakecli.stores import contract
from lakecli.stores.capabilities import Access
from lakecli.stores.cloud_store import Refusal
from lakecli.stores.contract import Attributes, Condition, Version
from lakecli.stores.presigned_urls import LARGEST_PUT, PresignedUrl, PresignRequest
from lakecli.stores.responses import required
from lakecli.stores.s3.errors import status_of
from lakecli.stores.s3.reading import S3Reader, headers_of, version_of
from lakecli.stores.s3.signing import S3Signer
from lakecli.stores.s3.uploads import S3Uploads, send_or_create
from lakecli.stores.streams import parts_of

_NOT_IN_XML = "[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]"  # compiled on first use


class S3Store(S3Reader):
    """A namespace in an S3 bucket.

    Args:
        prefix: prefix of every key, without a trailing slash; may be empty.
        region: region of the bucket, as `prepare` returned it; ``""``: the region in the SDK's
            configuration.
        account: the profile, endpoint and region that override the configured ones, the limits for
            slow servers, and the requirements of buckets.
    """

    _has_conditions = True

    def prepare(self) -> str:
        """Request the bucket's region from the store, and use that region from now on."""
        with self.translated():
            return self._connection.find_region(self.bucket)

    def _delete(self, names: Sequence[str], versions: Sequence[Version] = ()) -> Iterable[Refusal]:
        del versions  # see `DeletesMatching`: an ETag is not a condition for a deletion
        # At most a few attempts, whatever the configuration says: a sweep may delete only while it
        # holds its lease.
        client = self._connection.client(max_attempts=REQUESTS.attempts)
        plain = []
        for full in names:
            if not re.search(_NOT_IN_XML, full):
                plain.append({"Key": full})
                continue
            with self.translator.translated(full):
                client.delete_object(Bucket=self.bucket, Key=full)
        if not plain:
            return
        with self.translated():
            doomed = {"Objects": plain, "Quiet": True}
            answer = client.delete_objects(Bucket=self.bucket, Delete=doomed)
        for failed in answer.get("Errors", ()):
            code, full = failed.get("Code", ""), failed.get("Key", "")
            if code != "NoSuchKey":
                yield full, self.translator.refused_object(code, full, failed.get("Message", ""))

    def copy(self, source: str, key: str) -> None:
        """Copy one object with its content type and metadata, in parts above 5 GiB."""
        with self.translated(source) as origin:
            self.uploads().copy({"Bucket": self.bucket, "Key": origin}, key, {}, {})

    @property
    def endpoint(self) -> str:
        """The URL of a store that is not AWS, or ``""``."""
        with self.translated():
            return self._connection.config.endpoint

    def copy_from(
        self, source: contract.ObjectStore, source_key: str, key: str, attributes: Attributes
    ) -> bool:
        """Copy an object from any bucket of this endpoint; return ``False`` for other sources."""
        if not isinstance(source, S3Store) or source.endpoint != self.endpoint:
            return False  # at another endpoint, the name belongs to another bucket
        # Without any argument, the copy would get the attributes of the original.
        arguments = {"Metadata": {}, **_arguments_of(attributes)}
        payer = source.payer
        with source.translated(source_key) as origin:
            self.uploads().copy({"Bucket": source.bucket, "Key": origin}, key, arguments, payer)
        return True

    @property
    def payer(self) -> dict[str, str]:
        """The argument of a copy that makes the requester pay for reading from this bucket."""
        return {"RequestPayer": "requester"} if self._connection.demands.of_all else {}

    def presign(self, key: str, request: PresignRequest, *, now: datetime) -> PresignedUrl:
        """Sign a URL offline; if the request limits the size of an upload, sign a form instead."""
        with self.translated(key) as full:
            config, demands = self._connection.config, self._connection.demands
            url = config.object_url(self.bucket, full)
            if demands.anonymous:
                raise self.translator.no_signature(url)
            signer = S3Signer(self._connection.find_keys(), config.region, demands)
        if request.method == "PUT" and request.max_size < LARGEST_PUT:
            url = config.object_url(self.bucket, "")
            return signer.form(request, url, self.bucket, full, now)
        return signer.url(request, url, now, self.version_id)

    def access(self) -> Access:
        """Describe the credentials in use, and the host that receives requests."""
        with self.translated():
            return self._connection.access()

    def uploads(self) -> S3Uploads:
        """Return the interface for multipart uploads, which another process can resume."""
        return S3Uploads(self, self.bucket, self._connection)

    def put_new(self, key: str, body: bytes) -> bool:
        """Write `body` unless the key exists; a retry is safe, as the key determines the bytes.

        Raises:
            Unreachable: another write of the same key was in progress during every attempt.
        """
        if self._has_conditions:
            try:
                return self._put_new(key, body)
            except Unsupported:
                self._has_conditions = False
        try:
            self.head(key)
        except contract.ObjectNotFound:
            self.put(key, body, contract.ANY)
            return True
        return False

    def _put_new(self, key: str, body: bytes) -> bool:
        with self.translated(key) as full:
            created = self.direct.create(full, body)
        if created is not None:
            return created
        from botocore.exceptions import ClientError

        for _ in Retries(REQUESTS).attempts():
            with self.translated(key) as full:
                try:
                    answer = self._connection.client().put_object(
                        Bucket=self.bucket, Key=full, Body=body, IfNoneMatch="*"
                    )
                    required(answer, "ETag")  # without it, the response does not confirm the write
                except ClientError as error:
                    if status_of(error) == HTTPStatus.PRECONDITION_FAILED:
                        return False
                    conflict = error
                    if status_of(error) != HTTPStatus.CONFLICT:
                        raise
                    # Another write of this key is in progress and may still fail, so try again.
                else:
                    return True
        with self.translated(key):
            raise conflict

    def _put_whole(
        self, key: str, data: bytes, condition: Condition, attributes: Attributes
    ) -> Version:
        conditions = headers_of(condition)
        with self.translated(key, may_be_absent=bool(conditions)) as full:
            client = self._connection.client(max_attempts=1 if conditions else None)
            arguments = {"Bucket": self.bucket, "Key": full, "Body": data}
            send = partial(client.put_object, **arguments, **_arguments_of(attributes))
            version = version_of(send_or_create(send, conditions))
        return version or self.head(key).version

    def _put_stream(
        self, key: str, first: bytes, rest: BinaryIO, attributes: Attributes
    ) -> Version:
        return self.uploads().send(key, parts_of(first, rest), _arguments_of(attributes))

    def check_bucket(self) -> None:
        """Check that the bucket exists."""
        with self.translated():
            self._connection.client().head_bucket(Bucket=self.bucket)


def _arguments_of(attributes: Attributes) -> dict[str, Any]:
    """Return the SDK's arguments for attributes of a new object."""
    named = {
        "ContentType": attributes.content_type,
        "ContentEncoding": attributes.content_encoding,
        "Metadata": dict(attributes.metadata),
    }
    return {name: value for name, value in named.items() if value}
