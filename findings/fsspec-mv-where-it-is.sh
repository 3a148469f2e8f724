#!/usr/bin/env bash
# In fsspec, a file that is moved to where it is already is lost: mv("/d/a", "/d/") and mv("/d/a", "memory://d/a")
# copy the file onto itself and then remove it. Only two equal strings are recognised as the same path; mv of a shell
# refuses both. File systems that inherit this mv rely on their server to refuse the copy: s3fs 2026.9.0 on moto 5.2.2
# raises an OSError, since S3 copies no object onto itself, and keeps the file.
# Seen with fsspec 2026.9.0 and its file system "memory".
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q fsspec==2026.9.0
"$folder/venv/bin/python" <<'PYTHON'
import fsspec

print("fsspec", fsspec.__version__)
files = fsspec.filesystem("memory")
for target, is_kept in (("/d/a", True), ("/d/", False), ("memory://d/a", False)):
    files.pipe("/d/a", b"the only copy")
    files.mv("/d/a", target)
    found = files.find("/d")
    print(f"after mv('/d/a', {target!r}):", found)
    assert bool(found) is is_kept, "fsspec has changed"
PYTHON
