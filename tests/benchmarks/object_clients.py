"""Moves objects of a bucket by one client, as a program whose processor time can be measured.

python -m tests.benchmarks.object_clients CLIENT up|down|rm s3://BUCKET/PREFIX COUNT SIZE

CLIENT is ``lakecli``, which is our own client of S3, or ``obstore``. Small objects move 16 at a
time, large ones 4; a downloaded object is read whole or in pieces, and is not kept. ``rm`` deletes
the objects.
"""

from __future__ import annotations

import io
import sys
from concurrent.futures import ThreadPoolExecutor
from os import environ
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

LARGE: Final = 8 << 20
PARALLELISM: Final = 16
LARGE_PARALLELISM: Final = 4
PIECE: Final = 1 << 20


class Client(Protocol):
    """What is compared."""

    def up(self, key: str, body: bytes) -> None:
        """Create an object."""

    def down(self, key: str) -> int:
        """Read an object to its end, and return its size."""

    def rm(self, keys: list[str]) -> None:
        """Delete objects."""


class Ours:
    """The client of `lakecli.objectstore.s3`."""

    def __init__(self, uri: str) -> None:
        from lakecli.objectstore.registry import open_store

        self._store = open_store(uri, region="us-east-1")

    def up(self, key: str, body: bytes) -> None:
        """Create an object: a small one on the condition that it is new, as uploads do."""
        from lakecli.objectstore.base import ANY

        if len(body) < LARGE:
            self._store.put_new(key, body)
        else:
            self._store.put(key, io.BytesIO(body), ANY)

    def down(self, key: str) -> int:
        """Read an object; a large one in pieces."""
        if "large" not in key:
            return len(self._store.get(key))
        size = 0
        with self._store.open(key) as body:
            while piece := body.read(PIECE):
                size += len(piece)
        return size

    def rm(self, keys: list[str]) -> None:
        """Delete objects."""
        self._store.delete(keys)


class Obstore:
    """The client of obstore, with requests as ours makes them."""

    def __init__(self, uri: str) -> None:
        from obstore.store import S3Store

        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        certificate = environ.get("AWS_CA_BUNDLE")
        self._store = S3Store(
            bucket,
            prefix=prefix,
            endpoint=environ["AWS_ENDPOINT_URL"],
            region="us-east-1",
            access_key_id=environ["AWS_ACCESS_KEY_ID"],
            secret_access_key=environ["AWS_SECRET_ACCESS_KEY"],
            virtual_hosted_style_request=False,
            client_options={"allow_http": True, "allow_invalid_certificates": bool(certificate)},
        )

    def up(self, key: str, body: bytes) -> None:
        """Create an object: a small one on the condition that it is new."""
        import obstore

        if len(body) < LARGE:
            obstore.put(self._store, key, body, mode="create", use_multipart=False)
        else:
            obstore.put(self._store, key, body)

    def down(self, key: str) -> int:
        """Read an object; a large one in pieces."""
        import obstore

        answer = obstore.get(self._store, key)
        if "large" not in key:
            return len(answer.bytes())
        return sum(map(len, answer.stream(min_chunk_size=PIECE)))

    def rm(self, keys: list[str]) -> None:
        """Delete objects."""
        import obstore

        obstore.delete(self._store, keys)


CLIENTS: Final[dict[str, Callable[[str], Client]]] = {"lakecli": Ours, "obstore": Obstore}


def main(name: str, verb: str, uri: str, count: str, size: str) -> None:
    """Move or delete the objects.

    Raises:
        AssertionError: an object has another size.
    """
    client, whole = CLIENTS[name](uri), int(size)
    is_large = whole >= LARGE
    body = bytes(whole)
    keys = [f"{'large' if is_large else 'small'}-{number:06d}" for number in range(int(count))]
    if verb == "rm":
        client.rm(keys)
        return

    def move(key: str) -> None:
        if verb == "up":
            client.up(key, body)
        else:
            found = client.down(key)
            assert found == whole, f"{key}: {found} bytes"

    with ThreadPoolExecutor(LARGE_PARALLELISM if is_large else PARALLELISM) as pool:
        list(pool.map(move, keys))


if __name__ == "__main__":
    main(*sys.argv[1:])
