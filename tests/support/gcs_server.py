"""A Google Cloud Storage for tests: gcp-storage-emulator, made as strict as the real one.

The emulator keeps buckets and objects. What it leaves out is added here: preconditions on every
verb, pages, generations as headers and as a parameter, old generations in buckets with versioning,
ranges with 416, the checksum announced
for a resumable upload, uploads in parts, V4 signatures and their expiry, several requests at once,
preconditions of deletions in a batch, and names that are not paths.

Usage: ``python -m tests.support.gcs_server PORT PUBLIC_KEY.pem``; the key is the one that signed
URLs must be made with.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from functools import partial, wraps
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from gcp_storage_emulator import server as emulator
from gcp_storage_emulator.exceptions import NotFound
from gcp_storage_emulator.handlers import objects
from gcp_storage_emulator.storage import Storage

from tests.support.gcs_parts import Parts

if TYPE_CHECKING:
    from collections.abc import Callable

    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    Handler = Callable[..., None]

LOCK = RLock()
PAGE_SIZE = 1_000
VERSIONED = "versioned-"
"""Prefix of the names of buckets with versioning."""
LONGEST = 604_800
SKEW = timedelta(minutes=15)


class StrictStorage(Storage):  # type: ignore[misc] # the emulator is not typed
    """Keeps names unchanged, without resolving dots or slashes, and writes nothing to disk."""

    def __init__(self) -> None:
        super().__init__(use_memory_fs=True)
        self._store = _Files()
        self.conditions: dict[str, dict[str, int]] = {}
        self.generations: dict[tuple[str, str, int], tuple[bytes, dict[str, Any]]] = {}
        self._generation = 0

    def _object_path(self, bucket_name: str, file_name: str) -> str:
        return f"{bucket_name}/{file_name}"

    def _write_config_to_file(self) -> None:
        """Keep nothing after the process ends."""

    def create_file(
        self,
        bucket_name: str,
        file_name: str,
        content: bytes,
        file_obj: dict[str, Any],
        file_id: str | None = None,
    ) -> None:
        """Store an object under a new generation, whatever the clock says."""
        self._generation = max(self._generation + 1, int(file_obj["generation"]) // 1_000)
        file_obj["generation"] = str(self._generation)
        super().create_file(bucket_name, file_name, content, file_obj, file_id)
        if self.buckets[bucket_name]["versioning"]["enabled"]:
            self.generations[bucket_name, file_name, self._generation] = content, file_obj

    def create_bucket(self, bucket_name: str, bucket_obj: dict[str, Any]) -> dict[str, Any]:
        """Create a bucket whose deletions take effect."""
        bucket_obj["softDeletePolicy"] = {"retentionDurationSeconds": "0"}
        bucket_obj["versioning"] = {"enabled": bucket_name.startswith(VERSIONED)}
        created: dict[str, Any] = super().create_bucket(bucket_name, bucket_obj)
        return created

    def generation(self, bucket: str, name: str) -> int:
        """Return the generation of an object, 0 if it does not exist."""
        try:
            return int(self.get_file_obj(bucket, name)["generation"])
        except NotFound:
            return 0


class _Files:
    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    def makedirs(self, path: str) -> None:
        """Do nothing."""

    def write_bytes(self, path: str, content: bytes) -> None:
        self._files[path] = content

    def read_bytes(self, path: str) -> bytes:
        try:
            return self._files[path]
        except KeyError:
            raise FileNotFoundError(path) from None

    def exists_file(self, path: str) -> bool:
        return path in self._files

    def remove_file(self, path: str) -> None:
        if self._files.pop(path, None) is None:
            raise FileNotFoundError(path)


def fail(response: Any, status: int, reason: str, message: str) -> None:
    response.status = HTTPStatus(status)
    response.json(
        {
            "error": {
                "code": status,
                "message": message,
                "errors": [{"message": message, "domain": "global", "reason": reason}],
            }
        }
    )


def fail_xml(response: Any, status: int, code: str) -> None:
    response.status = HTTPStatus(status)
    response["Content-Type"] = "application/xml; charset=UTF-8"
    response._content = f"<?xml version='1.0'?><Error><Code>{code}</Code></Error>"


def parameter(request: Any, name: str) -> str | None:
    values = request.query.get(name)
    return values[0] if values else None


# Preconditions


def conditions_of(request: Any) -> dict[str, int]:
    names = (
        "generation",
        "ifGenerationMatch",
        "ifGenerationNotMatch",
        "ifMetagenerationMatch",
        "ifMetagenerationNotMatch",
    )
    return {name: int(value) for name in names if (value := parameter(request, name)) is not None}


def check(
    response: Any, storage: StrictStorage, target: tuple[str, str], conditions: dict[str, int]
) -> bool:
    """Return whether the conditions hold for an object; if not, write the failure to `response`."""
    if target[0] not in storage.buckets:
        fail(response, 404, "notFound", "The specified bucket does not exist.")
        return False
    generation = storage.generation(*target)
    metageneration = int(storage.get_file_obj(*target)["metageneration"]) if generation else 0
    actual = {
        "generation": generation,
        "ifGenerationMatch": generation,
        "ifGenerationNotMatch": generation,
        "ifMetagenerationMatch": metageneration,
        "ifMetagenerationNotMatch": metageneration,
    }
    for name, value in conditions.items():
        if (actual[name] == value) == name.endswith("NotMatch"):
            if name == "generation":
                fail(response, 404, "notFound", f"No such object: {target[0]}/{target[1]}")
            else:
                message = "At least one of the pre-conditions you specified did not hold."
                fail(response, 412, "conditionNotMet", message)
            return False
    return True


def source_of(request: Any) -> tuple[str, str]:
    return request.params["bucket_name"], request.params["object_id"]


def destination_of(request: Any) -> tuple[str, str]:
    return request.params["dest_bucket_name"], request.params["dest_object_id"]


def uploaded_of(request: Any) -> tuple[str, str]:
    name = parameter(request, "name")
    if name is None:
        data = request.data
        name = (data.get("meta") or data)["name"]
    return request.params["bucket_name"], str(name)


def conditional(handler: Handler, target_of: Callable[[Any], tuple[str, str]]) -> Handler:
    """Check the preconditions in the query before `handler` acts on an object."""

    @wraps(handler)
    def checked(request: Any, response: Any, storage: StrictStorage) -> None:
        conditions = conditions_of(request)
        if old_of(request, storage) is not None:
            del conditions["generation"]
        if not conditions or check(response, storage, target_of(request), conditions):
            handler(request, response, storage)

    return checked


# Old generations


def old_of(request: Any, storage: StrictStorage) -> tuple[bytes, dict[str, Any]] | None:
    """Return the kept generation that the query names, with its properties."""
    generation = parameter(request, "generation")
    if generation is None or "object_id" not in request.params:
        return None
    return storage.generations.get((*source_of(request), int(generation)))


def delete(request: Any, response: Any, storage: StrictStorage) -> None:
    """Delete the current object, or permanently the generation that the query names."""
    old = old_of(request, storage)
    if old is not None:
        generation = int(old[1]["generation"])
        del storage.generations[(*source_of(request), generation)]
        if storage.generation(*source_of(request)) != generation:
            response.status = HTTPStatus.NO_CONTENT
            return
    objects.delete(request, response, storage)


# Batches


def batch_delete(request: object, item: dict[str, str], storage: StrictStorage, *rest: Any) -> bool:
    """Delete one object of a batch, on the condition of its generation, if one is given."""
    bucket, name, _, response = rest
    wanted = dict(parse_qsl(item.get("query", ""))).get("ifGenerationMatch")
    if wanted is not None and storage.generation(bucket, name) != int(wanted):
        objects._batch_write_json(
            response, "HTTP/1.1 412 Precondition Failed", {"error": {"code": 412}}
        )
        return True
    done: bool = objects._batch_delete(request, item, storage, *rest)
    return done


# Copies


def rewrite(request: Any, response: Any, storage: StrictStorage) -> None:
    """Copy an object; attributes in the body replace those of the original."""
    objects.rewrite(request, response, storage)
    given = request.data or {}
    if response.status == HTTPStatus.OK and ("contentType" in given or "metadata" in given):
        bucket, name = destination_of(request)
        made = storage.get_file_obj(bucket, name)
        made["contentType"] = given.get("contentType", "application/octet-stream")
        made["contentEncoding"] = given.get("contentEncoding")
        made["metadata"] = given.get("metadata", {})
        storage.patch_object(bucket, name, made)


# Uploads


def begin_upload(request: Any, response: Any, storage: StrictStorage) -> None:
    conditions = conditions_of(request)
    if conditions and not check(response, storage, uploaded_of(request), conditions):
        return
    objects.insert(request, response, storage)
    location = response._headers.get("Location")
    if location:
        storage.conditions[dict(parse_qsl(urlsplit(location).query))["upload_id"]] = conditions


def continue_upload(request: Any, response: Any, storage: StrictStorage) -> None:
    upload = parameter(request, "upload_id") or ""
    try:
        made = storage.get_resumable_file_obj(upload)
    except NotFound:
        fail(response, 404, "notFound", "No such upload.")
        return
    if not check(response, storage, (made["bucket"], made["name"]), storage.conditions[upload]):
        return
    announced = re.search(r"crc32c=([^,]+)", request.get_header("x-goog-hash") or "")
    if announced:
        made["crc32c"] = announced[1]
    objects.upload_partial(request, response, storage)


# Downloads


def download(request: Any, response: Any, storage: StrictStorage) -> None:
    bucket, name = source_of(request)
    try:
        body, made = old_of(request, storage) or (
            storage.get_file(bucket, name, show_error=False),
            storage.get_file_obj(bucket, name),
        )
    except NotFound:
        fail(response, 404, "notFound", f"No such object: {bucket}/{name}")
        return
    response["X-Goog-Generation"] = made["generation"]
    response["X-Goog-Metageneration"] = made["metageneration"]
    digest = made.get("md5Hash")
    response["X-Goog-Hash"] = f"crc32c={made['crc32c']}" + (f",md5={digest}" if digest else "")
    wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", request.get_header("range") or "")
    if wanted and (wanted[1] or wanted[2]):
        size = len(body)
        start = int(wanted[1]) if wanted[1] else max(size - int(wanted[2]), 0)
        end = min(int(wanted[2]) + 1, size) if wanted[1] and wanted[2] else size
        if start >= size:
            response["Content-Range"] = f"bytes */{size}"
            fail(response, 416, "requestedRangeNotSatisfiable", "Request range not satisfiable")
            return
        response.status = HTTPStatus.PARTIAL_CONTENT
        response["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        body = body[start:end]
    disposition = parameter(request, "response-content-disposition")
    if disposition:
        response["Content-Disposition"] = disposition
    stored = made.get("contentType") or "application/octet-stream"
    response.write_file(body, parameter(request, "response-content-type") or stored)


def download_json(request: Any, response: Any, storage: StrictStorage) -> None:
    if parameter(request, "alt") == "media":
        download(request, response, storage)
    elif (old := old_of(request, storage)) is not None:
        response.json(old[1])
    else:
        objects.get(request, response, storage)


# Listing


def list_objects(request: Any, response: Any, storage: StrictStorage) -> None:
    objects.ls(request, response, storage)
    if response.status != HTTPStatus.OK:
        return
    listed = json.loads(response._content)
    token = parameter(request, "pageToken")
    after = urlsafe_b64decode(token) if token else b""
    start = (parameter(request, "startOffset") or "").encode()
    end = (parameter(request, "endOffset") or "").encode()
    entries = [(item["name"].encode(), item) for item in listed["items"]]
    entries += [(prefix.encode(), None) for prefix in listed["prefixes"]]
    entries.sort(key=lambda entry: entry[0])
    kept = [
        entry
        for entry in entries
        if entry[0] >= start and entry[0] > after and (not end or entry[0] < end)
    ]
    size = min(int(parameter(request, "maxResults") or PAGE_SIZE), PAGE_SIZE)
    page = kept[:size]
    listed["items"] = [item for _, item in page if item]
    listed["prefixes"] = [name.decode() for name, item in page if not item]
    if len(kept) > size:
        listed["nextPageToken"] = urlsafe_b64encode(page[-1][0]).decode()
    response.json(listed)


# Signed URLs


class Gate:
    """Admits requests with a valid signature that has not expired, and no others."""

    def __init__(self, key: RSAPublicKey) -> None:
        self._key = key

    def guarded(self, handler: Handler) -> Handler:
        """Serve `handler` to holders of a signed URL only."""

        @wraps(handler)
        def checked(request: Any, response: Any, storage: StrictStorage) -> None:
            refusal = self._refusal(request)
            if refusal is not None:
                fail_xml(response, *refusal)
                return
            handler(request, response, storage)

        return checked

    def _refusal(self, request: Any) -> tuple[int, str] | None:
        url = urlsplit(request.full_url)
        pairs = parse_qsl(url.query, keep_blank_values=True)
        found = dict(pairs)
        if "X-Goog-Signature" not in found:
            return 403, "AccessDenied"
        start = datetime.strptime(found["X-Goog-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        lifetime = int(found["X-Goog-Expires"])
        scope = found["X-Goog-Credential"].partition("/")[2]
        if lifetime > LONGEST or scope != f"{start:%Y%m%d}/auto/storage/goog4_request":
            return 400, "InvalidArgument"
        if not self._is_genuine(request, url.path, pairs, found):
            return 403, "SignatureDoesNotMatch"
        now = datetime.now(UTC)  # noqa: TID251 - a server has a clock
        if now < start - SKEW:
            return 403, "AccessDenied"
        if now > start + timedelta(seconds=lifetime):
            return 400, "ExpiredToken"
        limits = request.get_header("x-goog-content-length-range")
        is_of_size = not limits or _is_between(len(request.data), *map(int, limits.split(",")))
        return None if is_of_size else (400, "EntityTooLarge")

    def _is_genuine(
        self, request: Any, path: str, pairs: list[tuple[str, str]], found: dict[str, str]
    ) -> bool:
        signed = found["X-Goog-SignedHeaders"].split(";")
        query = sorted(
            f"{quote(name, safe='~')}={quote(value, safe='~')}"
            for name, value in pairs
            if name != "X-Goog-Signature"
        )
        headers = [
            f"{name}:{' '.join((request.get_header(name) or '').split())}\n" for name in signed
        ]
        canonical = (
            request.method,
            path,
            "&".join(query),
            "".join(headers),
            ";".join(signed),
            "UNSIGNED-PAYLOAD",
        )
        digest = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
        scope = found["X-Goog-Credential"].partition("/")[2]
        text = "\n".join(("GOOG4-RSA-SHA256", found["X-Goog-Date"], scope, digest))
        try:
            signature = bytes.fromhex(found["X-Goog-Signature"])
            self._key.verify(signature, text.encode(), PKCS1v15(), hashes.SHA256())
        except (ValueError, InvalidSignature):
            return False
        return "host" in signed


def _is_between(size: int, least: int, most: int) -> bool:
    return least <= size <= most


# The server


def one_by_one(handler: Handler) -> Handler:
    """Read the body, then handle one request at a time: the emulator is not thread-safe."""

    @wraps(handler)
    def locked(request: Any, response: Any, storage: StrictStorage) -> None:
        request.data  # noqa: B018 - reads the body before the lock is taken
        with LOCK:
            handler(request, response, storage)
            explain_404(request, response, storage)

    return locked


def explain_404(request: Any, response: Any, storage: StrictStorage) -> None:
    if response.status != HTTPStatus.NOT_FOUND or response._content:
        return
    bucket, name = request.params["bucket_name"], request.params.get("object_id")
    if bucket not in storage.buckets:
        fail(response, 404, "notFound", "The specified bucket does not exist.")
    else:
        fail(response, 404, "notFound", f"No such object: {bucket}/{name}")


def strict_handlers(gate: Gate) -> tuple[tuple[str, dict[str, Handler]], ...]:
    """Return the emulator's routes with strict handlers."""
    strict: dict[Handler, Handler] = {
        objects.insert: begin_upload,
        objects.upload_partial: continue_upload,
        objects.ls: list_objects,
        objects.get: conditional(download_json, source_of),
        objects.download: conditional(download, source_of),
        objects.delete: conditional(delete, source_of),
        objects.patch: conditional(objects.patch, source_of),
        objects.compose: conditional(objects.compose, source_of),
        objects.copy: conditional(objects.copy, destination_of),
        objects.rewrite: conditional(rewrite, destination_of),
    }
    public = {
        objects.download: gate.guarded(conditional(download, source_of)),
        objects.xml_upload: gate.guarded(put),
    }
    parts = Parts()

    def route(path: str, handlers: dict[str, Handler]) -> tuple[str, dict[str, Handler]]:
        if not path.startswith("^/(?P<bucket_name>"):
            return path, {
                method: one_by_one(strict.get(handler, handler))
                for method, handler in handlers.items()
            }
        guarded = {method: public[handler] for method, handler in handlers.items()}
        return path, {
            method: one_by_one(parts.or_else(guarded.get(method), method))
            for method in ("GET", "PUT", "POST", "DELETE")
        }

    routes = tuple(route(path, handlers) for path, handlers in emulator.HANDLERS)
    of_bucket = {"GET": one_by_one(parts.or_else(None, "GET"))}
    return (*routes, (r"^/(?P<bucket_name>[-.\w]+)$", of_bucket))


def put(request: Any, response: Any, storage: StrictStorage) -> None:
    if request.data is None:
        request._data = b""
    objects.xml_upload(request, response, storage)


class StrictRequestHandler(emulator.RequestHandler):  # type: ignore[misc] # not typed
    """Keeps connections open, and answers every request."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


class StrictServer(ThreadingHTTPServer):
    """Accepts as many connections at once as a test opens."""

    daemon_threads = True
    request_queue_size = 128


def main() -> None:
    """Serve until killed."""
    port, key = int(sys.argv[1]), load_pem_public_key(Path(sys.argv[2]).read_bytes())
    emulator.HANDLERS = strict_handlers(Gate(key))  # type: ignore[arg-type]
    with_query = r"(?:\?(?P<query>[^\s]*))?"
    emulator.BATCH_HANDLERS = tuple(
        pattern.replace(emulator._QUERY, with_query) for pattern in emulator.BATCH_HANDLERS
    )
    objects._BATCH_METHOD_HANDLERS["DELETE"] = batch_delete
    handler = partial(StrictRequestHandler, StrictStorage())
    StrictServer(("127.0.0.1", port), handler).serve_forever()


if __name__ == "__main__":
    main()
