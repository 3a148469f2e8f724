"""Entries that name local files, other buckets and invalid places."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakecli
from lakecli.base.identity import blake3_of
from lakecli.base.model import Entry
from lakecli.cli.context import system_now
from lakecli.cli.exit_codes import ExitCode
from lakecli.committed.values import encode_entry
from lakecli.engine import runner as places
from lakecli.errors import LakeError, Refused
from lakecli.filesystem import LakeFileSystem
from lakecli.repository.handle.lake import Lake
from lakecli.repository.reading.addresses import remembered
from lakecli.repository.runtime import Home, Runtime
from lakecli.repository.staged.stager import Stager
from lakecli.stores import registry
from lakecli.stores.contract import ANY
from tests.support.lakes import unclaimed
from tests.support.servers import new_bucket

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.golden import Cli, Result

MAIN = "lakefs://demo/main"
CANARY = b"CANARY-" + b"not for others " * 4
GOOD = b"what everybody may read"

HOSTILE = (
    "file",
    "file by link",
    "environment",
    "other bucket",
    "other prefix",
    "beside the prefix",
    "prefix by dots",
    "outside by dots",
    "absolute",
    "metadata service",
    "metadata bucket",
    "https",
    "file scheme",
)


class Stage:
    """A repository with one good object and one whose entry is hostile, and what it may harm."""

    def __init__(self, cli: Cli, namespace: str, other: str) -> None:
        self.cli = cli
        self.namespace = namespace
        self.other = other
        bucket = namespace if namespace.startswith("local://") else namespace.rpartition("/")[0]
        self.bucket = other if bucket.startswith("local://") else bucket
        self.secret = cli.directory / "secrets" / "id_rsa"
        self.secret.parent.mkdir()
        self.secret.write_bytes(CANARY)
        self.out = cli.directory / "out"
        cli.ok("repo", "create", "lakefs://demo", namespace)
        cli.ok("fs", "upload", "-", f"{MAIN}/t/good", stdin=GOOD.decode())

    def address(self, kind: str) -> str:
        if kind == "file by link":
            link = Path(self.namespace.removeprefix("local://")) / "link"
            if self.namespace.startswith("local://"):
                link.symlink_to(self.secret.parent)
                return f"local://{link}/id_rsa"
            return f"local://{self.secret.parent}/./id_rsa"
        return {
            "file": f"local://{self.secret}",
            "environment": "local:///proc/self/environ",
            "other bucket": f"{self.other}/secret",
            "other prefix": f"{self.bucket}/team/secret",
            "beside the prefix": f"{self.bucket}/lakes/secret",
            "prefix by dots": f"{self.bucket}/lake/../team/secret",
            "outside by dots": "../secrets/id_rsa",
            "absolute": str(self.secret),
            "metadata service": "https://169.254.169.254/latest/meta-data/iam",
            "metadata bucket": "s3://169.254.169.254/latest/meta-data",
            "https": "https://example.com/x",
            "file scheme": f"file://{self.secret}",
        }[kind]

    def plant(self, kind: str) -> None:
        entry = Entry(
            self.address(kind), len(CANARY), blake3_of(CANARY).hex(), system_now(), "text/plain"
        )
        home = Path(os.environ["LAKECLI_HOME"])
        runtime = Runtime(lambda: self.cli.now, lambda: os.urandom(16), "test")
        with Lake.open(Home(home / "store", home / "cache"), runtime) as lake:
            Stager(lake.repository("demo"), "main").write(
                unclaimed([(b"t/bad", encode_entry(entry))]), kind="test"
            )
        self.cli.ok("commit", MAIN, "-m", "planted")

    def seen(self) -> bytes:
        """All bytes that a reader wrote to files."""
        found = [path for path in self.out.rglob("*") if path.is_file()]
        return b"".join(path.read_bytes() for path in found)


@pytest.fixture(params=["directory", pytest.param("bucket", marks=pytest.mark.nightly)])
def stage(
    request: pytest.FixtureRequest,
    cli: Cli,
    aws_environment: pytest.MonkeyPatch,
    moto_endpoint: str,
) -> Stage:
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    cli.now = system_now()
    other = f"s3://{new_bucket(moto_endpoint)}"
    registry.open_store(other).put("secret", CANARY, ANY)
    own = f"local://{cli.directory}/namespace"
    if request.param == "bucket":
        own = f"s3://{new_bucket(moto_endpoint)}/lake"
        bucket = registry.open_store(own.removesuffix("/lake"))
        for key in ("team/secret", "lakes/secret", "lake/../team/secret"):
            bucket.put(key, CANARY, ANY)
    return Stage(cli, own, other)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The URIs of all stores that are opened."""
    uris: list[str] = []
    real = registry.open_store

    def open_store(uri: str, **options: Any) -> object:
        uris.append(uri)
        return real(uri, **options)

    for module in (registry, places):
        monkeypatch.setattr(module, "open_store", open_store)
    return uris


