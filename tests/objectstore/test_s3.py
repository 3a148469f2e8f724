from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.objectstore.s3 import S3Store
from tests.objectstore.contract import ODD_NAMES, ObjectStoreContract
from tests.support.servers import new_bucket

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.objectstore.base import ObjectStore


@pytest.fixture
def bucket(aws_environment: pytest.MonkeyPatch, moto_endpoint: str) -> str:
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    return new_bucket(moto_endpoint)


class TestS3Store(ObjectStoreContract):
    odd_names = (*ODD_NAMES, "\x01\x7f", "n" * 500)

    @pytest.fixture
    def make_store(self, bucket: str) -> Callable[[], ObjectStore]:
        return lambda: S3Store(bucket, "some/pre fix")

    @pytest.fixture
    def missing_store(self, bucket: str) -> ObjectStore:
        return S3Store(f"{bucket}-missing", "some/prefix")
