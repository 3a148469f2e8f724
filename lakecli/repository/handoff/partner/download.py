"""Downloads what the comments at the end of this file name.

Usage: python3 THIS_FILE [--jobs N] [DIRECTORY]

Files go below DIRECTORY, by default the current one. What was interrupted goes on where it was when
this is run again, and files that are there already and right are not fetched. It needs nothing but
Python 3.6 or later. Every file is compared with its size and its BLAKE3, where it has one; the
program b3sum or the module blake3 make that fast, and without them it takes a minute a gigabyte.

Exit status: 0 all complete and verified, 1 some failed and all others are complete, 2 it cannot
run.
"""

import argparse
import contextlib
import email.utils
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, BinaryIO, Dict, Iterator, List, Optional, Tuple

from lakecli.repository.handoff.partner.blake3 import Blake3, blake3_of

TOTAL = 0
EXPIRES = ""
PARTS = ".lakecli-parts"
TRIES = 5
PATIENCE = 20
PIECE = 1 << 20
TIMEOUT = 60
SMALL = 4 << 20  # what is hashed without a process of its own
GONE = {404, 410}
REFUSED = {400, 401, 403, 412} | GONE
CHANGED = "the object has changed at its source since this script was made"
NOT_IN_WINDOWS = set('<>:"|?*\\') | {chr(code) for code in range(32)}
DEVICES = {"con", "prn", "aux", "nul", "conin$", "conout$"}
DEVICES |= {kind + digit for kind in ("com", "lpt") for digit in "0123456789"}


class Failed(Exception):
    """An object cannot be had; others can."""


