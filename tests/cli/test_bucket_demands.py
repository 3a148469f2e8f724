"""Commands on buckets that demand an encryption, a payer, or no signature."""

from __future__ import annotations

import json
import shlex
import subprocess
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from lakecli.errors import PermissionDenied
from lakecli.repository.policy.bucket_policy import Cloud, bucket_policy
from lakecli.repository.policy.document import Policy
from lakecli.stores.contract import ANY
from lakecli.stores.s3.store import S3Store
from lakecli.stores.uri import parse
from tests.cli.commands.test_doctor import PunctualCli
from tests.stores.s3.test_demands import KEY, signed, unencrypted, unpaid
from tests.support.proxies import Forwarded, forwarding, like_kms
from tests.support.servers import new_bucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.golden import Cli


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return PunctualCli(tmp_path)


@pytest.fixture
def bucket(moto_endpoint: str, aws_environment: pytest.MonkeyPatch) -> str:
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    return new_bucket(moto_endpoint)


def encrypt(cli: Cli, *buckets: str) -> None:
    """Ask for the encryption that `unencrypted` demands."""
    for name, value in (("sse", "aws:kms"), ("sse-kms-key-id", KEY), ("bucket-key", "true")):
        cli.ok("config", "set", f"s3.{name}", " ".join(f"s3://{each}={value}" for each in buckets))


def publish(bucket: str) -> None:
    """Let everybody read a bucket."""
    client = S3Store(bucket)._connection.client()
    statement = {"Effect": "Allow", "Principal": "*", "Action": "s3:*"}
    names = [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]
    policy = {"Version": "2012-10-17", "Statement": [statement | {"Resource": names}]}
    client.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))


def test_all_that_is_written_is_encrypted_as_its_bucket_demands(
    cli: Cli, moto_endpoint: str, aws_environment: pytest.MonkeyPatch, bucket: str, tmp_path: Path
) -> None:
    destination = new_bucket(moto_endpoint)
    (tmp_path / "file").write_bytes(b"a" * (9 << 20))
    with forwarding(moto_endpoint, refuse=unencrypted) as url:
        aws_environment.setenv("AWS_ENDPOINT_URL", url)
        encrypt(cli, bucket, destination)
        cli.ok("repo", "create", "lakefs://demo", f"s3://{bucket}/demo")
        cli.ok("fs", "upload", "lakefs://demo/main/large", "-s", tmp_path / "file")
        cli.ok("fs", "upload", "lakefs://demo/main/small", "-s", "-", stdin=b"small")
        link = json.loads(
            cli.ok("fs", "presign", "--put", "lakefs://demo/main/new", "--json").stdout
        )
        headers = [f"{name}: {value}" for name, value in link["headers"].items()]
        assert [header for header in headers if KEY in header]
        sending = [item for header in headers for item in ("-H", header)]
        send = ["curl", "-sSf", "-T", str(tmp_path / "file"), *sending, link["url"]]
        subprocess.run(send, check=True, timeout=60)
        cli.ok("fs", "stage", "lakefs://demo/main/new", "--incoming", link["id"])
        form = cli.ok("fs", "presign", "--put", "--max-size", "9KB", "lakefs://demo/main/form")
        (tmp_path / "FILE").write_bytes(b"form")
        line = next(each for each in form.stdout.splitlines() if each.startswith("Send: "))
        subprocess.run([*shlex.split(line[6:]), "-sS"], check=True, timeout=60, cwd=tmp_path)
        cli.ok("commit", "lakefs://demo/main", "-m", "all")
        cli.ok("tag", "create", "lakefs://demo/v1", "lakefs://demo/main")
        cli.ok("push", "lakefs://demo")
        cli.ok("gc", "run", "lakefs://demo")
        cli.ok("export", "lakefs://demo/v1/", f"s3://{destination}/out")
        assert S3Store(destination, "out").get("small") == b"small"


@pytest.fixture
def public(cli: Cli, bucket: str, tmp_path: Path) -> str:
    """Return the namespace of a repository that everybody may read."""
    (tmp_path / "file").write_bytes(b"text")
    cli.ok("repo", "create", "lakefs://demo", f"s3://{bucket}/demo")
    cli.ok("fs", "upload", "lakefs://demo/main/file", "-s", tmp_path / "file")
    cli.ok("commit", "lakefs://demo/main", "-m", "all")
    cli.ok("push", "lakefs://demo")
    publish(bucket)
    return f"s3://{bucket}/demo"


@pytest.fixture
def stranger(
    moto_endpoint: str, public: str, aws_environment: pytest.MonkeyPatch
) -> Iterator[pytest.MonkeyPatch]:
    """Have no credentials, and a server that accepts no signature and no writes."""
    del public
    with forwarding(moto_endpoint, refuse=signed) as url:
        aws_environment.setenv("AWS_ENDPOINT_URL", url)
        aws_environment.setenv("HOME", "/nonexistent")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            aws_environment.delenv(name)
        yield aws_environment


