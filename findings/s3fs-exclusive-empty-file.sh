#!/usr/bin/env bash
# s3fs opens a file in mode "xb" to create it only if there is none, as Python's open does: it sends If-None-Match.
# But it creates a file that is closed without a byte by touch, which sends no condition, and replaces the object that
# is there without an error. So everybody gets a lock that is taken by open(path, "xb").close(), and an existing
# object at this name loses its data. With a byte in the file, or by pipe_file(mode="create"), the second writer gets
# FileExistsError. Known in part: s3fs issue 973, closed, was about small files, which work now.
# Seen with s3fs 2026.9.0 on moto 5.2.5.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q s3fs==2026.9.0 'moto[server,s3]==5.2.5' boto3==1.43.117 aiobotocore==3.10.0
AWS_CONFIG_FILE=/dev/null AWS_DEFAULT_REGION=us-east-1 "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import logging

import s3fs
from moto.server import ThreadedMotoServer

logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
files = s3fs.S3FileSystem(
    key="user", secret="secret", endpoint_url="http://{}:{}".format(*server.get_host_and_port())
)


def opened(data):
    with files.open("bucket/name", "xb") as file:
        file.write(data)


def piped(data):
    files.pipe_file("bucket/name", data, mode="create")


rows = {}
try:
    files.mkdir("bucket")
    print("s3fs", s3fs.__version__)
    for create in (opened, piped):
        for data in (b"", b"new"):
            files.pipe_file("bucket/name", b"of the first writer")
            try:
                create(data)
                error = None
            except FileExistsError as raised:
                error = type(raised).__name__
            rows[create.__name__, data] = error, files.cat_file("bucket/name")
            print(f"{create.__name__} with {data}: {error}, then", rows[create.__name__, data][1])
finally:
    server.stop()
assert rows.pop(("opened", b"")) == (None, b""), "s3fs has changed"
assert set(rows.values()) == {("FileExistsError", b"of the first writer")}, "s3fs has changed"
PYTHON
