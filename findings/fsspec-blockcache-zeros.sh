#!/usr/bin/env bash
# fsspec's "blockcache" keeps blocks of remote files on disk. Where reading a block fails once, as when a
# server is busy, the read raises a TypeError that hides the reason, and each later read of that block, also
# through the cache on disk, returns zeros in place of the file's bytes, without an error.
# Seen with fsspec 2026.9.0. "filecache" and "simplecache" read again.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q fsspec==2026.9.0
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import sys
from pathlib import Path

import fsspec
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

print("fsspec", fsspec.__version__)
DATA = b"the bytes of the file"


class Remote(AbstractFileSystem):
    """One file, whose first read fails, as that of a busy server does."""

    failures = 1

    def info(self, path, **kwargs):
        return {"name": path, "size": len(DATA), "type": "file"}

    def cat_file(self, path, start=None, end=None, **kwargs):
        if self.failures:
            self.failures -= 1
            raise ConnectionError("busy")
        return DATA[start:end]

    def _open(self, path, mode="rb", **kwargs):
        return AbstractBufferedFile(self, path, mode, **kwargs)


below = Remote()
folder = Path(sys.argv[1])
cached = fsspec.filesystem("blockcache", fs=below, cache_storage=str(folder / "cache"))
file = cached.open("data")
try:
    file.read()
    raise SystemExit("fsspec has changed: the first read succeeds")
except TypeError as error:
    print("first read: TypeError:", error)
again = file.read()
print("second read:", again)
file.close()
print("the file system itself:", below.cat_file("data"))
anew = cached.open("data").read()
print("opened anew:", anew)
assert again == anew and not any(again[:-1]), "fsspec has changed"
PYTHON