def test_a_public_repository_is_read_and_cloned_without_credentials(
    cli: Cli, public: str, stranger: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refused = cli("fs", "cat", f"{public}@main/file")
    assert (refused.exit_code, "no credentials for S3" in refused.stderr) == (9, True)
    cli.ok("config", "set", "s3.anonymous", f"{public.removesuffix('/demo')}=true")
    assert cli.ok("fs", "cat", f"{public}@main/file").stdout == "text"
    stranger.setenv("LAKECLI_HOME", str(tmp_path / "other"))
    stranger.setenv("LAKECLI_S3_ANONYMOUS", "true")
    cli.ok("clone", public, "lakefs://theirs")
    assert cli.ok("fs", "cat", "lakefs://theirs/main/file").stdout == "text"
    cli.ok("fetch", "lakefs://theirs")
    cli.ok("fsck", "lakefs://theirs", "--data")
    for refused in (
        cli("fs", "upload", "lakefs://theirs/main/new", "-s", "-", stdin=b"new"),
        cli("repo", "create", "lakefs://mine", public.removesuffix("demo") + "mine"),
        cli("doctor", public),
    ):
        assert "read without credentials, nothing was written" in refused.stdout + refused.stderr
        assert refused.exit_code == 9


def test_a_public_source_is_imported_into_a_bucket_of_your_own(
    cli: Cli, moto_endpoint: str, aws_environment: pytest.MonkeyPatch, bucket: str
) -> None:
    source = new_bucket(moto_endpoint)
    S3Store(source).put("in/a", b"abc", ANY)
    publish(source)

    def refuse(request: Forwarded) -> str:
        return signed(request) if request.path.startswith(f"/{source}") else ""

    with forwarding(moto_endpoint, refuse=refuse) as url:
        aws_environment.setenv("AWS_ENDPOINT_URL", url)
        cli.ok("repo", "create", "lakefs://demo", f"s3://{bucket}/demo")
        line = ("import", "--from", f"s3://{source}/in/", "--to", "lakefs://demo/main/", "-m", "in")
        assert cli(*line).exit_code == 9
        cli.ok("config", "set", "s3.anonymous", f"s3://{source}=true")
        cli.ok(*line)
        assert cli.ok("fs", "cat", "lakefs://demo/main/a").stdout == "abc"
        cli.ok(*line, "--copy", "--to", "lakefs://demo/main/copied/")
        cli.ok("fs", "cat", "lakefs://demo/main/copied/a")
        refused = cli("fs", "presign", "lakefs://demo/main/a")
        assert f"its objects have plain URLs: {url}/{source}/in/a" in refused.stderr


@pytest.mark.parametrize(
    "demanded",
    [
        (unpaid, "list", "s3.requester-pays"),
        (signed, "list", "s3.anonymous"),
        (unencrypted, "write", "s3.sse"),
    ],
)
def test_doctor_names_what_a_bucket_demands(
    cli: Cli,
    moto_endpoint: str,
    aws_environment: pytest.MonkeyPatch,
    bucket: str,
    demanded: tuple[Callable[[Forwarded], str], str, str],
) -> None:
    refuse, check, demand = demanded
    publish(bucket)
    if refuse is unencrypted:
        cli.ok("config", "set", "s3.sse-kms-key-id", KEY)
        cli.ok("config", "set", "s3.sse", "AES256")
        cli.ok("config", "set", "s3.bucket-key", "true")
    with forwarding(moto_endpoint, refuse=refuse) as url:
        aws_environment.setenv("AWS_ENDPOINT_URL", url)
        if refuse is not unencrypted:
            cli.ok("config", "set", demand, "false s3://another=true")
        failed = _check(cli, bucket, check)
        *command, value = shlex.split(failed["fix"])
        assert command == ["lakecli", "config", "set", demand]
        assert value.startswith(("false s3://another=true s3://", "AES256 s3://"))
        cli.ok(*command[1:], value)
        assert _check(cli, bucket, check)["verdict"] == "ok"
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    assert not list(S3Store(bucket).list())


def _check(cli: Cli, bucket: str, name: str) -> dict[str, str]:
    checks = json.loads(cli("doctor", f"s3://{bucket}/p", "--json").stdout)["checks"]
    return next(each for each in checks if each["name"] == name)


def test_etags_that_are_no_md5_are_no_damage(
    cli: Cli, moto_endpoint: str, aws_environment: pytest.MonkeyPatch, bucket: str, tmp_path: Path
) -> None:
    """With SSE-KMS an ETag has the form of an MD5, and objects may have no content type."""
    source = new_bucket(moto_endpoint)
    for number in range(3):
        S3Store(source).put(f"in/{number}", b"body", ANY)
    with forwarding(moto_endpoint, tags=like_kms) as url:
        aws_environment.setenv("AWS_ENDPOINT_URL", url)
        cli.ok("repo", "create", "lakefs://demo", f"s3://{bucket}/demo")
        to = ("--to", "lakefs://demo/main/")
        cli.ok("import", "--from", f"s3://{source}/in/", *to, "-m", "in", "--verify", "all")
        assert cli.ok("fs", "cat", "lakefs://demo/main/1").stdout == "body"
        cli.ok("push", "lakefs://demo")
        cli.ok("fsck", "lakefs://demo", "--data", "--external")
        cli.ok("fs", "download", "lakefs://demo/main/", tmp_path / "out", "-r")
        (tmp_path / "same").write_bytes(b"body")
        cli.ok("fs", "upload", "lakefs://demo/main/1", "-s", tmp_path / "same")
        cli.ok("fsck", "lakefs://demo", "--data", "--external")
        cli.ok("export", "lakefs://demo/main/", f"s3://{bucket}/out")
        script = tmp_path / "get.sh"
        cli.ok("fs", "presign", "-r", "lakefs://demo/main/", "--script", script)
        done = subprocess.run(["sh", script, tmp_path / "got"], check=False, timeout=60)
        assert done.returncode in {0, 3}
        assert (tmp_path / "got/2").read_bytes() == b"body"
        S3Store(source).put("in/2", b"else", ANY)
        assert cli("fs", "cat", "lakefs://demo/main/2").exit_code == 8


def replacing(document: dict[str, Any]) -> Callable[[Forwarded], str]:
    """Refuse what the conditions of a printed document deny, as S3 documents them."""

    def refuse(request: Forwarded) -> str:
        url = urlsplit(request.path)
        query = parse_qs(url.query, keep_blank_values=True)
        ends = request.method == "POST" and "uploadId" in query
        creates = ends or (request.method == "PUT" and "partNumber" not in query)
        return "Access Denied" * any(
            creates
            and each["Condition"]["Bool"] == {"s3:ObjectCreationOperation": "true"}
            and not any(name[3:] in request.headers for name in each["Condition"]["Null"])
            and fnmatch(f"arn:aws:s3:::{unquote(url.path[1:])}", resource)
            for each in document["Statement"]
            if "Condition" in each
            for resource in each["Resource"]
        )

    return refuse


def test_everything_is_written_where_nothing_may_be_replaced(
    cli: Cli, moto_endpoint: str, aws_environment: pytest.MonkeyPatch, bucket: str, tmp_path: Path
) -> None:
    source = new_bucket(moto_endpoint)
    for number, size in enumerate((10, 2 << 20, 9 << 20)):
        S3Store(source).put(f"in/{number}", bytes([number]) * size, ANY)
        (tmp_path / str(number)).write_bytes(bytes([9, number]) * size)
    place = parse(f"s3://{bucket}/demo")
    document = bucket_policy(Policy(), place, Cloud.AWS)
    with forwarding(moto_endpoint, refuse=replacing(document)) as url:
        aws_environment.setenv("AWS_ENDPOINT_URL", url)
        cli.ok("repo", "create", "lakefs://demo", str(place))
        for number in range(3):
            cli.ok("fs", "upload", f"lakefs://demo/main/{number}", "-s", tmp_path / str(number))
        cli.ok("fs", "upload", "lakefs://demo/main/stream", "-s", "-", stdin=bytes(9 << 20))
        cli.ok("commit", "lakefs://demo/main", "-m", "all")
        line = ("import", "--from", f"s3://{source}/in/", "--to", "lakefs://demo/main/in/")
        cli.ok(*line, "-m", "in", "--copy")
        link = json.loads(cli.ok("fs", "presign", "--put", "lakefs://demo/main/x", "--json").stdout)
        subprocess.run(["curl", "-sSf", "-T", tmp_path / "1", link["url"]], check=True, timeout=60)
        cli.ok("fs", "stage", "lakefs://demo/main/x", "--incoming", link["id"])
        cli.ok("commit", "lakefs://demo/main", "-m", "x")
        cli.ok("push", "lakefs://demo")
        cli.ok("tag", "create", "lakefs://demo/v1", "lakefs://demo/main")
        cli.ok("push", "lakefs://demo/v1")
        cli.ok("branch", "reset", "lakefs://demo/main", "--to", "main~1", "-y")
        cli.ok("push", "lakefs://demo/main", "--force-with-lease")
        cli.ok("fsck", "lakefs://demo", "--data")
        store = S3Store(bucket, "demo")
        [key] = (info.key for info in store.list("data/") if info.size == 20)
        for size in (10, 20):  # as long as the object, and of another length
            with pytest.raises(PermissionDenied):
                store.put(key, bytes(size), ANY)
