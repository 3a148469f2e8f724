"""A process that uses a local store, started by the tests of this directory.

``python worker.py COMMAND DIRECTORY [ARGUMENT]`` prints a line when it reaches a state, and waits
for a line on stdin before it leaves that state. Errors of lakecli are printed as ``kind: message``.
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

import lmdb

from lakecli.errors import LakeError
from lakecli.kv.local_store import LocalStore, Table


def say(word: object) -> None:
    print(word, flush=True)


def count(directory: Path, times: str) -> None:
    """Increment one number in two records, each time in one transaction."""
    with LocalStore.open(directory) as store:
        for _ in range(int(times)):
            with store.write() as txn:
                number = int(txn.get(Table.TOKENS, b"first") or b"0") + 1
                txn.put(Table.TOKENS, b"first", b"%d" % number)
                txn.put(Table.TOKENS, b"second", b"%d" % number)
                txn.put(Table.COMMITS, b"%08d" % number, os.urandom(500))


def hold_write(directory: Path, size: str) -> None:
    """Stay in a write transaction that has changed much."""
    with LocalStore.open(directory) as store, store.write() as txn:
        txn.put(Table.BRANCHES, b"main", b"new")
        txn.put_sorted(Table.STAGING, [(b"%08d" % n, bytes(1000)) for n in range(int(size))])
        say("inside")
        sys.stdin.readline()


def hold_read(directory: Path) -> None:
    """Stay inside a read transaction."""
    with LocalStore.open(directory) as store, store.read() as txn:
        txn.get(Table.BRANCHES, b"main")
        say("inside")
        sys.stdin.readline()


def hold_small_map(directory: Path) -> None:
    """Keep the store open with a small map while another process makes it grow."""
    with LocalStore.open(directory, map_size=1 << 20) as store:
        with store.read():
            say("open")
        sys.stdin.readline()
        with store.read():
            say("not reached")


def put_and_get(directory: Path) -> None:
    """Write something and read it."""
    with LocalStore.open(directory) as store:
        with store.write() as txn:
            txn.put(Table.BRANCHES, b"main", b"new")
        with store.read() as reader:
            say((reader.get(Table.BRANCHES, b"main") or b"").decode())


def limited_space(directory: Path, spare: str) -> None:
    """Do the same with a limited address space."""
    lmdb.version()
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = used + int(spare)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    put_and_get(directory)


def limited_file(directory: Path, limit: str) -> None:
    """Write more than the size limit of a file allows, then less."""
    with LocalStore.open(directory) as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
        fill(store)


def full_disk(directory: Path) -> None:
    """Write more than the disk can hold, then less."""
    with LocalStore.open(directory) as store:
        fill(store)


def fill(store: LocalStore) -> None:
    try:
        with store.write() as txn:
            txn.put(Table.BRANCHES, b"main", b"new")
            txn.put_sorted(Table.STAGING, [(b"%08d" % n, bytes(1000)) for n in range(8000)])
    except LakeError as error:
        say(f"{error.kind}: {error.message}")
    with store.read() as reader:
        say((reader.get(Table.BRANCHES, b"main") or b"").decode())


def fork(directory: Path) -> None:
    """Use, open and close a store in a child that was forked while it was open."""
    store = LocalStore.open(directory)
    if os.fork() == 0:
        for attempt in (store.read, store.write, lambda: LocalStore.open(directory)):
            try:
                attempt()
                say("worked")
            except LakeError as error:
                say(f"{error.kind}: {error.message}")
        store.close()
        os._exit(0)
    os.wait()
    with store.write() as txn:
        txn.put(Table.BRANCHES, b"main", b"new")
    store.close()
    say("parent done")


COMMANDS = {
    "count": count,
    "hold-write": hold_write,
    "hold-read": hold_read,
    "hold-small-map": hold_small_map,
    "put-and-get": put_and_get,
    "limited-space": limited_space,
    "limited-file": limited_file,
    "full-disk": full_disk,
    "fork": fork,
}

if __name__ == "__main__":
    try:
        COMMANDS[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])  # type: ignore[operator]
    except LakeError as error:
        say(f"{error.kind}: {error.message}")
