"""The conformance suite for S3, against `lakecli serve` and against other servers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from tests.servers.catalogue import SERVERS
from tests.serving.s3_case import Case, Differs, run
from tests.serving.s3_cases import CASES
from tests.serving.s3_differences import DIFFERENCES
from tests.serving.s3_wire import Keys, Wire
from tests.support.servers import ACCESS_KEY, SECRET_KEY, moto, new_bucket
from tests.support.serving import serving, serving_a_bucket

HOME = Path.home()
"""Where servers are kept between runs; each test has another home."""


@contextmanager
def _ours(factory: pytest.TempPathFactory) -> Iterator[tuple[Wire, str]]:
    with serving(factory.mktemp("serve") / "home") as endpoint:
        yield endpoint.wire(), endpoint.to.bucket


@contextmanager
def _moto(factory: pytest.TempPathFactory) -> Iterator[tuple[Wire, str]]:
    with moto(factory) as url:
        yield Wire(url, Keys(ACCESS_KEY, SECRET_KEY)), new_bucket(url)


@contextmanager
def _ours_over_a_bucket(factory: pytest.TempPathFactory) -> Iterator[tuple[Wire, str]]:
    with serving_a_bucket(factory) as endpoint:
        yield endpoint.wire(), endpoint.to.bucket


@contextmanager
def _versitygw(factory: pytest.TempPathFactory) -> Iterator[tuple[Wire, str]]:
    server = next(each for each in SERVERS if each.name == "versitygw")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(HOME))
        with server.start(factory.mktemp("versitygw")) as place:
            url = place.environment["AWS_ENDPOINT_URL"]
            yield Wire(url, Keys(ACCESS_KEY, SECRET_KEY)), new_bucket(url)


STARTS: dict[str, Callable[[pytest.TempPathFactory], object]] = {
    "lakecli": _ours,
    "lakecli over a bucket": _ours_over_a_bucket,
    "moto": _moto,
    "versitygw": _versitygw,
}


@pytest.fixture(
    scope="module",
    params=[
        "lakecli",
        pytest.param("moto", marks=pytest.mark.nightly),
        pytest.param("lakecli over a bucket", marks=pytest.mark.nightly),
        pytest.param("versitygw", marks=pytest.mark.nightly),
    ],
)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Wire, str]]:
    """A server's name, what sends requests to it, and a bucket."""
    with STARTS[request.param](tmp_path_factory) as (wire, bucket):  # type: ignore[attr-defined]
        yield request.param, wire, bucket
        wire.close()


@pytest.mark.xdist_group("s3_cases")
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.operation}: {case.name}")
def test_a_server_does_what_s3_does(server: tuple[str, Wire, str], case: Case) -> None:
    name, wire, bucket = server
    reason = DIFFERENCES[name.removesuffix(" over a bucket")].get(case.name)
    prefix = f"main/{uuid4().hex[:12]}/"
    if reason is None:
        run(case, wire, bucket, prefix)
        return
    with pytest.raises((Differs, OSError)):
        run(case, wire, bucket, prefix)


def test_cases_and_differences_have_names() -> None:
    names = Counter(case.name for case in CASES)
    differences = [case for by_case in DIFFERENCES.values() for case in by_case]

    assert names.most_common(1)[0][1] == 1
    assert set(differences) <= names.keys()
    assert len(CASES) > 250
