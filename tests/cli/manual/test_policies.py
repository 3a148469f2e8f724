"""The policies for S3 that the topic ``clouds`` prints, tested on a server that enforces them."""

from __future__ import annotations

import json
import os
import re
import textwrap
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from botocore.session import Session

from lakecli.cli.context import system_now
from lakecli.cli.exit_codes import ExitCode
from tests.support.servers import ACCESS_KEY, SECRET_KEY, moto

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.golden import Cli

PAGE = Path(__file__).parents[3] / "lakecli" / "cli" / "manual" / "topics" / "clouds.md"


def printed_policy() -> dict[str, Any]:
    [block] = re.findall(
        r'^    \{\n +"Version".*?^    \}\n', PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    policy: dict[str, Any] = json.loads(textwrap.dedent(block))
    # AWS asks for s3:ListBucket here, as it documents; the server has an action of its own.
    policy["Statement"][0]["Action"].append("s3:HeadBucket")
    return policy


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with moto(tmp_path_factory) as url:  # its own, since it comes to enforce policies
        yield url


@pytest.fixture
def become(
    endpoint: str, aws_environment: pytest.MonkeyPatch
) -> Iterator[Callable[[str, dict[str, Any]], None]]:
    """Become a user with a policy, on a server that enforces it."""
    session = Session()
    session.set_credentials(ACCESS_KEY, SECRET_KEY)
    options = {"region_name": "us-east-1", "endpoint_url": endpoint}
    iam, s3 = session.create_client("iam", **options), session.create_client("s3", **options)
    enforce(endpoint, after="1000")
    s3.create_bucket(Bucket="my-bucket")

    def become(name: str, policy: dict[str, Any]) -> None:
        enforce(endpoint, after="1000")
        iam.create_user(UserName=name)
        iam.put_user_policy(UserName=name, PolicyName=name, PolicyDocument=json.dumps(policy))
        key = iam.create_access_key(UserName=name)["AccessKey"]
        enforce(endpoint, after="0")
        aws_environment.setenv("AWS_ENDPOINT_URL", endpoint)
        aws_environment.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
        aws_environment.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])

    yield become
    iam.close()
    s3.close()


def enforce(endpoint: str, *, after: str) -> None:
    """Let the server check every request but the next `after` ones."""
    url, headers = f"{endpoint}/moto-api/reset-auth", {"Content-Type": "text/plain"}
    with urllib.request.urlopen(urllib.request.Request(url, after.encode(), headers)):
        pass


def test_the_policies_are_enough_and_no_more(
    cli: Cli,
    tmp_path: Path,
    become: Callable[[str, dict[str, Any]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cli.now = system_now()  # a store's clock is held against it
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_text("1")
    large.write_bytes(os.urandom(9 << 20))  # more than one part
    writer = printed_policy()
    become("writer", writer)
    cli.ok("repo", "create", "lakefs://sales", "s3://my-bucket/sales")
    for file in (small, large):
        cli.ok("fs", "upload", str(file), f"lakefs://sales/main/{file.name}")
    cli.ok("commit", "lakefs://sales/main", "-m", "both")
    cli.ok("push", "lakefs://sales/main")
    cli.ok("fsck", "lakefs://sales", "--data")
    outside = cli("repo", "create", "lakefs://other", "s3://my-bucket/other")
    assert outside.exit_code == ExitCode.PERMISSION

    reader = printed_policy()
    reader["Statement"][0]["Action"] = ["s3:ListBucket", "s3:HeadBucket"]
    reader["Statement"][1]["Action"] = ["s3:GetObject"]
    become("reader", reader)
    monkeypatch.setenv("LAKECLI_HOME", str(tmp_path / "reader"))
    cli.ok("clone", "s3://my-bucket/sales", "lakefs://copy")
    assert cli.ok("fs", "cat", "lakefs://copy/main/small").stdout == "1"
    small.write_text("2")
    refused = cli("fs", "upload", str(small), "lakefs://copy/main/small")
    assert refused.exit_code == ExitCode.PERMISSION
