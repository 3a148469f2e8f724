"""Transfers through a network with temporary failures."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from lakecli.base.retry import PARTS, RetryPolicy
from lakecli.errors import PermissionDenied, Unreachable
from lakecli.repository import repo
from lakecli.repository.download import DownloadOptions
from lakecli.repository.download_tree import download_tree
from lakecli.repository.upload import UploadOptions
from lakecli.repository.upload_tree import upload_tree
from tests.support.flaky import Trouble, flaky
from tests.support.servers import new_bucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakecli.repository.contract import Repository
    from lakecli.repository.handle.lake import Lake
    from tests.support.flaky import FlakyProxy

PART = 5 << 20
UP = UploadOptions(parallelism=4)
DOWN = DownloadOptions(parallelism=4, part_size=PART)


@pytest.fixture
def proxy(aws_environment: pytest.MonkeyPatch, moto_endpoint: str) -> Iterator[FlakyProxy]:
    aws_environment.setattr(
        "lakecli.repository.transfer.parallel.PARTS", RetryPolicy(PARTS.attempts, 0.01)
    )
    aws_environment.setattr("lakecli.repository.transfer.multipart_upload.PART_SIZE", PART)
    with flaky(moto_endpoint) as proxy:
        aws_environment.setenv("AWS_ENDPOINT_URL", proxy.url)
        yield proxy


@pytest.fixture
def repository(lake: Lake, proxy: FlakyProxy, moto_endpoint: str) -> Repository:
    return repo.create(lake, "cloud", f"s3://{new_bucket(moto_endpoint)}/p")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    root.mkdir()
    generator = random.Random(1)
    (root / "large").write_bytes(generator.randbytes(4 * PART + 99))
    (root / "small").write_bytes(b"small")
    return root


def is_part(method: str, path: str) -> bool:
    return method == "PUT" and "partNumber=" in path


def is_large(method: str, path: str) -> bool:
    return method == "GET" and "/data/" in path


def in_turn(
    proxy: FlakyProxy, matches: Callable[[str, str], bool], troubles: list[Trouble]
) -> Callable[[str, str], Trouble | None]:
    """Fail the first requests that match, each in another way."""
    left = list(troubles)

    def trouble(method: str, path: str) -> Trouble | None:
        return left.pop() if left and matches(method, path) else None

    return trouble


def test_transfers_survive_temporary_failures(
    repository: Repository, proxy: FlakyProxy, source: Path, tmp_path: Path
) -> None:
    troubles = [Trouble.BUSY, Trouble.HANG_UP, Trouble.CUT, Trouble.HANG_UP, Trouble.BUSY] * 2
    proxy.trouble = in_turn(proxy, is_part, troubles)
    report = upload_tree(repository, "main", b"", source=source, options=UP)
    assert (report.uploaded, report.failures) == (2, [])
    parts = [count for (method, path), count in proxy.counts.items() if is_part(method, path)]
    assert (len(parts), sum(parts)) in {(5, 15), (5, 13)}  # an empty answer cannot be truncated
    proxy.trouble = in_turn(proxy, is_large, troubles)
    fetched = download_tree(repository, "main", b"", target=tmp_path / "t", options=DOWN)
    assert (fetched.downloaded, fetched.failures) == (2, [])
    for name in ("large", "small"):
        assert (tmp_path / "t" / name).read_bytes() == (source / name).read_bytes()


def test_a_part_that_always_fails_fails_its_object(
    repository: Repository, proxy: FlakyProxy, source: Path
) -> None:
    proxy.trouble = lambda method, path: (
        Trouble.BUSY if is_part(method, path) and "partNumber=3" in path else None
    )
    (source / "small").unlink()
    with pytest.raises(Unreachable, match="SlowDown"):
        upload_tree(repository, "main", b"", source=source, options=UP)
    tries = [n for (method, path), n in proxy.counts.items() if "partNumber=3" in path]
    assert tries == [PARTS.attempts]
    proxy.counts.clear()
    proxy.trouble = lambda _method, _path: None
    assert upload_tree(repository, "main", b"", source=source, options=UP).uploaded == 1
    assert sum(n for (method, path), n in proxy.counts.items() if is_part(method, path)) <= 2


def test_a_denied_part_is_not_repeated(
    repository: Repository, proxy: FlakyProxy, source: Path
) -> None:
    proxy.trouble = lambda method, path: Trouble.DENIED if is_part(method, path) else None
    (source / "small").unlink()
    with pytest.raises(PermissionDenied, match="AccessDenied"):
        upload_tree(repository, "main", b"", source=source, options=UP)
    assert all(n == 1 for (method, path), n in proxy.counts.items() if is_part(method, path))
