"""``lakecli serve``: what it prints, what it refuses, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tomllib
import webbrowser
from configparser import ConfigParser
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from lakecli.cli.commands.serve import _bucket_of
from lakecli.cli.exit_codes import ExitCode
from lakecli.serving import server
from lakecli.serving.clients import ClientKind, EndpointAddress, lines_for
from lakecli.serving.context import ServingContext

if TYPE_CHECKING:
    from tests.support.golden import Cli

KEYS = {"LAKECLI_SERVE_ACCESS_KEY": "LAKECLIADA", "LAKECLI_SERVE_SECRET_KEY": "0123456789abcdef"}


class Started:
    """An endpoint that stops as soon as it has started, and what it was made from."""

    given: ServingContext
    tls: tuple[str, str] | None
    is_idle = True

    def __call__(
        self, context: ServingContext, bound: socket.socket, *, tls: Any, report: Any, started: Any
    ) -> Started:
        self.given, self.tls, self._bound, self._started = context, tls, bound, started
        self.report = report
        return self

    def run_until_stopped(self) -> bool:
        self._bound.close()
        self._started()
        self.names = self.given.served.names()
        return self.is_idle


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    found = Started()
    monkeypatch.setattr(server, "Endpoint", found)
    return found


@pytest.fixture
def sales(cli: Cli) -> str:
    for name in ("sales", "demo"):
        cli.ok("repo", "create", f"lakefs://{name}", str(cli.directory / name))
    return "sales"


def test_it_prints_how_to_connect(cli: Cli, sales: str, started: Started) -> None:
    done = cli.ok("serve", "--port", "0")
    assert started.names == ["demo", sales]
    assert done.lines[0] == "Serving demo, sales"
    assert done.lines[1] == f"Address: {started.given.options.url}"
    assert started.given.access.access_key in done.stdout
    assert started.given.access.secret in done.stdout
    assert "endpoint_url: " in done.stdout
    assert not done.stderr


def test_it_answers_in_json(cli: Cli, sales: str, started: Started) -> None:
    done = cli.ok("serve", sales, "--port", "0", "--read-only", "--committed", "--json").json
    given = started.given
    assert done["url"] == given.options.url
    assert done["page"].startswith(f"{given.options.url}/?token=")
    assert done["access_key"] == given.access.access_key
    assert done["secret_key"] == given.access.secret
    assert done["repositories"] == [sales]
    assert done["read_only"] is True
    assert given.served.read_only
    assert given.served.committed
    assert given.access.begin_session(done["page"].partition("token=")[2])


def test_each_run_has_a_key_pair_of_its_own(cli: Cli, sales: str) -> None:
    first, second = (cli.ok("serve", sales, "--port", "0", "--json").json for _ in range(2))
    assert first["access_key"] != second["access_key"]
    assert first["secret_key"] != second["secret_key"]
    own = cli.ok("serve", sales, "--port", "0", "--json", "--access-key", "ADA").json
    assert own["access_key"] == "ADA"
    assert len(own["secret_key"]) == 40


def test_the_settings_keep_a_key_pair(cli: Cli, sales: str) -> None:
    cli.ok("config", "set", "serve.access-key", "LAKECLIADA")
    half = cli("serve", sales, "--port", "0")
    assert half.exit_code == ExitCode.USAGE
    assert "serve.secret-key is not set" in half.stderr
    cli.ok("config", "set", "serve.secret-key", "0123456789abcdef")
    done = cli.ok("serve", sales, "--port", "0", "--json").json
    assert (done["access_key"], done["secret_key"]) == ("LAKECLIADA", "0123456789abcdef")


def test_lists_of_settings_do_not_show_the_secret(cli: Cli, home: Path) -> None:
    cli.ok("config", "set", "serve.secret-key", "0123456789abcdef")
    for arguments in ((), ("--show-origin",), ("--json",)):
        listed = cli.ok("config", "list", *arguments).stdout
        assert "0123456789abcdef" not in listed
        assert "********" in listed
    assert cli.ok("config", "get", "serve.secret-key").stdout == "0123456789abcdef\n"
    file = home / "lakecli" / "config.toml"
    assert tomllib.loads(file.read_text())["serve"] == {"secret-key": "0123456789abcdef"}
    assert not file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)


@pytest.mark.parametrize("secret", ["short", "0123456789 abcdef", "0123456789'abcdef"])
def test_a_secret_that_clients_cannot_quote_is_refused(cli: Cli, secret: str) -> None:
    done = cli("config", "set", "serve.secret-key", secret)
    assert done.exit_code == ExitCode.USAGE
    assert secret not in done.stderr


@pytest.mark.parametrize("kind", ClientKind)
def test_the_lines_of_one_client_need_no_endpoint_if_the_keys_are_known(
    cli: Cli, sales: str, kind: str, started: Started
) -> None:
    done = cli("serve", sales, "--print", kind, env=KEYS)
    assert done.exit_code == 0
    assert not hasattr(started, "given")
    assert "LAKECLIADA" in done.stdout
    assert "0123456789abcdef" in done.stdout
    assert "127.0.0.1:8000" in done.stdout
    assert ":9000" in cli("serve", "--print", kind, "--port", "9000", env=KEYS).stdout


def test_the_lines_of_one_client_have_the_url_of_the_endpoint(cli: Cli, sales: str) -> None:
    tls = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"]
    done = cli("serve", sales, "--host", "::1", *tls, "--print", "env", env=KEYS)
    assert done.lines[0] == "export AWS_ENDPOINT_URL_S3=https://[::1]:8000"
    unknown = cli("serve", sales, "--port", "0", "--print", "env", env=KEYS)
    assert unknown.exit_code == ExitCode.USAGE
    assert "--port 0" in unknown.stderr
    half = cli("serve", sales, *tls[:2], "--print", "env", env=KEYS)
    assert (half.exit_code, "--tls-key" in half.stderr) == (ExitCode.USAGE, True)


def test_the_lines_of_one_client_come_of_an_endpoint_otherwise(
    cli: Cli, sales: str, started: Started
) -> None:
    done = cli.ok("serve", sales, "--port", "0", "--print", "env")
    assert done.lines == [
        f"export AWS_ENDPOINT_URL_S3={started.given.options.url}",
        f"export AWS_ACCESS_KEY_ID={started.given.access.access_key}",
        f"export AWS_SECRET_ACCESS_KEY={started.given.access.secret}",
        "export AWS_DEFAULT_REGION=us-east-1",
        "export AWS_ALLOW_HTTP=true",
    ]


def test_the_lines_are_in_the_languages_of_the_clients() -> None:
    to = EndpointAddress("http://127.0.0.1:8000", "KEY", "secret", bucket="sales")
    text = {kind: "\n".join(lines_for(kind, to)) for kind in ClientKind}
    for kind in (ClientKind.BOTO3, ClientKind.POLARS):
        compile(text[kind], kind, "exec")
    for kind in (ClientKind.AWS, ClientKind.RCLONE):
        parsed = ConfigParser()
        parsed.read_string(text[kind])
        assert len(parsed.sections()) == 1
    assert yaml.safe_load(text[ClientKind.LAKECTL]) == {
        "credentials": {"access_key_id": "KEY", "secret_access_key": "secret"},
        "server": {"endpoint_url": "http://127.0.0.1:8000/api/v1"},
    }
    assert "USE_SSL false" in text[ClientKind.DUCKDB]
    secure = to._replace(url="https://lake.example:8000")
    assert "USE_SSL true" in "\n".join(lines_for(ClientKind.DUCKDB, secure))


def test_the_browser_is_opened_on_request(
    cli: Cli, sales: str, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    cli.ok("serve", sales, "--port", "0")
    assert opened == []
    cli.ok("serve", sales, "--port", "0", "--open")
    (page,) = opened
    assert page.startswith(f"{started.given.options.url}/?token=")


def test_another_address_needs_a_certificate(cli: Cli, sales: str, started: Started) -> None:
    done = cli("serve", sales, "--host", "0.0.0.0", "--port", "0")
    assert done.exit_code == ExitCode.USAGE
    assert "--tls-cert FILE --tls-key FILE" in done.stderr
    done = cli("serve", sales, "--tls-cert", "cert.pem")
    assert done.exit_code == ExitCode.USAGE
    cli.ok(
        *("serve", sales, "--host", "0.0.0.0", "--port", "0"),
        *("--tls-cert", "cert.pem", "--tls-key", "key.pem"),
    )
    assert started.tls == ("cert.pem", "key.pem")
    assert started.given.options.url.startswith("https://0.0.0.0:")
    assert started.given.options.hosts == frozenset()
    assert started.given.options.url.startswith("https:")


def test_repositories_are_named_in_three_ways(cli: Cli, sales: str, started: Started) -> None:
    namespace = cli.directory / "demo"
    done = cli.ok("serve", sales, str(namespace), "--port", "0", "--json").json
    assert done["repositories"] == ["demo", sales]
    assert started.given.served.repository("demo").uri == f"local://{namespace}"
    assert cli.ok("serve", "lakefs://sales/", "--port", "0", "--json").json["repositories"] == [
        sales
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["none"], ExitCode.NOT_FOUND, "no repository 'none'"),
        (["lakefs://sales/main"], ExitCode.USAGE, "expected a repository"),
        (["sales", "sales"], ExitCode.USAGE, "would be the bucket 'sales'"),
        (["/nowhere/at/all"], ExitCode.NOT_FOUND, "/nowhere/at/all"),
        (["sales", "--access-key", "a b"], ExitCode.USAGE, "not an access key"),
        (["sales", "--port", "70000"], ExitCode.USAGE, "no port 70000"),
        (["sales", "--port", "-1"], ExitCode.USAGE, "--port"),
        (["sales", "--print", "fax"], ExitCode.USAGE, "fax"),
    ],
)
def test_what_cannot_be_served(
    cli: Cli, sales: str, arguments: list[str], code: ExitCode, message: str
) -> None:
    assert sales
    done = cli("serve", *arguments)
    assert (done.exit_code, message in done.stderr) == (code, True), done


@pytest.mark.parametrize(
    ("namespace", "bucket"),
    [
        ("s3://bucket/sales", "sales"),
        ("s3://bucket/Sales_2026/", "sales-2026"),
        ("s3://bu", "repository-bu"),
        ("gs://bucket/-", "repository"),
        (f"/x/{'y' * 100}", "y" * 63),
    ],
)
def test_the_bucket_of_a_namespace(namespace: str, bucket: str) -> None:
    from lakecli.base.uri import LakeUri

    assert _bucket_of(LakeUri(namespace)) == bucket


def test_no_message_comes_twice_in_a_row(cli: Cli, sales: str, started: Started) -> None:
    from lakecli.repository.contract import Notice

    class Talking(Started):
        def run_until_stopped(self) -> bool:
            for text in ("one", "one", "two"):
                self.given.served._opening.notify(Notice(text, "a hint"))
            self.report(ZeroDivisionError("oops"))
            return super().run_until_stopped()

    talking = Talking()
    started.__class__ = Talking
    del talking
    done = cli.ok("serve", sales, "--port", "0")
    assert done.stderr.count("warning: one") == 1
    assert done.stderr.count("warning: two") == 1
    assert "internal error: ZeroDivisionError: oops" in done.stderr


def test_requests_that_hang_do_not_delay_the_end(
    cli: Cli, sales: str, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    started.is_idle = False
    cli.ok("serve", sales, "--port", "0")
    assert ended == [0]


def test_missing_packages_are_named(cli: Cli, sales: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lakecli.serving.server", None)
    monkeypatch.delattr("lakecli.serving.server")
    done = cli("serve", sales)
    assert done.exit_code == ExitCode.REFUSED
    assert "pip install '.[serve]'" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_within_a_second(sales: str, number: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "lakecli", "serve", sales, "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        host, _, port = said["url"].removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), timeout=10):
            began = monotonic()
            process.send_signal(number)
            _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")
    assert monotonic() - began < 3  # one second on an idle machine
