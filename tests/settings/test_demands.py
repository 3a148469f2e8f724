"""The settings of what buckets demand: a value for all buckets, and values for single ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakecli.base.model import Account, Demand
from lakecli.errors import UsageError
from lakecli.settings.home import read_file, set_value
from lakecli.settings.keys import KEYS, find_key
from lakecli.settings.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping


def account(file: Mapping[str, str], **environ: str) -> Account:
    settings = Settings(flags={}, environ=environ, read_file=lambda: file, file="config.toml")
    return settings.account("demo")


def test_every_demand_is_a_setting_whose_example_is_one() -> None:
    names = {key.name for key in KEYS}
    for demand in Demand:
        assert demand in names
        assert find_key(demand).parse(find_key(demand).example)


def test_the_value_of_a_bucket_counts_before_that_of_all() -> None:
    found = account({"s3.sse": "AES256 s3://lake/=aws:kms", "az.encryption-scope": "az://a/c=one"})
    assert found.demand(Demand.S3_SSE, "s3://other") == "AES256"
    assert found.demand(Demand.S3_SSE, "s3://lake") == "aws:kms"
    assert found.demand(Demand.S3_KMS_KEY, "s3://lake") == ""
    assert found.demand(Demand.AZ_SCOPE, "az://a/c") == "one"
    assert found.demand(Demand.AZ_SCOPE, "az://a/d") == ""


def test_variables_write_dashes_as_underscores() -> None:
    found = account({"s3.requester-pays": "false"}, LAKECLI_S3_REQUESTER_PAYS="s3://b=true")
    assert found.demands == ((Demand.S3_PAYER, "s3://b", "true"),)
    assert find_key("s3.sse-kms-key-id").variable == "LAKECLI_S3_SSE_KMS_KEY_ID"


def test_a_repository_without_a_clone_has_them_too() -> None:
    settings = Settings(
        flags={}, environ={}, read_file=lambda: {"gs.user-project": "payer"}, file="f"
    )
    assert settings.account("s3://b/p").demand(Demand.GS_PROJECT, "gs://b") == "payer"


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("s3.sse", "kms", "not an encryption: 'kms'"),
        ("s3.sse", "s3://b=", "not an encryption: ''"),
        ("s3.sse", "gs://b=AES256", "not a bucket: 'gs://b'"),
        ("s3.sse", "s3://b/prefix=AES256", "not a bucket: 's3://b/prefix'"),
        ("az.encryption-scope", "az://account=scope", "not a bucket: 'az://account'"),
        ("s3.sse-kms-key-id", "s3://b=a\r\nb", "not a line of text"),
        ("s3.requester-pays", "yes", "not true or false: 'yes'"),
        ("gs.kms-key", "key", "not a key: 'key'"),
        ("gs.user-project", "My Project", "not a project: 'My'"),
        ("s3.sse", "aws:kms AES256", "two values for all buckets"),
        ("s3.sse", "s3://b=aws:kms s3://b/=AES256", "two values for 's3://b'"),
    ],
)
def test_malformed_values_are_refused(name: str, text: str, what: str) -> None:
    with pytest.raises(UsageError) as error:
        find_key(name).parse(text)
    assert error.value.message.startswith(what)


def test_the_file_may_have_truth_values_and_lists(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[s3]\nanonymous = true\nsse = ["aws:kms", "s3://b=AES256"]\n')
    set_value(file, "s3.requester-pays", "s3://b=true")
    assert read_file(file) == {
        "s3.anonymous": "true",
        "s3.sse": "aws:kms s3://b=AES256",
        "s3.requester-pays": "s3://b=true",
    }


def test_directories_may_be_a_list(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[local]\ntrust = ["/srv/a", "/srv/b c"]\n')
    assert find_key("local.trust").parse(read_file(file)["local.trust"]) == ("/srv/a", "/srv/b c")
