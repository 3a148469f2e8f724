#!/usr/bin/env bash
# UPath.touch() of universal-pathlib empties an object that another process wrote after this process had listed the
# directory. It asks s3fs whether the object exists; s3fs answers from the listing, which it keeps without a time
# limit; then an empty object is written without a condition. touch(exist_ok=False), which should raise
# FileExistsError, empties it, too. Python's Path.touch never changes the contents, and universal-pathlib wants the
# same (its pull request 262). No thread of its issue tracker was found about old listings.
# Seen with universal-pathlib 0.3.10 and s3fs 2026.9.0 on moto 5.2.5. use_listings_cache=False helps.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q universal-pathlib==0.3.10 s3fs==2026.9.0 'moto[server,s3]==5.2.5' boto3==1.43.117 \
  aiobotocore==3.10.0
AWS_CONFIG_FILE=/dev/null AWS_DEFAULT_REGION=us-east-1 "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import logging
from importlib.metadata import version

import boto3
from moto.server import ThreadedMotoServer
from upath import UPath

logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
place = "http://{}:{}".format(*server.get_host_and_port())
keys = {"aws_access_key_id": "user", "aws_secret_access_key": "secret"}
another = boto3.resource("s3", endpoint_url=place, **keys).Bucket("bucket")


def touched(is_listed, exist_ok, **options):
    """Return what is in the object after touch, and the error's name, if any."""
    folder = UPath("s3://bucket/folder", key="user", secret="secret", endpoint_url=place, **options)
    folder.fs.invalidate_cache()
    another.objects.delete()
    another.put_object(Key="folder/other", Body=b"other")
    if is_listed:
        assert [path.name for path in folder.iterdir()] == ["other"]
    another.put_object(Key="folder/state", Body=b"of another process")
    try:
        (folder / "state").touch(exist_ok=exist_ok)
        error = None
    except FileExistsError as raised:
        error = type(raised).__name__
    return another.Object("folder/state").get()["Body"].read(), error


try:
    another.create()
    print("universal-pathlib", version("universal-pathlib"), "s3fs", version("s3fs"))
    for exist_ok in (True, False):
        right = (b"of another process", None if exist_ok else "FileExistsError")
        rows = {
            "not listed before": touched(False, exist_ok),
            "listed before": touched(True, exist_ok),
            "listed before, no cache": touched(True, exist_ok, use_listings_cache=False),
        }
        for name, found in rows.items():
            print(f"touch(exist_ok={exist_ok}), {name}:", *found)
        assert list(rows.values()) == [right, (b"", None), right], "universal-pathlib or s3fs has changed"
finally:
    server.stop()
PYTHON
