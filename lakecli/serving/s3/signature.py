"""Verifying Signature Version 4, in the headers of a request and in presigned URLs.

The endpoint computes the expected signature with the secret key that both sides know, and compares
it. However a client percent-encodes a query, it signs the encoding that Amazon documents. Some
clients sign a path as they encode it, which is accepted, too.
"""

import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from lakecli.serving.reading import query_of
from lakecli.serving.s3.errors import S3Error
from lakecli.stores.presigned_urls import LONGEST, end_of_request
from lakecli.stores.s3.signing import AS_SENT, AWS4, UNSIGNED, signing_key, text_to_sign

UNSIGNED_TRAILER: Final = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
SIGNED_CHUNKS: Final = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
SIGNED_TRAILER: Final = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"

LONGEST_SKEW: Final = timedelta(minutes=15)
"""The maximum difference between the clocks of a client and of the endpoint."""

_PAYLOAD: Final = "x-amz-content-sha256"
_SHA256: Final = "Content-Sha256"
_FORMS: Final = frozenset({UNSIGNED, UNSIGNED_TRAILER, SIGNED_CHUNKS, SIGNED_TRAILER})
_HEX: Final = re.compile("[0-9a-f]{64}", re.ASCII)
_MOMENT: Final = re.compile("[0-9]{8}T[0-9]{6}Z", re.ASCII)
_SCOPE: Final = re.compile("[0-9]{8}/[A-Za-z0-9_.-]{1,64}/s3/aws4_request", re.ASCII)
_SECONDS: Final = re.compile("[0-9]{1,9}", re.ASCII)
_SIGNATURE: Final = f"{AWS4.prefix}Signature"
_IN_HEADER: Final = frozenset({"Algorithm", "Credential", "SignedHeaders", "Signature"})
_IN_QUERY: Final = _IN_HEADER | {"Date", "Expires"}
_HEADER: Final = "AuthorizationHeaderMalformed"
_QUERY: Final = "AuthorizationQueryParametersError"


class Signed(NamedTuple):
    """The verified signature of a request, and the values needed to verify its body.

    Attributes:
        payload: the signed value of the body: its SHA-256 in hex, or a name such as
            `SIGNED_CHUNKS`.
        seed: the signature in hex, which the signature of the first chunk depends on.
        key: the signing key for chunks.
        date: the time of signing, in the format of ``x-amz-date``.
    """

    payload: str
    seed: str
    key: bytes
    scope: str
    date: str


def verify(
    method: str,
    raw_path: bytes,
    raw_query: bytes,
    headers: Sequence[tuple[bytes, bytes]],
    *,
    secret_of: Callable[[str], str | None],
    now: datetime,
) -> Signed:
    """Verify the signature of a request.

    Args:
        raw_path: the path as the client sent it, percent-encoded.
        raw_query: the query as the client sent it, without the question mark.
        headers: pairs of a name in lower case and a value, as in an ASGI scope.
        secret_of: returns the secret key of an access key, or ``None`` if there is no such key.
        now: the current time, with its zone.

    Raises:
        S3Error: SignatureDoesNotMatch, InvalidAccessKeyId, RequestTimeTooSkewed, AccessDenied
            (unsigned or expired) and others.
    """
    sent = _joined(headers)
    parameters = query_of(raw_query)
    fields, code = _fields_of(sent, parameters)
    date, payload, signature = fields["Date"], fields[_SHA256], fields["Signature"]
    access_key, _, scope = fields["Credential"].partition("/")
    if _SCOPE.fullmatch(scope) is None:
        raise _malformed(code, "the Credential must be KEY/DATE/REGION/s3/aws4_request")
    if _HEX.fullmatch(signature) is None:
        raise _malformed(code, "the Signature must be 64 hexadecimal digits")
    if not scope.startswith(date[:8]):
        raise _malformed(code, "the date of the Credential is not that of the request")
    _check_date(date, fields.get("Expires"), now)
    if payload not in _FORMS and _HEX.fullmatch(payload) is None:
        raise S3Error(
            "InvalidArgument", f"{_PAYLOAD} must be one of {', '.join(sorted(_FORMS))}, or SHA-256."
        )
    secret = secret_of(access_key)
    if secret is None:
        raise S3Error("InvalidAccessKeyId", "The access key ID is not the one of this endpoint.")
    end = end_of_request(_signed_of(fields["SignedHeaders"], sent), payload)
    key = signing_key(secret, scope)
    query = _encoded_query(parameters)
    for path in (raw_path.decode(*AS_SENT), quote(unquote_to_bytes(raw_path), safe="/~")):
        text = text_to_sign(f"{method}\n{path or '/'}\n{query}\n{end}", date, scope)
        # `hmac.new` keeps the GIL. `hmac.digest` would release it, and the event loop would have to
        # wait until it gets the GIL back.
        expected = hmac.new(key, text.encode(*AS_SENT), "sha256").hexdigest()
        if hmac.compare_digest(expected, signature):
            return Signed(payload, signature, key, scope, date)
    raise _mismatch("check the secret key, and the host and path that were signed")