def _cat(stage: Stage) -> Result:
    return stage.cli("fs", "cat", f"{MAIN}/t/bad")


def _download(stage: Stage) -> Result:
    stage.out.mkdir()
    return stage.cli("fs", "download", f"{MAIN}/t/bad", stage.out / "bad")


def _download_tree(stage: Stage) -> Result:
    result = stage.cli("fs", "download", "-r", f"{MAIN}/t/", stage.out)
    assert (stage.out / "good").read_bytes() == GOOD
    return result


def _export(stage: Stage) -> Result:
    result = stage.cli("export", f"{MAIN}/t/", stage.out)
    assert (stage.out / "good").read_bytes() == GOOD
    return result


def _presign(stage: Stage) -> Result:
    return stage.cli("fs", "presign", f"{MAIN}/t/bad")


def _presign_tree(stage: Stage) -> Result:
    stage.out.mkdir()
    return stage.cli("fs", "presign", "-r", f"{MAIN}/t/", "--manifest", stage.out / "links.json")


def _copied(stage: Stage) -> Result:
    stage.cli.ok("fs", "cp", f"{MAIN}/t/bad", f"{MAIN}/copy")
    return stage.cli("fs", "cat", f"{MAIN}/copy")


def _presigned_stat(stage: Stage) -> Result:
    return stage.cli("fs", "stat", f"{MAIN}/t/bad", "--pre-sign")


