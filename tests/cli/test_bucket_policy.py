"""The documents of ``policy show --print-iam`` on servers that enforce them.

Bob claims to be Ada, whom the rules let move everything, so that only the bucket refuses. moto does
not evaluate conditions of S3 (it takes any statement with one for met), so the statements with
conditions are left out there. radosgw gets the whole document; it knows none of these conditions.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import TYPE_CHECKING, Any, Final

import pytest
from botocore.session import Session

from lakecli.base.layout import REFS
from lakecli.cli.context import system_now
from lakecli.stores.s3.store import S3Store
from tests.cli.manual.test_policies import enforce, printed_policy
from tests.cli.test_movers import DUMPED, MAIN, URI, Line, Mover, Team, each_mover
from tests.meetings import block_write, spark_write
from tests.meetings.situations import put_dump
from tests.servers.catalogue import SERVERS
from tests.support.servers import ACCESS_KEY, SECRET_KEY, moto, new_bucket
from tests.support.tools import require_tool

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.golden import Cli, Result

Keys = dict[str, str]

ADA: Final = "ada@x"


class BucketTeam(Team):
    """Ada and Bob, each with keys of a server."""

    def __init__(
        self, cli: Cli, directory: Path, environment: pytest.MonkeyPatch, keys: dict[str, Keys]
    ) -> None:
        super().__init__(cli, directory)
        cli.now = system_now()
        self.environment = environment
        self.keys = keys
        self.bucket = new_bucket(keys["ada"]["AWS_ENDPOINT_URL"])
        self.places = {URI: f"s3://{self.bucket}/demo", DUMPED: f"s3://{self.bucket}/dumped"}
        self.namespaces = self.places  # type: ignore[assignment]

    def become(self, who: str) -> None:
        for name, value in self.keys[who].items():
            self.environment.setenv(name, value)

    def run(self, who: str, line: Line, *, sync: str = "manual") -> Result:
        self.become(who)
        return super().run(who, line, sync=sync)

    def begin_dumped(self) -> None:
        self.ok("ada", ("repo", "create", DUMPED, self.places[DUMPED], "--range-entries", "16"))
        self.ok("ada", ("push", f"{DUMPED}/main"))
        (self.directory / "manifest").write_bytes(put_dump(S3Store(self.bucket, "dumped")))
        self.ok("bob", ("clone", self.places[DUMPED], DUMPED))

    def refs(self) -> dict[str, str]:
        self.become("ada")
        store = S3Store(self.bucket)
        return {
            info.key: json.loads(store.get(info.key))["commit_id"]
            for prefix in ("demo", "dumped")
            for info in store.list(f"{prefix}/{REFS}")
        }

    def document(self, uri: str, rules: str, who: str = "bob@x") -> dict[str, Any]:
        """Set rules, and return what the command prints for somebody."""
        (self.directory / "rules.toml").write_text(rules)
        self.ok("ada", ("policy", "set", uri, str(self.directory / "rules.toml"), "-y"))
        shown = self.ok("ada", ("policy", "show", uri, "--print-iam", "aws", "--for", who))
        document: dict[str, Any] = json.loads(shown.stdout)
        return document


class Iam:
    """The users of moto."""

    def __init__(self, endpoint: str) -> None:
        session = Session()
        session.set_credentials(ACCESS_KEY, SECRET_KEY)
        self.endpoint = endpoint
        self.client = session.create_client("iam", region_name="us-east-1", endpoint_url=endpoint)

    def user(self, name: str) -> Keys:
        """Create a user who may do everything."""
        enforce(self.endpoint, after="1000")
        self.client.create_user(UserName=name)
        self._put(name, [{"Effect": "Allow", "Action": "*", "Resource": "*"}])
        key = self.client.create_access_key(UserName=name)["AccessKey"]
        return {
            "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
            "AWS_ENDPOINT_URL": self.endpoint,
        }

    def allow(self, name: str, statements: list[dict[str, Any]]) -> None:
        """Replace what a user may do; from here on, the server enforces it."""
        enforce(self.endpoint, after="1000")
        self._put(name, statements)
        enforce(self.endpoint, after="0")

    def _put(self, name: str, statements: list[dict[str, Any]]) -> None:
        document = json.dumps({"Version": "2012-10-17", "Statement": statements})
        self.client.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=document)


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with moto(tmp_path_factory) as url:  # its own, since it comes to enforce policies
        yield url


@pytest.fixture
def iam(endpoint: str) -> Iam:
    return Iam(endpoint)


@pytest.fixture
def team(cli: Cli, tmp_path: Path, aws_environment: pytest.MonkeyPatch, iam: Iam) -> BucketTeam:
    block_write.install(aws_environment)
    spark_write.install(aws_environment)
    keys = {who: iam.user(f"{who}-{tmp_path.name}") for who in ("ada", "bob")}
    enforce(iam.endpoint, after="1000")
    team = BucketTeam(cli, tmp_path, aws_environment, keys)
    team.begin()
    return team


def without_conditions(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in document["Statement"] if "Condition" not in each]


MOVES_IN_VAIN = "(protect (branch|tag) .*: let somebody who may move it merge)"


SAMPLE: Final = ("commit", "merge", "publish", "push", "tag create", "undo")
"""Commands that each run of CI tries; the nightly run tries all."""


@each_mover(SAMPLE)
def test_no_command_moves_what_the_bucket_protects(
    team: BucketTeam, iam: Iam, tmp_path: Path, mover: Mover
) -> None:
    if mover.is_manual:
        pytest.skip("it moves nothing in the bucket")
    uri = DUMPED if DUMPED in mover.line else URI
    if uri == DUMPED:
        team.begin_dumped()
    for line in mover.before:
        team.ok("bob", line)
    for line in mover.theirs:
        team.ok("ada", line)
    document = team.document(uri, f"[[rules]]\nrefs = ['*']\nwho = ['{ADA}']\n")
    everything = [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]
    iam.allow(f"bob-{tmp_path.name}", everything + without_conditions(document))
    refs = team.refs()
    team.environment.setenv("CLAIMED_EMAIL", ADA)

    result = team.run("bob", mover.line, sync="auto")

    assert team.refs() == refs
    if mover.line[:2] == ("run", "resume"):  # it keeps its committer, whom the rules refuse
        assert result.exit_code == 7, result
        return
    assert result.exit_code == 9, result
    assert re.search(MOVES_IN_VAIN, result.stderr), result


def works_for_bob(team: BucketTeam) -> None:
    """Let Bob do everything but move main."""
    (team.directory / "files" / "large").write_bytes(os.urandom(9 << 20))  # more than one part
    large, feature = str(team.directory / "files" / "large"), f"{URI}/feature"
    for line in (
        ("fetch", URI),
        ("branch", "create", feature, "-s", MAIN),
        ("fs", "upload", large, f"{feature}/large"),
        ("fs", "upload", "{new}", f"{feature}/small"),
        ("commit", feature, "-m", "mine"),
        ("push", feature),
        ("tag", "create", f"{URI}/mine", feature),
        ("push", f"{URI}/mine"),
        ("merge", f"{URI}/dev", feature),
        ("push", feature),
        ("branch", "reset", feature, "--to", "feature~1", "-y"),
        ("push", feature, "--force-with-lease"),
        ("push", "--delete", f"{URI}/mine"),
        ("branch", "rename", feature, "renamed"),
        ("fsck", URI, "--data"),
        ("merge", f"{URI}/renamed", MAIN),
    ):
        team.ok("bob", line)
    refs = team.refs()
    result = team.run("bob", ("push", MAIN))
    assert result.exit_code == 9, result
    assert "the bucket's policy may protect branch main" in result.stderr
    (team.directory / "none.toml").write_text("")
    none = str(team.directory / "none.toml")
    assert team.run("bob", ("policy", "set", URI, none, "-y")).exit_code == 9
    assert team.refs() == refs
    team.ok("ada", ("fetch", URI))
    team.ok("ada", ("pull", feature))
    team.ok("ada", ("merge", feature, MAIN))
    team.ok("ada", ("push", MAIN))
    assert team.refs() != refs


RULES: Final = """
owners = ["ada@x"]
[[rules]]
refs = ["main", "v*"]
who = ["ada@x"]
"""


def test_on_moto_everything_else_works(team: BucketTeam, iam: Iam, tmp_path: Path) -> None:
    document = team.document(URI, RULES)
    text = json.dumps(printed_policy()).replace("my-bucket/sales", "my-bucket/demo")
    allowed = json.loads(text.replace("my-bucket", team.bucket))["Statement"]
    allowed[1]["Action"].append("s3:DeleteObject")
    iam.allow(f"bob-{tmp_path.name}", allowed + without_conditions(document))
    team.environment.setenv("CLAIMED_EMAIL", ADA)

    works_for_bob(team)


@pytest.mark.nightly
def test_on_radosgw_with_conditions_everything_else_works(
    cli: Cli, tmp_path: Path, aws_environment: pytest.MonkeyPatch
) -> None:
    administer = (require_tool("radosgw-admin"), "-c", str(tmp_path / "gw" / "ceph.conf"))
    start = next(each.start for each in SERVERS if each.name == "radosgw")
    (tmp_path / "gw").mkdir()
    with start(tmp_path / "gw") as place:
        made = ("--uid", "bob", "--display-name", "Bob", "--access-key", "b", "--secret-key", "s")
        subprocess.run([*administer, "user", "create", *made], check=True, capture_output=True)
        bobs = {"AWS_ACCESS_KEY_ID": "b", "AWS_SECRET_ACCESS_KEY": "s"}
        keys = {"ada": dict(place.environment), "bob": {**place.environment, **bobs}}
        team = BucketTeam(cli, tmp_path, aws_environment, keys)
        team.become("ada")

        def let_bob(*statements: dict[str, Any]) -> None:
            """Replace the policy of the bucket."""
            arns = [f"arn:aws:s3:::{team.bucket}", f"arn:aws:s3:::{team.bucket}/*"]
            bob, both = (
                {"Principal": {"AWS": [f"arn:aws:iam:::user/{who}" for who in people]}}
                for people in (("bob",), ("bob", "u"))
            )
            # An object is its writer's, so Ada needs the right to read those of Bob.
            everything = {"Effect": "Allow", "Action": "s3:*", "Resource": arns, **both}
            document = {
                "Version": "2012-10-17",
                "Statement": [everything, *(each | bob for each in statements)],
            }
            client = S3Store(team.bucket)._connection.client()
            client.put_bucket_policy(Bucket=team.bucket, Policy=json.dumps(document))

        let_bob()
        team.begin()
        document = team.document(URI, RULES)
        let_bob(*document["Statement"])
        team.environment.setenv("CLAIMED_EMAIL", ADA)

        works_for_bob(team)