def _joined(headers: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the headers by name; the values of a repeated name are joined with commas."""
    joined: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode(*AS_SENT).strip()
        joined[name] = f"{joined[name]},{value}" if name in joined else value
    return joined


def _fields_of(
    headers: Mapping[str, str], parameters: Sequence[tuple[str, str]]
) -> tuple[dict[str, str], str]:
    """Return the fields of a request's signature by their names in a query, without the prefix.

    A request with no signature, or one of another kind, is refused.

    Returns:
        the fields, and the error code for malformed ones.
    """
    authorization = headers.get("authorization", "")
    names = {name for name, _ in parameters}
    is_presigned = bool(names & {_SIGNATURE, f"{AWS4.prefix}Algorithm"})
    if authorization.startswith("AWS ") or {"AWSAccessKeyId", "Signature"} <= names:
        raise S3Error(
            "InvalidRequest",
            "The request is signed by Signature Version 2, please use AWS4-HMAC-SHA256: "
            "in boto3, set Config(signature_version='s3v4').",
        )
    if authorization and is_presigned:
        raise S3Error("InvalidArgument", "Sign in the URL or in the header, not in both.")
    if not authorization and not is_presigned:
        raise S3Error("AccessDenied", "The request must be signed by Signature Version 4.")
    if is_presigned:
        code, needed = _QUERY, _IN_QUERY
        pairs = [
            (name.removeprefix(AWS4.prefix), value)
            for name, value in parameters
            if name.startswith(AWS4.prefix)
        ]
        others = {_SHA256: headers.get(_PAYLOAD, UNSIGNED)}
    else:
        code, needed = _HEADER, _IN_HEADER
        algorithm, _, rest = authorization.partition(" ")
        fields = (each.strip().partition("=") for each in rest.split(","))
        pairs = [("Algorithm", algorithm), *((name, value) for name, _, value in fields)]
        if _PAYLOAD not in headers:
            raise S3Error("InvalidRequest", f"The header {_PAYLOAD} is missing.")
        others = {_SHA256: headers[_PAYLOAD], "Date": headers.get("x-amz-date", "")}
    found = dict(pairs)
    if found.get("Algorithm", AWS4.algorithm) != AWS4.algorithm:
        raise S3Error("InvalidRequest", f"The signature must be of the type {AWS4.algorithm}.")
    is_known = is_presigned or found.keys() <= needed
    if len(pairs) != len(found) or not found.keys() >= needed or not is_known:
        raise _malformed(code, f"each of {', '.join(sorted(needed))} is needed once")
    return others | found, code


def _check_date(date: str, expires: str | None, now: datetime) -> None:
    """Check that the time of signing is neither too long ago nor in the future.

    Args:
        date: the time of signing.
        expires: the lifetime of a presigned URL in seconds; ``None`` for a signed header.
    """
    seconds, longest = "1" if expires is None else expires, int(LONGEST.total_seconds())
    if _SECONDS.fullmatch(seconds) is None or not 1 <= int(seconds) <= longest:
        raise _malformed(_QUERY, f"{AWS4.prefix}Expires must be 1 to {longest} seconds")
    try:
        moment = datetime.fromisoformat(date if _MOMENT.fullmatch(date) else "")
    except ValueError:
        raise S3Error("AccessDenied", "The request needs a valid date (x-amz-date).") from None
    if expires is not None and now - moment > timedelta(seconds=int(seconds)):
        raise S3Error("AccessDenied", "Request has expired.")
    if (expires is None and now - moment > LONGEST_SKEW) or moment - now > LONGEST_SKEW:
        raise S3Error(
            "RequestTimeTooSkewed",
            f"The request time is {moment}, and the time of this machine is {now}.",
        )


def _signed_of(signed_headers: str, headers: Mapping[str, str]) -> dict[str, str]:
    """Return the signed headers; refuse a request that leaves a mandatory header unsigned."""
    names = signed_headers.split(";")
    if names != sorted(set(names)):
        raise _mismatch("SignedHeaders must be ordered, each header once")
    missing = [name for name in names if name not in headers]
    if missing or not headers.get("host") or "host" not in names:
        raise _mismatch(f"the request must have and sign the header {(missing or ['host'])[0]!r}")
    unsigned = [
        name
        for name in headers
        if name.startswith("x-amz-") and name not in names and name != _PAYLOAD
    ]
    if unsigned:
        raise S3Error(
            "AccessDenied", f"Headers of the request were not signed: {', '.join(unsigned)}"
        )
    return {name: headers[name] for name in names}


def _encoded_query(parameters: Sequence[tuple[str, str]]) -> str:
    """Return the query as Amazon documents that it is encoded and ordered to be signed."""
    encoded = partial(quote, safe="", errors="surrogateescape")
    pairs = ((encoded(name), encoded(value)) for name, value in parameters)
    return "&".join(f"{name}={value}" for name, value in sorted(pairs) if name != _SIGNATURE)


def _malformed(code: str, problem: str) -> S3Error:
    return S3Error(code, f"The signature is malformed: {problem}.")


def _mismatch(problem: str) -> S3Error:
    return S3Error(
        "SignatureDoesNotMatch",
        f"The signature that was computed is not the one of the request: {problem}.",
    )
