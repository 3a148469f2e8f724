#!/usr/bin/env bash
# delta-rs (deltalake) takes a time before a Delta table's first commit for that commit: load_as_version returns
# version 0, and restore removes everything newer, without an error. Delta's connectors for Spark refuse such a time.
# This happens in copies, in which every commit has the time of copying (known for Delta: delta issue 192): in a
# restored backup, a restore to yesterday removes the rows of all versions but the first. No thread of delta-rs' issue
# tracker was found about times before the table.
# Seen with deltalake 1.6.6. In copies go by the number of the version, or by the timestamps in the files.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q deltalake==1.6.6 pyarrow==25.0.1
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import shutil
import sys
import time
from datetime import UTC, datetime

import deltalake
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

print("deltalake", deltalake.__version__)
table, copy = (f"{sys.argv[1]}/{name}" for name in ("table", "copy"))
before = datetime.now(UTC)
for number in range(3):
    time.sleep(1.1)
    write_deltalake(table, pa.table({"n": [number]}), mode="append")
    if number == 1:
        time.sleep(1.1)
        second = datetime.now(UTC)
time.sleep(1.1)
shutil.copytree(table, copy, copy_function=shutil.copyfile)


def version_at(place, moment):
    opened = DeltaTable(place)
    opened.load_as_version(moment)
    return opened.version()


def restored(place, moment):
    DeltaTable(place).restore(moment)
    return sorted(DeltaTable(place).to_pyarrow_table()["n"].to_pylist())


found = {
    "table, after the second commit": version_at(table, second),
    "copy, after the second commit": version_at(copy, second),
    "table, before the first commit": version_at(table, before),
    "copy, restored": restored(copy, second),
    "table, restored": restored(table, second),
}
for name, value in found.items():
    print(f"{name}: {value}")
assert list(found.values()) == [1, 0, 0, [0], [0, 1]], "deltalake has changed"
PYTHON
