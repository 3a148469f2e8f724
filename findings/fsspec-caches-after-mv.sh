#!/usr/bin/env bash
# fsspec's "simplecache" and "filecache" drop their copy of a file when it is written through them by open or pipe,
# but not when the same file system changes it by cp, mv, put or rm: open then returns what was there before, even
# for a file that has been removed. So a program that writes a new file and moves it into place reads the old data
# back. That caches do not see the changes of other programs is documented; this is the program's own change. No
# thread of its issue tracker was found about this.
# Seen with fsspec 2026.9.0. clear_cache() helps; so does check_files=True of "filecache".
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q fsspec==2026.9.0
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import sys
from pathlib import Path

import fsspec

print("fsspec", fsspec.__version__)
below = fsspec.filesystem("memory")
folder = Path(sys.argv[1])
(folder / "new").write_bytes(b"new")
CHANGES = {
    "pipe_file": lambda files: files.pipe_file("/data", b"new"),
    "cp_file": lambda files: files.cp_file("/new", "/data"),
    "mv": lambda files: files.mv("/new", "/data"),
    "put_file": lambda files: files.put_file(str(folder / "new"), "/data"),
    "rm": lambda files: files.rm("/data"),
}


def read(files):
    try:
        with files.open("/data") as file:
            return file.read()
    except FileNotFoundError:
        return None


for protocol, options in (("simplecache", {}), ("filecache", {}), ("filecache", {"check_files": True})):
    for name, change in CHANGES.items():
        storage = str(folder / protocol / f"{name}{len(options)}")
        files = fsspec.filesystem(protocol, fs=below, cache_storage=storage, **options)
        below.pipe({"/data": b"old", "/new": b"new"})
        assert read(files) == b"old"
        change(files)
        found, right = read(files), below.cat_file("/data") if below.exists("/data") else None
        files.clear_cache()
        print(protocol, options, name, "->", found, "instead of" if found != right else "as", right)
        is_stale = name != "pipe_file" and not options
        assert found == (b"old" if is_stale else right), "fsspec has changed"
        assert read(files) == right, "without the copy it is right"
PYTHON
