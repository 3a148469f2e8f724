#!/usr/bin/env bash
# If a COPY of DuckDB fails that writes through s3fs (register_filesystem), the object that was there is replaced: by
# an empty one if little was written, otherwise by the part that was written. A part of a CSV is a valid file with
# fewer rows, which the next reader takes for the result. On a local disk, and on a file system whose URLs DuckDB does
# not know, such as memory://, the old file stays. Known in part: DuckDB's own S3 did the same (issue 12038, closed),
# and USE_TMP_FILE has no effect for s3:// (issue 14877). Write to a new name, and move it after COPY has succeeded.
# Seen with DuckDB 2.0.1 and s3fs 2026.9.0 on moto 5.2.5.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q duckdb==2.0.1 s3fs==2026.9.0 'moto[server,s3]==5.2.5' boto3==1.43.117 \
  aiobotocore==3.10.0
AWS_CONFIG_FILE=/dev/null AWS_DEFAULT_REGION=us-east-1 "$folder/venv/bin/python" -W ignore - "$folder" <<'PYTHON'
import logging
import sys

import duckdb
import fsspec
import s3fs
from moto.server import ThreadedMotoServer

logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
place = "http://{}:{}".format(*server.get_host_and_port())
bucket = s3fs.S3FileSystem(key="user", secret="secret", endpoint_url=place)
memory = fsspec.filesystem("memory")
local = fsspec.filesystem("file")
connection = duckdb.connect()
connection.register_filesystem(bucket)
connection.register_filesystem(memory)
OLD = b"n\nold\n"


def after(files, url, count, options=""):
    """Return what the file holds after a COPY that fails at the last of its rows."""
    path = url.partition("://")[2] or url
    files.pipe_file(path, OLD)
    rows = f"SELECT CASE WHEN i = {count - 1} THEN error('no such price') ELSE hash(i) % 1000000 END AS n"
    try:
        connection.execute(f"COPY ({rows} FROM range({count}) AS t(i)) TO '{url}' (FORMAT csv, HEADER{options})")
        raise SystemExit("COPY succeeds")
    except duckdb.InvalidInputException as error:
        assert "no such price" in str(error)
    found = files.cat_file(path)
    print(f"{url.rpartition('/')[0]}, {count} rows{options}: {found[:20]!r}, {len(found)} bytes")
    return found


try:
    print("DuckDB", duckdb.__version__, "s3fs", s3fs.__version__)
    bucket.mkdir("bucket")
    for files, url in ((local, f"{sys.argv[1]}/rows.csv"), (memory, "memory://rows.csv")):
        for count in (1000, 5_000_000):
            assert after(files, url, count) == OLD, "DuckDB has changed"
    assert after(bucket, "s3://bucket/rows.csv", 1000) == b"", "DuckDB or s3fs has changed"
    for options in ("", ", USE_TMP_FILE true"):
        found = after(bucket, "s3://bucket/rows.csv", 5_000_000, options)
        assert found != OLD, "DuckDB or s3fs has changed"
        kept = connection.execute("SELECT count(*) FROM read_csv('s3://bucket/rows.csv')").fetchone()[0]
        print(f"read as CSV: {kept} rows")
        assert 0 < kept < 5_000_000, "DuckDB or s3fs has changed"
finally:
    server.stop()
PYTHON
