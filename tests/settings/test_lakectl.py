"""lakectl's configuration file: what is taken from it, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.base.parsing import Unparsable, parse_yaml
from lakecli.errors import NotFound, UsageError
from lakecli.settings.lakectl import ignored_variables, read_lakectl_file, reason
from tests.support.forgeries import DOCUMENTS

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = """
credentials:
  access_key_id: AKIAIOSFODNN7EXAMPLE
  secret_access_key: "secret # not a comment"
server:
  endpoint_url: https://lakefs.example.com
  retries: {enabled: true, max_attempts: 4}
options:
  parallelism: 8
local:
  symlink_support: false
"""


def test_what_lakecli_has_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "lakectl.yaml"
    file.write_text(WHOLE)
    found = read_lakectl_file(file, required=True)
    assert found.values == {"transfer.parallelism": "8"}
    assert found.ignored == (
        "credentials.access_key_id",
        "credentials.secret_access_key",
        "server.endpoint_url",
        "server.retries.enabled",
        "server.retries.max_attempts",
        "local.symlink_support",
    )
    assert "server" in reason("server.endpoint_url")
    assert reason("SERVER_ENDPOINT_URL") == reason("server.endpoint_url")
    assert "no such setting" in reason("colour")


def test_a_missing_file_is_an_error_only_where_it_was_named(tmp_path: Path) -> None:
    assert read_lakectl_file(tmp_path / "none", required=False).values == {}
    with pytest.raises(NotFound, match="no configuration file"):
        read_lakectl_file(tmp_path / "none", required=True)


@pytest.mark.parametrize(
    "text",
    [
        "a: [",
        "- a\n- b",
        "just text",
        "a: *missing",
        "\x00",
        "[" * 5_000,
        "x" * (64 * 1024 + 1),
        "\n".join(f"k{number}: 1" for number in range(1_001)),
        # Each level has the one above it twice.
        "a0: &a0 {x: 1}\n"
        + "\n".join(f"a{n}: &a{n} {{x: *a{n - 1}, y: *a{n - 1}}}" for n in range(1, 40)),
        "a: &a\n  b: *a\n",
    ],
)
def test_what_is_malformed_or_huge_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "lakectl.yaml"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"malformed configuration of lakectl in .*: ."):
        read_lakectl_file(file, required=True)


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_a_forged_document_is_a_mapping_or_refused(name: str) -> None:
    try:
        text = DOCUMENTS[name].decode()
    except UnicodeDecodeError:
        return
    try:
        found = parse_yaml(text)
    except Unparsable:
        return
    assert isinstance(found, dict)


def test_no_tag_makes_an_object() -> None:
    assert parse_yaml("a: !!python/object/apply:os.system [ls]") == {"a": ["ls"]}


def test_variables_without_a_meaning_are_named() -> None:
    environ = {
        "LAKECTL_BASE_URI": "lakefs://r/",
        "LAKECTL_CONFIG_FILE": "x",
        "LAKECTL_INTERACTIVE": "false",
        "LAKECTL_OPTIONS_PARALLELISM": "3",
        "LAKECTL_SERVER_ENDPOINT_URL": "https://x",
        "LAKECLI_HOME": "/",
    }
    assert ignored_variables(environ) == ["LAKECTL_SERVER_ENDPOINT_URL"]
