"""Files of a download: their paths, their directories and their digests."""

import os
import re
import shutil
import subprocess
import sys
import unicodedata
from typing import BinaryIO

from lakecli.repository.handoff.partner.blake3 import Blake3, blake3_of

PIECE = 1 << 20
SMALL = 4 << 20  # bytes hashed without a process of their own
NOT_IN_WINDOWS = set('<>:"|?*\\') | {chr(code) for code in range(32)}
DEVICES = {"con", "prn", "aux", "nul", "conin$", "conout$"}
DEVICES |= {kind + digit for kind in ("com", "lpt") for digit in "0123456789"}

OWN = re.compile(
    r"(?:.*/)?(?:\.git|git~[1-9]|\.lakefs_ref\.yaml|lakefs~[1-9]\.yam|\.lakecli[^/:]*|\.ds_store)"
    r"[ .]*(?:[/:]|\Z)",
    re.DOTALL,
)
NOT_SHOWN = re.compile(
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


class Failed(Exception):
    """One object cannot be downloaded; others can."""


def check_name(name: str) -> None:
    """Refuse a name that leads out of the directory, or that Git, lakecli or the system uses."""
    for component in name[:-1].split("/") if name.endswith("/") else name.split("/"):
        if component in ("", ".", "..") or "\0" in component:
            raise Failed("its name leads out of the directory, or is none of a file")
        if OWN.match(folded(component)):
            raise Failed("Git, lakecli or the system itself uses a file of this name")


def folded(name: str) -> str:
    """Return a name as a file system reads it that ignores case and what is not shown."""
    decomposed = unicodedata.normalize("NFD", NOT_SHOWN.sub("", name))
    return decomposed.casefold().replace("\\", "/")


def local_path(root: str, name: str) -> "str | bytes":
    """Return the path of a file: bytes, except on Windows."""
    if os.name == "nt":
        check_windows(name)
        return os.path.join(root, *name.split("/"))
    return os.path.join(os.fsencode(root), name.encode("utf-8", "surrogateescape"))


def check_windows(name: str) -> None:
    """Refuse a name that Windows cannot have for a file."""
    for component in name.rstrip("/").split("/"):
        stem = component.partition(".")[0].rstrip().lower()
        if NOT_IN_WINDOWS & set(component) or component[-1:] in (".", " ") or stem in DEVICES:
            raise Failed("Windows cannot have a file of this name")


def make_way(root: str, name: str) -> None:
    """Create the directories above a name; follow no symbolic link out of the root."""
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
    """Return the BLAKE3 of a file, computed by the fastest available program."""
    with open(path, "rb") as file:
        if hasher:
            command = [hasher]
        elif os.path.getsize(path) > SMALL:
            command = [sys.executable, os.path.abspath(__file__), "--hash"]
        else:
            return hash_here(file)
        return subprocess.check_output(command, stdin=file).split()[0].decode()


def hash_here(file: BinaryIO) -> str:
    """Return the BLAKE3 of a stream, computed in this process."""
    try:
        from blake3 import blake3
    except ImportError:
        return blake3_of(file)
    digest = blake3()
    for piece in iter(lambda: file.read(PIECE), b""):
        digest.update(piece)
    return str(digest.hexdigest())


def find_hasher() -> str:
    """Return a program that computes BLAKE3 correctly, or an empty string."""
    found = shutil.which("b3sum")
    if found:
        try:
            answer = subprocess.check_output([found], stdin=subprocess.DEVNULL)
        except (OSError, subprocess.CalledProcessError):
            return ""
        if answer.split()[:1] == [Blake3().hexdigest().encode()]:
            return found
    return ""
