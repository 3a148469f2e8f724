"""Signature Version 4 for presigned URLs, upload forms and the headers of requests.

Signatures are computed without the SDK, with which ``fs presign`` would take much longer, for one
URL as well as for thousands. Tests compare the signatures with the SDK's.
"""

import json
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from hmac import digest
from typing import Final, NamedTuple

from lakecli.errors import PermissionDenied
from lakecli.stores import presigned_urls
from lakecli.stores.presigned_urls import PresignedUrl, PresignRequest, moment_and_scope
from lakecli.stores.s3.settings import NO_DEMANDS, AccessKeys, S3Demands

AWS4: Final = presigned_urls.V4("AWS4-HMAC-SHA256", "X-Amz-", "s3/aws4_request")
AS_SENT: Final = ("utf-8", "surrogateescape")
"""Encoding and error handler that convert the texts of a request to its bytes."""

LONGEST_SESSION: Final = timedelta(hours=36)
"""The longest lifetime of temporary AWS credentials (GetSessionToken, GetFederationToken)."""


UNSIGNED: Final = "UNSIGNED-PAYLOAD"
"""Stands for the digest of a body that is not signed, because it is protected in another way."""

_UNSIGNED_HEADERS: Final = {"Accept-Encoding": "identity", "User-Agent": "lakecli"}
"""Headers that are not signed, because proxies may change them."""


class S3Signer(NamedTuple):
    """Signs with keys, for a bucket; the holder of a URL or form gets the keys' permissions.

    Attributes:
        keys: the keys that sign. Keys with a token and an unknown time of expiry are treated as if
            they expired after `LONGEST_SESSION`.
        region: region of the bucket.
        demands: the requirements of the bucket for requests.
    """

    keys: AccessKeys
    region: str
    demands: S3Demands = NO_DEMANDS

    def url(
        self, request: PresignRequest, url: str, now: datetime, version_id: str = ""
    ) -> PresignedUrl:
        """Return the signed URL of an object.

        Args:
            url: URL of the object, percent-encoded.
            version_id: ID of the version that the URL reads; ``""`` for the current object.

        Raises:
            UsageError: the method is not GET or PUT, or the lifetime is shorter than a second.
            PermissionDenied: the credentials have expired.
        """
        keys, of_all = self.keys, self.demands.of_all
        made, scope, text = presigned_urls.v4_url(
            AWS4._replace(name=keys.access_key, region=self.region),
            request,
            url,
            self._period(request, now),
            parameters={"X-Amz-Security-Token": keys.token, "versionId": version_id, **of_all},
            put_headers=self.demands.of_writes,
        )
        return made._replace(url=made.url + signature(keys.secret_key, scope, text))

    def _period(self, request: PresignRequest, now: datetime) -> tuple[datetime, timedelta]:
        """Return the moment of signing, and the lifetime of the signature."""
        keys = self.keys
        is_unknown = keys.token and keys.expires_at is None
        longest = LONGEST_SESSION if is_unknown else presigned_urls.LONGEST
        lifetime = presigned_urls.lifetime_of(request.method, request.expires_in, longest=longest)
        start = now.astimezone(UTC).replace(microsecond=0)
        if keys.expires_at is not None:
            lifetime = min(lifetime, keys.expires_at - start)
        if lifetime < timedelta(seconds=1):
            hint = "log in again, or set a fresh AWS_SESSION_TOKEN"
            raise PermissionDenied("cannot presign, the credentials for S3 have expired", hint=hint)
        return start, lifetime

    def form(
        self, request: PresignRequest, url: str, bucket: str, key: str, now: datetime
    ) -> PresignedUrl:
        """Return a form (``POST``) that uploads an object: on S3, only a form can limit the size.

        Args:
            url: URL of the bucket, percent-encoded.

        Raises:
            UsageError: the lifetime is shorter than a second.
            PermissionDenied: the credentials have expired.
        """
        keys, (start, lifetime) = self.keys, self._period(request, now)
        end = start + timedelta(seconds=int(lifetime.total_seconds()))
        moment, scope = moment_and_scope(int(start.timestamp()), self.region, AWS4.service)
        fields = {
            "key": key,
            "x-amz-algorithm": AWS4.algorithm,
            "x-amz-credential": f"{keys.access_key}/{scope}",
            "x-amz-date": moment,
            **({"x-amz-security-token": keys.token} if keys.token else {}),
            **self.demands.of_writes,
            **self.demands.of_all,
        }
        limit = ["content-length-range", 0, request.max_size]
        named = ({name: value} for name, value in fields.items())
        policy = {
            "expiration": f"{end:%Y-%m-%dT%H:%M:%SZ}",
            "conditions": [{"bucket": bucket}, *named, limit],
        }
        text = b64encode(json.dumps(policy).encode()).decode()
        made = signature(keys.secret_key, scope, text)
        return PresignedUrl(url, end, fields=fields | {"policy": text, "x-amz-signature": made})

    def headers(
        self,
        method: str,
        path: str,
        query: str,
        headers: Mapping[str, str],
        *,
        payload: str,
        now: float,
    ) -> dict[str, str]:
        """Return the headers to send with a request, including its signature.

        Args:
            path: path of the URL, percent-encoded.
            query: query of the URL, sorted and percent-encoded.
            headers: the request's own headers by lower-case names, including ``host``.
            payload: SHA-256 of the body in hex, or `UNSIGNED`.
            now: the moment of signing, in seconds since 1970.
        """
        keys = self.keys
        moment, scope = moment_and_scope(int(now), self.region, AWS4.service)
        named = {**headers, "x-amz-content-sha256": payload, "x-amz-date": moment}
        named |= self.demands.of_all
        if keys.token:
            named["x-amz-security-token"] = keys.token
        canonical = f"{method}\n{path}\n{query}\n{presigned_urls.end_of_request(named, payload)}"
        made = signature(keys.secret_key, scope, text_to_sign(canonical, moment, scope))
        authorization = (
            f"{AWS4.algorithm} Credential={keys.access_key}/{scope}, "
            f"SignedHeaders={';'.join(sorted(named))}, Signature={made}"
        )
        sent = {name.title(): value for name, value in named.items()}
        return sent | _UNSIGNED_HEADERS | {"Authorization": authorization}


def text_to_sign(canonical: str, moment: str, scope: str) -> str:
    """Return the text that is signed for a canonical request."""
    request = sha256(canonical.encode(*AS_SENT)).hexdigest()
    return f"{AWS4.algorithm}\n{moment}\n{scope}\n{request}"


def signature(secret_key: str, scope: str, text: str) -> str:
    """Return the signature of a text, in hex."""
    return digest(signing_key(secret_key, scope), text.encode(*AS_SENT), "sha256").hex()


@lru_cache(maxsize=4)
def signing_key(secret_key: str, scope: str) -> bytes:
    """Return the signing key of a scope: of one day, region and service."""
    key = f"AWS4{secret_key}".encode()
    for part in scope.split("/"):
        key = digest(key, part.encode(), "sha256")
    return key