class Progress:
    """Counts, and tells now and then how far it is."""

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
        """Count an object that is not, and say why."""
        with self.lock:
            self.bad += 1
            self.bad_in_a_row += 1
            tell("%s: %s" % (shown(name), why))

    def watch(self) -> None:
        """Tell how far it is, every few seconds."""
        while not self.stop.wait(5):
            tell("%d of %d objects, %d MB" % (self.good + self.bad, TOTAL, self.size // 1000000))


def tell(line: str) -> None:
    """Say something that is not the answer."""
    print(line, file=sys.stderr, flush=True)


def shown(name: str) -> str:
    """Return a name that no terminal obeys."""
    return name.encode("ascii", "backslashreplace").decode() if name.isprintable() else ascii(name)


def listed() -> Iterator[Dict[str, Any]]:
    """Yield what the comments of this file hold."""
    with open(__file__, "rb") as file:
        for line in file:
            if line.startswith(b"#: "):
                yield json.loads(line[3:].decode("ascii"))


# Files


def local_path(root: str, name: str) -> "str | bytes":
    """Return where a file is to be: on other systems than Windows names are bytes."""
    if os.name == "nt":
        check_windows(name)
        return os.path.join(root, *name.split("/"))
    return os.path.join(os.fsencode(root), name.encode("utf-8", "surrogateescape"))


def check_windows(name: str) -> None:
    """Refuse what means something else than a file to Windows."""
    for component in name.rstrip("/").split("/"):
        stem = component.partition(".")[0].rstrip().lower()
        if NOT_IN_WINDOWS & set(component) or component[-1:] in (".", " ") or stem in DEVICES:
            raise Failed("no file of Windows can have this name")


def make_way(root: str, name: str) -> None:
    """Make the directories above a name, and leave the root through none of them."""
    components = name.split("/")[:-1]
    for count in range(1, 1 + len(components)):
        path = local_path(root, "/".join(components[:count]))
        if os.path.islink(path):
            raise Failed("a symbolic link is in the way")
        try:
            os.mkdir(path)
        except FileExistsError:
            if not os.path.isdir(path):
                raise Failed("a file is in the way of its directory") from None


def size_of(path: "str | bytes") -> int:
    """Return the size of a regular file; of anything else, -1."""
    if os.path.islink(path) or not os.path.isfile(path):
        return -1
    return os.path.getsize(path)


def digest_of(path: "str | bytes", hasher: str) -> str:
    """Return the BLAKE3 of a file, by whatever is there and fast."""
    with open(path, "rb") as file:
        if hasher:
            command = [hasher]
        elif os.path.getsize(path) > SMALL:
            command = [sys.executable, os.path.abspath(__file__), "--hash"]
        else:
            return hash_here(file)
        return subprocess.check_output(command, stdin=file).split()[0].decode()


def hash_here(file: BinaryIO) -> str:
    """Return the BLAKE3 of what can be read, computed in this process."""
    try:
        from blake3 import blake3
    except ImportError:
        return blake3_of(file)
    digest = blake3()
    for piece in iter(lambda: file.read(PIECE), b""):
        digest.update(piece)
    return str(digest.hexdigest())


def find_hasher() -> str:
    """Return a program that computes BLAKE3 correctly, or nothing."""
    found = shutil.which("b3sum")
    if found:
        try:
            answer = subprocess.check_output([found], stdin=subprocess.DEVNULL)
        except (OSError, subprocess.CalledProcessError):
            return ""
        if answer.split()[:1] == [Blake3().hexdigest().encode()]:
            return found
    return ""


# Requests


class Connections(threading.local):
    """The connections of one thread, kept open from one request to the next."""

    def __init__(self) -> None:
        self.open = {}  # type: Dict[Tuple[str, str], http.client.HTTPConnection]

    def get(self, url: str, start: int) -> Any:
        """Ask for an object from some byte on, and return the answer, whatever its status."""
        headers = {"Range": "bytes=%d-" % start} if start else {}
        parts = urllib.parse.urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(host):
            try:
                request = urllib.request.Request(url, headers=headers)
                return urllib.request.urlopen(request, timeout=TIMEOUT)
            except urllib.error.HTTPError as answer:
                return answer
        key = (parts.scheme, parts.netloc)
        is_used = key in self.open
        connection = self.open.get(key) or self.connect(key)
        try:
            connection.request("GET", url[url.index(parts.path, 8) :], headers=headers)
            return connection.getresponse()
        except (OSError, http.client.HTTPException):
            self.drop(url)
            if not is_used:
                raise
            return self.get(url, start)  # the server had closed it meanwhile

    def connect(self, key: Tuple[str, str]) -> http.client.HTTPConnection:
        """Open a connection to a server, which keeps it."""
        scheme, place = key
        kind = http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
        self.open[key] = kind(place, timeout=TIMEOUT)
        return self.open[key]

    def drop(self, url: str) -> None:
        """Close the connection to a URL's server."""
        parts = urllib.parse.urlsplit(url)
        connection = self.open.pop((parts.scheme, parts.netloc), None)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Close all connections of this thread."""
        for connection in self.open.values():
            connection.close()
        self.open.clear()


def refusal(status: int, headers: Any, body: bytes) -> str:
    """Return why a server refuses an object: it is gone, it changed, or its link has ended."""
    if status in GONE:
        return "the object is gone at its source (%d): ask for a new script" % status
    if status == 412:
        return "%s (%d): ask for a new one" % (CHANGED, status)
    if has_ended(headers, body):
        return "the server refuses it (%d): its link has ended (%s); ask for a new one" % (
            status,
            EXPIRES,
        )
    return (
        "the server refuses it (%d), though its link works until %s: the object is gone at its "
        "source, or access to it was taken away" % (status, EXPIRES)
    )


def has_ended(headers: Any, body: bytes) -> bool:
    """Whether a refusal means that the link has ended, by its words or by the server's date."""
    words = body.lower()
    if b"expired" in words or b"not valid in the specified time frame" in words:
        return True
    date = email.utils.parsedate(headers.get("Date", ""))
    return after_end(time.gmtime() if date is None else date)


def after_end(moment: Any) -> bool:
    """Whether the first of the links has ended at a moment."""
    return bool(EXPIRES) and time.strftime("%Y-%m-%dT%H:%M:%SZ", moment) > EXPIRES


def change_of(item: Dict[str, Any], status: int, headers: Any) -> str:
    """Return what tells that an answer is of another object than was listed, or nothing."""
    if status == 200 and not headers.get("Content-Encoding"):
        size = headers.get("Content-Length", "")
    else:
        size = headers.get("Content-Range", "").rpartition("/")[2]
    if status in (200, 206, 416) and size.isdigit() and int(size) != item["size"]:
        return "it has %s bytes, not %d" % (size, item["size"])
    etag = headers.get("ETag", "").strip('"')
    if item.get("etag") and re.match(r"[0-9a-f]{32}(-[0-9]+)?$", etag) and etag != item["etag"]:
        return "its ETag is another one"
    return ""


class Download:
    """Everything that is to be fetched into one directory."""

    def __init__(self, root: str, progress: Progress) -> None:
        self.root = root
        self.parts = os.path.join(root, PARTS)
        self.progress = progress
        self.hasher = find_hasher()
        self.connections = Connections()

    def take(self, item: Dict[str, Any]) -> None:
        """Bring one object in."""
        if "refused" in item:
            self.progress.failed(item["refused"], item["why"])
            return
        name = item["name"]
        try:
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
        """Bring in a file, unless it is there and right."""
        path = local_path(self.root, name)
        part = os.path.join(self.parts, item["id"])
        done = part + ".done"  # for what has no digest: these bytes were fetched to their end
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
                "what came has another checksum: the object has changed at its source, or was "
                "damaged on the way; run this again, and if that does not help ask for a new script"
            )
        make_way(self.root, name)
        if os.path.isdir(path):
            raise Failed("a directory has its name")
        os.replace(part, path)
        if not item["checksum"]:
            open(done, "wb").close()

    def fetch(self, item: Dict[str, Any], part: str) -> None:
        """Fetch what is missing of an object, however often its connection breaks."""
        if not item["size"]:
            open(part, "wb").close()
            return
        # Where nothing works any more, there is no point in patience.
        tries = TRIES if self.progress.bad_in_a_row < PATIENCE else 1
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
        """Append what follows after so many bytes, by one request."""
        answer = self.connections.get(item["url"], have)
        status = answer.status if hasattr(answer, "status") else answer.code
        if status in REFUSED:
            raise Failed(refusal(status, answer.headers, answer.read()))
        problem = change_of(item, status, answer.headers)
        if problem:
            self.connections.drop(item["url"])  # nobody reads the rest
            raise Failed("%s: %s; ask for a new one" % (CHANGED, problem))
        if status == 416:
            answer.read()
            os.remove(part)
            return
        if status not in (200, 206):
            answer.read()
            raise OSError("the server answered %d" % status)
        # A server that cannot go on in the middle sends everything again.
        goes_on = status == 206 and answer.headers.get("Content-Range", "").startswith(
            "bytes %d-" % have
        )
        if have and status == 206 and not goes_on:
            raise OSError("the server answered with other bytes than were asked for")
        with open(part, "ab" if goes_on else "wb") as file:
            shutil.copyfileobj(answer, file, PIECE)


def work(download: Download, items: Iterator[Dict[str, Any]], lock: threading.Lock) -> None:
    """Take one object after the other, until there are no more."""
    while not download.progress.stop.is_set():
        with lock:
            item = next(items, None)
        if item is None:
            break
        download.take(item)
    download.connections.close()


def main(arguments: Optional[List[str]] = None) -> int:
    """Do what the command line says, and return the exit status."""
    parser = argparse.ArgumentParser(description="Download what this file lists.")
    parser.add_argument("directory", nargs="?", default=".")
    parser.add_argument("--jobs", type=int, default=8, help="objects fetched at a time")
    parser.add_argument("--hash", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.hash:
        print(hash_here(sys.stdin.buffer))
        return 0
    if given.jobs < 1:
        parser.error("--jobs is a number from 1")
    if after_end(time.gmtime()):
        tell("by the clock of this machine these links have ended: ask for new ones")
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
        tell("interrupted; run it again to go on")
        return 130
    finally:
        progress.stop.set()
    return finish(download)


def finish(download: Download) -> int:
    """Leave nothing behind that nobody needs, and say how it went."""
    good = download.progress.good
    if good == TOTAL:
        for name in os.listdir(download.parts):
            if name.endswith(".done"):
                os.remove(os.path.join(download.parts, name))
    with contextlib.suppress(OSError):  # something may be in it that the next run can use
        os.rmdir(download.parts)
    print("%d of %d objects are complete" % (good, TOTAL))
    if good != TOTAL:
        tell("%d are not; what is complete is kept: run it again to go on" % (TOTAL - good))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
