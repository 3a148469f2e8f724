#!/usr/bin/env bash
# fsspec takes each path with *, ? or [ for a pattern, even if a file has exactly this name. So where there are
# "a[1].csv" (as browsers name a second download) and "a1.csv", rm("a[1].csv") removes a1.csv, cat and get read
# a1.csv, and a copy is written below the target, as if the target were a directory. open and cat_file take the
# name as it is. All of fsspec's file systems for buckets inherit this: s3fs 2026.9.0 does the same on moto 5.2.2.
# Seen with fsspec 2026.9.0 and its file system "memory".
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
files = fsspec.filesystem("memory")
BOTH = {"/bucket/a[1].csv": b"second", "/bucket/a1.csv": b"another"}
files.pipe(BOTH)


def contents():
    return {path: files.cat_file(path) for path in files.find("/bucket")}


with files.open("/bucket/a[1].csv") as file:
    print("open reads", file.read())
print("cat reads", files.cat("/bucket/a[1].csv"))
assert files.cat("/bucket/a[1].csv") == {"/bucket/a1.csv": b"another"}, "fsspec has changed"
got = Path(sys.argv[1], "got")
files.get("/bucket/a[1].csv", f"{got}/")
print("get downloads", {path.name: path.read_bytes() for path in got.iterdir()})
assert [path.name for path in got.iterdir()] == ["a1.csv"], "fsspec has changed"
files.mkdir("/bucket/copy.csv")
files.copy("/bucket/a[1].csv", "/bucket/copy.csv")
print("copy makes", sorted(contents().keys() - BOTH))
assert contents()["/bucket/copy.csv/a1.csv"] == b"another", "fsspec has changed"
files.rm("/bucket/copy.csv", recursive=True)
files.rm("/bucket/a[1].csv")
print("after rm of a[1].csv:", contents())
assert contents() == {"/bucket/a[1].csv": b"second"}, "fsspec has changed"
PYTHON
