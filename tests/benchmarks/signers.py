"""Signs URLs of objects by a cloud's SDK, one after the other, as a program whose cost is measured.

python -m tests.benchmarks.signers botocore|google BUCKET COUNT

The keys are as those of lakecli's objects; the URLs are printed.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS: Final = 3_600


def botocore_signer(bucket: str) -> Callable[[str], str]:
    """Return what signs a URL of S3."""
    from botocore.config import Config
    from botocore.session import Session

    config = Config(signature_version="s3v4", s3={"addressing_style": "path"})
    client = Session().create_client("s3", region_name="us-east-1", config=config)

    def sign(key: str) -> str:
        url: str = client.generate_presigned_url(
            "get_object", Params={"Bucket": bucket, "Key": key}, ExpiresIn=SECONDS
        )
        return url

    return sign


def google_signer(bucket: str) -> Callable[[str], str]:
    """Return what signs a URL of Google Cloud Storage."""
    from google.cloud.storage import Client
    from google.oauth2.service_account import Credentials

    key_file = os.environ["GOOGLE_APPLICATION_CREDENTIALS"]
    credentials = Credentials.from_service_account_file(key_file)  # type: ignore[no-untyped-call]
    found = Client(project="tests", credentials=credentials).bucket(bucket)

    def sign(key: str) -> str:
        url: str = found.blob(key).generate_signed_url(
            version="v4", expiration=timedelta(seconds=SECONDS)
        )
        return url

    return sign


def main(name: str, bucket: str, count: str) -> None:
    """Print the URLs."""
    sign = {"botocore": botocore_signer, "google": google_signer}[name](bucket)
    for number in range(int(count)):
        print(sign(f"lake/data/{number % 256:02x}/{number:062x}"))


if __name__ == "__main__":
    main(*sys.argv[1:])