READERS = {
    "cat": (_cat, None),
    "download": (_download, None),
    "download -r": (_download_tree, ExitCode.PARTIAL),
    "export": (_export, ExitCode.PARTIAL),
    "presign": (_presign, None),
    "presign -r": (_presign_tree, None),
    "cp": (_copied, None),
    "stat --pre-sign": (_presigned_stat, None),
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("reader", READERS)
def test_no_command_follows_a_foreign_address(
    stage: Stage, opened: list[str], reader: str, kind: str
) -> None:
    stage.plant(kind)
    opened.clear()
    run: Callable[[Stage], Result]
    run, code = READERS[reader]
    result = run(stage)
    assert result.exit_code not in (ExitCode.OK, ExitCode.UNEXPECTED), result
    if code is not None:
        assert result.exit_code == code, result
    assert CANARY not in result.stdout_bytes
    assert b"LAKECLI_HOME" not in result.stdout_bytes
    assert "X-Amz-Signature" not in result.stdout
    assert "Traceback" not in result.stderr
    assert CANARY not in stage.seen()
    assert "/secret?" not in stage.seen().decode()
    outside = {uri for uri in opened if not uri.startswith(stage.namespace)}
    assert outside <= {f"local://{stage.out}", str(stage.out)}, outside


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_library_function_follows_a_foreign_address(stage: Stage, kind: str) -> None:
    stage.plant(kind)
    fs = LakeFileSystem(skip_instance_cache=True)
    assert fs.cat_file(f"{MAIN}/t/good") == GOOD
    with pytest.raises(OSError, match=r"."):
        fs.cat_file(f"{MAIN}/t/bad")
    with pytest.raises(OSError, match=r"."):
        fs.cat_file(f"{MAIN}/t/bad", 0, 4)
    with pytest.raises(OSError, match=r"."):
        fs.get_file(f"{MAIN}/t/bad", str(stage.out / "bad"))
    assert CANARY not in stage.seen()
    from lakecli.repository.reading.contents import read_object
    from lakecli.repository.stat import stat

    with lakecli.open("lakefs://demo") as repository, pytest.raises(LakeError, match=r"."):
        list(read_object(repository, stat(repository, "main", b"t/bad")))


def hint_of(result: Result) -> str:
    hints = [line for line in result.stderr.splitlines() if line.startswith("hint: ")]
    assert len(hints) == 1, result
    return hints[0]


def test_the_hint_is_the_command_that_allows_it(stage: Stage) -> None:
    import shlex

    stage.plant("other bucket")
    refused = stage.cli("fs", "cat", f"{MAIN}/t/bad")
    assert refused.exit_code == ExitCode.REFUSED
    assert stage.other in refused.stderr
    command = shlex.split(hint_of(refused).partition("lakecli ")[2])
    assert command[:3] == ["config", "set", "repo.demo.trust.addresses"]
    stage.cli.ok(*command)
    assert stage.cli.ok("fs", "cat", f"{MAIN}/t/bad").stdout_bytes == CANARY
    assert LakeFileSystem(skip_instance_cache=True).cat_file(f"{MAIN}/t/bad") == CANARY
    stage.cli.ok("config", "unset", "repo.demo.trust.addresses")
    assert stage.cli("fs", "cat", f"{MAIN}/t/bad").exit_code == ExitCode.REFUSED


def test_places_match_whole_path_components(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.plant("other bucket")
    for place, code in (
        (f"{stage.other}x", ExitCode.REFUSED),
        (f"{stage.other}/sec", ExitCode.REFUSED),
        (f"{stage.other}/secret/x", ExitCode.REFUSED),
        (f"s3://a-b, {stage.other}/", ExitCode.OK),
    ):
        monkeypatch.setenv("LAKECLI_TRUST_ADDRESSES", place)
        assert stage.cli("fs", "cat", f"{MAIN}/t/bad").exit_code == code, place


def test_local_files_are_allowed_for_a_directory_repository_only(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKECLI_TRUST_ADDRESSES", f"/ {stage.secret.parent}"[2:])
    stage.plant("file")
    result = stage.cli("fs", "cat", f"{MAIN}/t/bad")
    if stage.namespace.startswith("local://"):
        assert result.stdout_bytes == CANARY
    else:
        assert result.exit_code == ExitCode.REFUSED
        assert "never followed" in result.stderr


def test_objects_staged_here_are_allowed(stage: Stage) -> None:
    options = (
        "--location",
        f"{stage.other}/secret",
        "--size",
        str(len(CANARY)),
        "--checksum",
        blake3_of(CANARY).hex(),
    )
    stage.cli.ok("fs", "stage", f"{MAIN}/t/bad", *options)
    assert stage.cli.ok("fs", "cat", f"{MAIN}/t/bad").stdout_bytes == CANARY


def test_objects_imported_here_are_allowed(stage: Stage) -> None:
    stage.cli.ok("commit", MAIN, "-m", "good")
    stage.cli.ok("import", "--from", stage.other, "--to", f"{MAIN}/in/")
    assert stage.cli.ok("fs", "cat", f"{MAIN}/in/secret").stdout_bytes == CANARY


def test_importing_a_directory_into_a_bucket_needs_copy(stage: Stage) -> None:
    stage.cli.ok("commit", MAIN, "-m", "good")
    importing = ("import", "--from", stage.secret.parent, "--to", f"{MAIN}/in/")
    if stage.namespace.startswith("local://"):
        stage.cli.ok(*importing)
        assert stage.cli.ok("fs", "cat", f"{MAIN}/in/id_rsa").stdout_bytes == CANARY
        return
    refused = stage.cli(*importing)
    assert refused.exit_code == ExitCode.REFUSED
    assert "--copy" in hint_of(refused)
    staged = ("--location", stage.secret, "--size", "1", "--checksum", "e")
    assert stage.cli("fs", "stage", f"{MAIN}/x", *staged).exit_code == ExitCode.REFUSED
    stage.cli.ok(*importing, "--copy")
    assert stage.cli.ok("fs", "cat", f"{MAIN}/in/id_rsa").stdout_bytes == CANARY


@pytest.mark.parametrize("copy", [False, True])
def test_a_manifest_names_only_files_beside_it(stage: Stage, *, copy: bool) -> None:
    stage.cli.ok("commit", MAIN, "-m", "good")
    lists = stage.cli.directory / "lists"
    lists.mkdir()
    (lists / "good").write_bytes(GOOD)
    (lists / "link").symlink_to(stage.secret)
    head = "path,physical_address,size,checksum\n"
    flags = ("--copy",) if copy else ()
    for address in (f"local://{stage.secret}", f"local://{lists}/link"):
        (lists / "x.csv").write_text(f"{head}a,{address},{len(CANARY)},e\n")
        result = stage.cli("import", "--from", lists / "x.csv", "--to", f"{MAIN}/in/", *flags)
        assert result.exit_code == ExitCode.PARTIAL, result
        assert stage.cli("fs", "cat", f"{MAIN}/in/a").exit_code == ExitCode.NOT_FOUND
    if copy or stage.namespace.startswith("local://"):
        (lists / "x.csv").write_text(
            f"{head}a,local://{lists}/good,{len(GOOD)},{blake3_of(GOOD).hex()}\n"
        )
        stage.cli.ok("import", "--from", lists / "x.csv", "--to", f"{MAIN}/in/", *flags)
        assert stage.cli.ok("fs", "cat", f"{MAIN}/in/a").stdout_bytes == GOOD


def clone(stage: Stage, *options: str, stdin: str = "") -> Result:
    stage.cli.ok("push", "lakefs://demo", "--all")
    stage.cli.ok("repo", "delete", "lakefs://demo", "-y")
    return stage.cli.ok("clone", stage.namespace, "lakefs://demo", *options, stdin=stdin)


def test_clone_fsck_and_doctor_list_places(stage: Stage) -> None:
    stage.plant("other bucket")
    places = [{"place": stage.other, "objects": 1, "allowed": False}]
    assert stage.cli("fsck", "lakefs://demo", "--json").json_lines[-1]["outside"] == places
    assert f"{stage.other}: 1 objects (not allowed)" in stage.cli("fsck", "lakefs://demo").stdout
    made = clone(stage)
    assert f"{stage.other}: 1 objects (not allowed)" in made.stderr
    command = f"lakecli config set repo.demo.trust.addresses {stage.other}"
    assert command in made.stderr
    assert stage.cli("fs", "cat", f"{MAIN}/t/bad").exit_code == ExitCode.REFUSED
    checks = {
        each["name"]: each for each in stage.cli("doctor", "lakefs://demo", "--json").json["checks"]
    }
    assert checks["outside"]["verdict"] == "warning"
    assert checks["outside"]["fix"] == command
    assert clone(stage, "--json").json["outside"] == places
    stage.cli.ok(*command.split()[1:])
    assert stage.other not in clone(stage).stderr
    assert "(not allowed)" not in stage.cli.ok("fsck", "lakefs://demo").stdout


def test_clone_asks_in_a_terminal(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def confirm(_context: object, question: str, *, yes: bool) -> None:
        if not yes:
            asked.append(question)
            if len(asked) == 1:
                raise Refused(f"did not {question}")

    stage.plant("other bucket")
    monkeypatch.setattr("lakecli.cli.context.Context.confirm", confirm)
    monkeypatch.setattr("lakecli.cli.context.Context.can_ask", True)
    assert "to allow reading them" in clone(stage).stderr
    assert stage.cli("fs", "cat", f"{MAIN}/t/bad").exit_code == ExitCode.REFUSED
    assert "to allow reading them" not in clone(stage).stderr
    assert stage.cli.ok("fs", "cat", f"{MAIN}/t/bad").stdout_bytes == CANARY


def test_clone_does_not_offer_places_that_are_never_followed(stage: Stage) -> None:
    stage.plant("metadata service")
    said = clone(stage).stderr
    assert "never follows" in said
    assert "config set" not in said


@pytest.mark.parametrize(
    "place", ["", "ftp://x", "https://169.254.169.254/", "s3://", "bucket", "local://x", "/"]
)
def test_malformed_places_cannot_be_set(cli: Cli, place: str) -> None:
    result = cli("config", "set", "trust.addresses", f"s3://a {place or '...'}")
    assert result.exit_code == ExitCode.USAGE


def test_places_can_be_a_list_in_the_file(cli: Cli) -> None:
    home = Path(os.environ["LAKECLI_HOME"])
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(
        '[trust]\naddresses = ["s3://a", "/b"]\n[repo.demo.trust]\naddresses = ["s3://c"]\n'
    )
    assert cli.ok("config", "get", "trust.addresses").stdout == "s3://a /b\n"
    assert cli.ok("config", "get", "repo.demo.trust.addresses").stdout == "s3://c\n"
    cli.ok("config", "set", "repo.demo.trust.addresses", "s3://d")
    assert cli.ok("config", "get", "repo.demo.trust.addresses").stdout == "s3://d\n"


def test_a_bucket_may_be_shared_with_others(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    import shlex

    stage.plant("other prefix")
    refused = stage.cli("fs", "cat", f"{MAIN}/t/bad")
    assert refused.exit_code == ExitCode.REFUSED
    place = f"{stage.bucket}/team"
    assert f"not allowed: {place}\n" in refused.stderr
    assert stage.cli("fsck", "lakefs://demo", "--json").json_lines[-1]["outside"] == [
        {"place": place, "objects": 1, "allowed": False}
    ]
    command = shlex.split(hint_of(refused).partition("lakecli ")[2])
    assert command == ["config", "set", "repo.demo.trust.addresses", place]
    if not stage.namespace.startswith("s3://"):
        return
    stage.cli.ok(*command)
    assert stage.cli.ok("fs", "cat", f"{MAIN}/t/bad").stdout_bytes == CANARY
    for kind in ("beside the prefix", "prefix by dots"):
        stage.plant(kind)
        assert stage.cli("fs", "cat", f"{MAIN}/t/bad").exit_code == ExitCode.REFUSED
    made = clone(stage)
    assert f"{stage.bucket}: 1 objects (not allowed)" in made.stderr
    stage.cli.ok("config", "unset", "repo.demo.trust.addresses")
    stage.plant("other prefix")
    for place, code in (
        (f"{stage.bucket}/team/sec", ExitCode.REFUSED),
        (f"{stage.bucket}/team/secret", ExitCode.OK),
        (stage.bucket, ExitCode.OK),
    ):
        monkeypatch.setenv("LAKECLI_TRUST_ADDRESSES", place)
        assert stage.cli("fs", "cat", f"{MAIN}/t/bad").exit_code == code, place


def test_an_import_from_the_own_bucket_allows_only_its_prefix(stage: Stage) -> None:
    if stage.namespace.startswith("local://"):
        return
    stage.cli.ok("commit", MAIN, "-m", "good")
    stage.cli.ok("import", "--from", f"{stage.bucket}/team/", "--to", f"{MAIN}/in/")
    assert stage.cli.ok("fs", "cat", f"{MAIN}/in/secret").stdout_bytes == CANARY
    options = ("--size", str(len(CANARY)), "--checksum", blake3_of(CANARY).hex())
    beside = f"{stage.bucket}/lakes/secret"
    stage.plant("beside the prefix")
    assert stage.cli("fs", "cat", f"{MAIN}/t/bad").exit_code == ExitCode.REFUSED
    stage.cli.ok("fs", "stage", f"{MAIN}/t/own", "--location", beside, *options)
    assert stage.cli.ok("fs", "cat", f"{MAIN}/t/bad").stdout_bytes == CANARY
    for location in (f"{stage.bucket}/lake/../team/secret", stage.bucket + "/lake"):
        refused = stage.cli("fs", "stage", f"{MAIN}/t/x", "--location", location, *options)
        assert refused.exit_code == ExitCode.REFUSED, refused
    stage.cli.ok("commit", MAIN, "-m", "staged")
    (stage.cli.directory / "x.csv").write_text(
        "path,physical_address,size,checksum\n"
        f"a,{stage.bucket}/team/../team/secret,{len(CANARY)},e\n"
    )
    listed = stage.cli("import", "--from", stage.cli.directory / "x.csv", "--to", f"{MAIN}/in/")
    assert listed.exit_code == ExitCode.PARTIAL
    assert "only the whole bucket" in listed.stderr


def test_copying_to_a_repository_allows_no_more_than_the_source_reads(stage: Stage) -> None:
    if stage.namespace.startswith("local://"):
        return
    stage.plant("other prefix")
    stage.cli.ok("config", "set", "repo.demo.trust.addresses", f"{stage.bucket}/team/secret")
    stage.cli.ok("repo", "create", "lakefs://copy", f"{stage.bucket}/copies")
    stage.cli.ok("fs", "cp", f"{MAIN}/t/bad", "lakefs://copy/main/a")
    assert stage.cli.ok("fs", "cat", "lakefs://copy/main/a").stdout_bytes == CANARY
    with lakecli.open("lakefs://copy") as copy, copy.lake.kv.read() as txn:
        assert remembered(txn, copy) == (f"{stage.bucket}/team/secret",)
