"""Downloads the objects that the comments at the end of this file list.

Usage: python3 THIS_FILE [--jobs N] [DIRECTORY]

Files are written below DIRECTORY, by default the current one. Run the script again to resume an
interrupted download; correct files that are there already are not downloaded again. It needs only
Python 3.6 or later. The size and, if there is one, the BLAKE3 of every file is verified; without
the program b3sum or the module blake3 that takes a minute for each gigabyte.

Exit status: 0 all complete and verified, 1 some failed and all others are complete, 2 the script
cannot run.
"""

import argparse
import contextlib
import http.client
import json
import os
import sys
import threading
import time
from typing import Any, Dict, Iterator, List, Optional

from lakecli.repository.handoff.partner.files import (
    PIECE,
    Failed,
    check_name,
    digest_of,
    find_hasher,
    hash_here,
    local_path,
    make_way,
    size_of,
)
from lakecli.repository.handoff.partner.requests import (
    CHANGED,
    REFUSED,
    Connections,
    after_end,
    change_of,
    refusal,
)

TOTAL = 0
PARTS = ".lakecli-parts"
TRIES = 5
MAX_FAILURES = 20  # in a row: after that many, each object is tried once only


class Progress:
    """Counts objects, and reports progress every few seconds."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.good = self.bad = self.size = 0
        self.bad_in_a_row = 0
        self.stop = threading.Event()

    def succeeded(self, size: int) -> None:
        """Count an object that is complete."""
        with self.lock:
            self.good += 1
            self.size += size
            self.bad_in_a_row = 0

    def failed(self, name: str, why: str) -> None:
        """Count an object that failed, and report why."""
        with self.lock:
            self.bad += 1
            self.bad_in_a_row += 1
            tell("%s: %s" % (shown(name), why))

    def watch(self) -> None:
        """Report progress every few seconds."""
        while not self.stop.wait(5):
            tell("%d of %d objects, %d MB" % (self.good + self.bad, TOTAL, self.size // 1000000))


def tell(line: str) -> None:
    """Print a line on standard error."""
    print(line, file=sys.stderr, flush=True)


def shown(name: str) -> str:
    """Return a name without characters that control a terminal."""
    return name.encode("ascii", "backslashreplace").decode() if name.isprintable() else ascii(name)


def listed() -> Iterator[Dict[str, Any]]:
    """Yield the records in the comments of this file."""
    with open(__file__, "rb") as file:
        for line in file:
            if line.startswith(b"#: "):
                yield json.loads(line[3:].decode("ascii"))


class Download:
    """The download of all objects into one directory."""

    def __init__(self, root: str, progress: Progress) -> None:
        self.root = root
        self.parts = os.path.join(root, PARTS)
        self.progress = progress
        self.hasher = find_hasher()
        self.connections = Connections()

    def take(self, item: Dict[str, Any]) -> None:
        """Download one object."""
        if "refused" in item:
            self.progress.failed(item["refused"], item["why"])
            return
        name = item["name"]
        try:
            check_name(name)
            check_name(item.get("id", name))
            if name.endswith("/"):
                make_way(self.root, name)
            else:
                self.take_file(name, item)
        except Failed as error:
            self.progress.failed(name, str(error))
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            self.progress.failed(name, why)
        else:
            self.progress.succeeded(item.get("size", 0))

    def take_file(self, name: str, item: Dict[str, Any]) -> None:
        """Download a file, unless it is there and correct."""
        path = local_path(self.root, name)
        part = os.path.join(self.parts, item["id"])
        done = part + ".done"  # for objects without a digest: all bytes have arrived
        if size_of(path) == item["size"] and (
            digest_of(path, self.hasher) == item["checksum"]
            if item["checksum"]
            else os.path.exists(done)
        ):
            return
        self.fetch(item, part)
        if item["checksum"] and digest_of(part, self.hasher) != item["checksum"]:
            os.remove(part)
            raise Failed(
                "the checksum is wrong: the object has changed at its source, or was damaged in "
                "transfer; run this again, and if that does not help ask for a new script"
            )
        make_way(self.root, name)
        if os.path.isdir(path):
            raise Failed("a directory has its name")
        os.replace(part, path)
        if not item["checksum"]:
            open(done, "wb").close()

    def fetch(self, item: Dict[str, Any], part: str) -> None:
        """Download the missing rest of an object; try again when the connection breaks."""
        if not item["size"]:
            open(part, "wb").close()
            return
        tries = TRIES if self.progress.bad_in_a_row < MAX_FAILURES else 1
        for left in range(tries - 1, -1, -1):
            have = max(0, size_of(part))
            if have == item["size"]:
                return
            if have > item["size"]:
                os.remove(part)
                have = 0
            try:
                self.fetch_rest(item, part, have)
            except (OSError, http.client.HTTPException):
                self.connections.drop(item["url"])
                if not left:
                    raise
                time.sleep(tries - left)
        if size_of(part) != item["size"]:
            raise Failed("the transfer broke off")

    def fetch_rest(self, item: Dict[str, Any], part: str, have: int) -> None:
        """Append the bytes from `have` on, by one request."""
        answer = self.connections.get(item["url"], have)
        status = answer.status if hasattr(answer, "status") else answer.code
        if status in REFUSED:
            body = answer.read(PIECE)
            self.connections.drop(item["url"])  # the rest of the response is not read
            raise Failed(refusal(status, answer.headers, body))
        problem = change_of(item, status, answer.headers)
        if problem:
            self.connections.drop(item["url"])  # the rest of the response is not read
            raise Failed("%s: %s; ask for a new one" % (CHANGED, problem))
        if status == 416:
            self.connections.drop(item["url"])
            os.remove(part)
            return
        if status not in (200, 206):
            self.connections.drop(item["url"])
            raise OSError("the server answered %d" % status)
        # A server without ranges sends everything again.
        goes_on = status == 206 and answer.headers.get("Content-Range", "").startswith(
            "bytes %d-" % have
        )
        if have and status == 206 and not goes_on:
            raise OSError("the server sent another range than was requested")
        with open(part, "ab" if goes_on else "wb") as file:
            left = item["size"] - (have if goes_on else 0)
            while left:
                piece = answer.read(min(PIECE, left))
                if not piece:
                    return
                file.write(piece)
                left -= len(piece)
            if answer.read(1):
                raise OSError("the server sent more bytes than the object has")


def work(download: Download, items: Iterator[Dict[str, Any]], lock: threading.Lock) -> None:
    """Download one object after the other, until there are no more."""
    while not download.progress.stop.is_set():
        with lock:
            item = next(items, None)
        if item is None:
            break
        download.take(item)
    download.connections.close()


def main(arguments: Optional[List[str]] = None) -> int:
    """Run the script; return its exit status."""
    parser = argparse.ArgumentParser(description="Download what this file lists.")
    parser.add_argument("directory", nargs="?", default=".")
    parser.add_argument("--jobs", type=int, default=8, help="objects downloaded at a time")
    parser.add_argument("--hash", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.hash:
        print(hash_here(sys.stdin.buffer))
        return 0
    if given.jobs < 1:
        parser.error("--jobs is a number from 1")
    if after_end(time.gmtime()):
        tell("by the clock of this machine these links have expired: ask for new ones")
    progress = Progress()
    download = Download(given.directory, progress)
    if os.path.islink(download.parts):
        tell("%s is a symbolic link" % PARTS)
        return 2
    try:
        os.makedirs(download.parts, exist_ok=True)
    except OSError as error:
        tell("cannot write into the directory %s: %s" % (given.directory, error))
        return 2
    items, lock = listed(), threading.Lock()
    threads = [
        threading.Thread(target=work, args=(download, items, lock), daemon=True)
        for _ in range(given.jobs)
    ]
    threads.append(threading.Thread(target=progress.watch, daemon=True))
    for thread in threads:
        thread.start()
    try:
        for thread in threads[:-1]:
            while thread.is_alive():
                thread.join(0.2)
    except KeyboardInterrupt:
        progress.stop.set()
        tell("interrupted; run it again to resume")
        return 130
    finally:
        progress.stop.set()
    return finish(download)


def finish(download: Download) -> int:
    """Remove what no later run needs, and report the result."""
    good = download.progress.good
    if good == TOTAL:
        for name in os.listdir(download.parts):
            if name.endswith(".done"):
                os.remove(os.path.join(download.parts, name))
    with contextlib.suppress(OSError):  # parts for the next run may be left
        os.rmdir(download.parts)
    print("%d of %d objects are complete" % (good, TOTAL))
    if good != TOTAL:
        tell("%d are not; complete files are kept: run it again to resume" % (TOTAL - good))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
