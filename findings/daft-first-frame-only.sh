#!/usr/bin/env bash
# Daft reads only the first part of CSV and JSON files that consist of several compressed streams, and says nothing:
# the other rows are missing. A .zst file may have several frames, and .bz2 and .xz files several streams, by their
# formats; pzstd, pbzip2, cat and programs that append to a log write them. Of .gz files Daft reads all members.
# The standard library, pyarrow and DuckDB read all parts of the formats that they know.
# Seen with Daft 0.7.26, pyarrow 25.0.1 and DuckDB 2.0.1. No thread of its issue tracker was found about this.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q daft==0.7.26 pyarrow==25.0.1 duckdb==2.0.1
DAFT_PROGRESS_BAR=0 DO_NOT_TRACK=true "$folder/venv/bin/python" - "$folder" <<'PYTHON'
import bz2
import gzip
import lzma
import sys

import daft
import duckdb
import pyarrow as pa

print("Daft", daft.__version__, "pyarrow", pa.__version__, "DuckDB", duckdb.__version__)
COMPRESS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: pa.compress(data, "zstd", asbytes=True),
}
PARTS = {"csv": [b"n\n1\n", b"2\n"], "json": [b'{"n": 1}\n', b'{"n": 2}\n']}
found = {}
for kind, parts in PARTS.items():
    for suffix, compress in COMPRESS.items():
        name = f"{sys.argv[1]}/rows.{kind}.{suffix}"
        with open(name, "wb") as file:
            file.writelines(map(compress, parts))
        if suffix != "xz":
            assert pa.input_stream(name, compression="detect").read() == b"".join(parts)
        if suffix in ("gz", "zst"):
            rows = duckdb.sql(f"SELECT n FROM read_{kind}('{name}')").fetchall()
            assert sorted(rows) == [(1,), (2,)]
        read = daft.read_csv if kind == "csv" else daft.read_json
        found[kind, suffix] = sorted(read(name).to_pydict()["n"])
        print(f"Daft reads of rows.{kind}.{suffix}:", found[kind, suffix])
for (kind, suffix), numbers in found.items():
    assert numbers == ([1, 2] if suffix == "gz" else [1]), f"Daft has changed: {kind}.{suffix}"
PYTHON
