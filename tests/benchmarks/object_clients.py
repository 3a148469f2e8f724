"""Moves small objects of a bucket by one client, as a program whose cost can be measured.

python -m tests.benchmarks.object_clients lakecli|obstore up|down s3://BUCKET/PREFIX COUNT SIZE

16 objects are moved at a time, each as a whole. An object is created on the condition that it is
new, as uploads do.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from os import environ
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    Client = tuple[Callable[[str, bytes], object], Callable[[str], int]]

PARALLELISM: Final = 16


def ours(uri: str) -> Client:
    """Return what creates and what reads an object by the client of `lakecli.stores.s3`."""
    from lakecli.stores.registry import open_store

    store = open_store(uri, region="us-east-1")
    return store.put_new, lambda key: len(store.get(key))


def obstores(uri: str) -> Client:
    """Return what creates and what reads an object by obstore, with the same requests."""
    import obstore
    from obstore.store import S3Store

    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    store = S3Store(
        bucket,
        prefix=prefix,
        endpoint=environ["AWS_ENDPOINT_URL"],
        region="us-east-1",
        access_key_id=environ["AWS_ACCESS_KEY_ID"],
        secret_access_key=environ["AWS_SECRET_ACCESS_KEY"],
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )
    return (
        lambda key, body: obstore.put(store, key, body, mode="create", use_multipart=False),
        lambda key: len(obstore.get(store, key).bytes()),
    )


CLIENTS: Final[dict[str, Callable[[str], Client]]] = {"lakecli": ours, "obstore": obstores}


def main(name: str, verb: str, uri: str, count: str, size: str) -> None:
    """Move the objects.

    Raises:
        AssertionError: an object has another size.
    """
    create, read = CLIENTS[name](uri)
    body = bytes(int(size))

    def move(key: str) -> None:
        if verb == "up":
            create(key, body)
        else:
            found = read(key)
            assert found == len(body), f"{key}: {found} bytes"

    with ThreadPoolExecutor(PARALLELISM) as pool:
        list(pool.map(move, map("small-{:06d}".format, range(int(count)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
