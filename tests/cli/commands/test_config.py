from __future__ import annotations

import json
import os
import stat
import subprocess
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from lakecli.cli.context import Context, Environment
from lakecli.cli.exit_codes import ExitCode
from lakecli.cli.line import Globals
from lakecli.errors import UsageError
from lakecli.settings.keys import (
    KEYS,
    parse_count,
    parse_duration,
    parse_email,
    parse_name,
    parse_size,
    parse_text,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.golden import Cli, Golden


@pytest.fixture
def file(home: Path) -> Path:
    path = home / "lakecli" / "config.toml"
    path.parent.mkdir()
    return path


def context(**flags: object) -> Context:
    import sys

    given = Globals()
    for name, value in flags.items():
        setattr(given, name, value)
    return Context(Environment(dict(os.environ), sys.stdin, sys.stdout, sys.stderr), given)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("12h", 43200), (" 7d ", 604800)]
)
def test_durations_are_parsed(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "5", "h", "-1h", "1.5h", "0s", "1h30m", "9" * 30 + "d", "999999d", "٣h"]
)
def test_malformed_durations_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1024", 1024),
        ("500 MB", 500_000_000),
        ("10 GiB", 10 << 30),
        ("1.5kb", 1500),
        ("2t", 2 * 10**12),
        ("7B", 7),
    ],
)
def test_sizes_are_parsed(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "big", "-1", "1 XB", "1,5 GB", "GB", "1 iB"])
def test_malformed_sizes_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a size"):
        parse_size(text)


def test_counts_and_texts_are_parsed() -> None:
    assert parse_count(" 8 ") == 8
    assert parse_text(" Ada ") == "Ada"
    for text in ("0", "-1", "x", "1.0", "²"):
        with pytest.raises(UsageError):
            parse_count(text)
    for text in ("", " ", "a\nb", "\x1b"):
        with pytest.raises(UsageError):
            parse_text(text)


@pytest.mark.parametrize(
    "name",
    [
        "Ada",
        "\u0645\u062d\u0645\u062f\u200c\u0631\u0636\u0627",
        "ශ්\u200dරී",
        "山田\u3000太郎",
        "Jean\xa0Paul",
        "👩\u200d💻",
    ],
)
def test_a_name_has_what_its_script_needs(cli: Cli, name: str) -> None:
    assert parse_name(f" {name} ") == name
    cli.ok("config", "set", "user.name", name)
    assert json.loads(cli.ok("config", "get", "user.name", "--json").stdout)["value"] == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "\u3000",
        "a\u200cb",
        "م\u200c",
        "م\u200c ر",
        "م\u200c\u200cر",
        "\u202eada",
        "a\u200bb",
        "a\nb",
    ],
)
def test_a_name_hides_nothing(name: str) -> None:
    with pytest.raises(UsageError, match="not a line of text"):
        parse_name(name)


@pytest.mark.parametrize(
    ("key", "value"), [("gc.grace", "1h"), ("gc.grace", "99999d"), ("base_uri", "demo/main")]
)
def test_a_value_that_no_command_can_use_is_not_set(cli: Cli, key: str, value: str) -> None:
    assert cli("config", "set", key, value).exit_code == ExitCode.USAGE
    assert value not in cli.ok("config", "list").stdout


def test_an_email_has_one_at_and_no_blanks(cli: Cli) -> None:
    assert parse_email(" ada@localhost ") == "ada@localhost"
    for text in ("ada", "@b.org", "ada@", "a@b@c", "a da@b.org", "<ada@b.org>"):
        with pytest.raises(UsageError, match="not an e-mail address"):
            parse_email(text)
    refused = cli("config", "set", "user.email", "ada lovelace")
    assert (refused.exit_code, refused.stderr) == (
        ExitCode.USAGE,
        "error: not an e-mail address: 'ada lovelace'\nhint: write ada@example.com\n",
    )
    assert cli("config", "get", "user.email").stdout.strip() == ""


def test_every_key_has_a_default_and_an_example_it_reads() -> None:
    for key in KEYS:
        assert key.parse(key.example) is not None, key.name
        if key.default is not None:
            assert key.parse(key.default) is not None, key.name


def test_values_come_from_flag_environment_file_default_in_that_order(
    cli: Cli, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def base_uri(*flags: str) -> dict[str, object]:
        lines = cli.ok("config", "list", "--show-origin", "--json", *flags).json_lines
        return next(line for line in lines if line["key"] == "base_uri")

    assert base_uri() == {"key": "base_uri", "value": None, "origin": "default", "place": None}
    file.write_text('base_uri = "lakefs://file/"\n')
    assert base_uri()["value"] == "lakefs://file/"
    assert base_uri()["place"] == str(file)
    monkeypatch.setenv("LAKECLI_BASE_URI", "lakefs://environment/")
    assert base_uri()["value"] == "lakefs://environment/"
    assert base_uri()["place"] == "LAKECLI_BASE_URI"
    assert base_uri("--base-uri", "lakefs://flag/")["value"] == "lakefs://flag/"
    assert base_uri("--base-uri", "lakefs://flag/")["place"] == "--base-uri"
    monkeypatch.setenv("LAKECLI_BASE_URI", "")
    assert base_uri()["value"] == "lakefs://file/"


def test_list_prints_all_settings(
    cli: Cli, file: Path, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text('[user]\nname = "Ada"\n[transfer]\nparallelism = 8\n')
    monkeypatch.setenv("LAKECLI_CACHE_SIZE", "2 GiB")
    golden(
        "config_list",
        cli("config", "list"),
        cli("config", "list", "--show-origin"),
        cli("config", "list", "--show-origin", "--json"),
        cli("config", "list", "--json"),
    )
    assert cli("config", "list", terminal=True).lines[1].split() == ["user.name", "Ada"]


def test_a_setting_is_set_read_and_removed(cli: Cli, golden: Golden) -> None:
    golden(
        "config_set_get_unset",
        cli("config", "get", "user.name"),
        cli("config", "set", "user.name", "Ada"),
        cli("config", "get", "user.name"),
        cli("config", "get", "user.name", "--json"),
        cli("config", "set", "user.name", "Grace", "--json"),
        cli("config", "unset", "user.name", "--json"),
        cli("config", "unset", "user.name"),
        cli("config", "get", "cache.size"),
        cli("config", "get", "user.nam"),
        cli("config", "set", "nonsense", "1"),
        cli("config", "unset", "nonsense"),
        cli("config", "set", "cache.size", "plenty"),
        cli("config", "set", "presign.expires", "12h"),
        cli("config", "get", "presign.expires"),
    )


def test_set_keeps_comments_and_other_settings(cli: Cli, file: Path) -> None:
    file.write_text('# mine\nbase_uri="x" # why\n\n[user] # me\nname = "Ada"  # Lovelace\n')
    cli.ok("config", "set", "user.name", 'A "quoted" name')
    cli.ok("config", "set", "transfer.parallelism", "8")
    cli.ok("config", "set", "user.email", "a@b.org")
    assert file.read_text() == (
        '# mine\nbase_uri="x" # why\n\n[user] # me\nname = "A \\"quoted\\" name"  # Lovelace\n'
        'email = "a@b.org"\n\n[transfer]\nparallelism = 8\n'
    )
    for name in ("user.name", "user.email", "transfer.parallelism", "base_uri"):
        cli.ok("config", "unset", name)
    assert "[user]" not in file.read_text()
    assert "# mine" in file.read_text()


def test_set_writes_a_private_file_in_one_step(cli: Cli, home: Path) -> None:
    target = home / "dotfiles.toml"
    (home / "lakecli").mkdir()
    (home / "lakecli" / "config.toml").symlink_to(target)
    cli.ok("config", "set", "user.name", "Ada")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert (home / "lakecli" / "config.toml").is_symlink()
    assert [path.name for path in home.iterdir() if "tmp" in path.name] == []


def test_set_warns_if_a_variable_overrides_it(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKECLI_USER_NAME", "Grace")
    result = cli.ok("config", "set", "user.name", "Ada")
    assert result.stderr == "warning: LAKECLI_USER_NAME still overrides user.name\n"
    assert cli.ok("config", "get", "user.name").stdout == "Grace\n"


def test_set_warns_if_a_file_of_lakectl_overrides_it(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "lakectl.yaml"
    file.write_text("base_uri: lakefs://other/\n")
    monkeypatch.setenv("LAKECTL_CONFIG_FILE", str(file))
    result = cli.ok("config", "set", "base_uri", "lakefs://demo/")
    assert result.stderr == f"warning: {file} still overrides base_uri\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[user\n", "line 1"),
        ("\n\nuser.name = 'a' 'b'\n", "line 3"),
        ("[user]\nname = 1\nnmae = 'x'\n", "line 3"),
        ("# user\n[cache]\nsize = true\n", "line 3"),
        ("[users]\nname = 'x'\n", "line 1"),
        ("[user.name]\nx = 1\n", "line 1"),
        ("user.name.first = 'x'\n", "user.name"),
        ("user = 3\n", "line 1"),
        ("\xff", "not UTF-8"),
    ],
)
def test_malformed_files_are_refused(cli: Cli, file: Path, text: str, told: str) -> None:
    file.write_bytes(text.encode("latin-1"))
    before = file.read_bytes()
    for argv in ("config list", "config set user.name x", "config unset user.name"):
        result = cli(*argv.split())
        assert result.exit_code == ExitCode.USAGE
        assert str(file) in result.stderr
        assert told in result.stderr
    assert file.read_bytes() == before


def test_malformed_values_are_refused_with_their_place(cli: Cli, file: Path) -> None:
    file.write_text("[cache]\nsize = 'plenty'\n")
    with pytest.raises(UsageError) as caught:
        _ = context().settings.cache_sizes
    assert caught.value.message == f"cache.size in {file}: not a size: 'plenty'"
    os.environ["LAKECLI_PRESIGN_EXPIRES"] = "soon"
    with pytest.raises(UsageError, match="in LAKECLI_PRESIGN_EXPIRES: not a duration"):
        _ = context().settings.presign_expires


def test_config_names_another_file(cli: Cli, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    result = cli("config", "list", "--config", other)
    assert (result.exit_code, result.stderr) == (6, f"error: no configuration file {other}\n")
    cli.ok("config", "set", "user.name", "Ada", "--config", other)
    assert cli.ok("--config", other, "config", "get", "user.name").stdout == "Ada\n"
    assert cli("config", "get", "user.name").exit_code == ExitCode.NOT_FOUND


def test_an_unwritable_home_is_refused(cli: Cli, home: Path) -> None:
    (home / "file").write_text("")
    result = cli("config", "set", "user.name", "A", env={"LAKECLI_HOME": str(home / "file")})
    assert result.exit_code == ExitCode.PERMISSION
    assert result.stderr.startswith(f"error: cannot write {home}/file/config.toml: ")


def test_homes_are_found(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert context().home == (
        f"{home}/lakecli/config.toml",
        f"{home}/lakecli/store",
        f"{home}/lakecli/cache",
    )
    monkeypatch.delenv("LAKECLI_HOME")
    assert context().home == (
        f"{home}/.config/lakecli/config.toml",
        f"{home}/.local/share/lakecli/store",
        f"{home}/.cache/lakecli",
    )


def test_settings_have_types() -> None:
    settings = context().settings
    assert settings.user_name is None
    assert settings.user_email is None
    assert settings.base_uri == ""
    assert settings.cache_sizes == (10 << 30, 1 << 30)
    assert settings.transfer_parallelism == 25
    assert settings.presign_expires == timedelta(minutes=15)


def test_the_committer_comes_from_settings_git_or_user(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "ada")
    assert context().committer() == f"ada@{os.uname().nodename}"
    git = ["git", "config", "--file", str(home / ".gitconfig")]
    subprocess.run([*git, "user.email", "git@b.org"], check=True)
    assert context().committer() == "git@b.org"
    subprocess.run([*git, "user.name", "Git Name"], check=True)
    assert context().committer() == "Git Name <git@b.org>"
    monkeypatch.setenv("LAKECLI_USER_NAME", "Ada")
    assert context().committer() == "Ada <git@b.org>"
    cli.ok("config", "set", "user.email", "a@b.org")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert context().committer() == "Ada <a@b.org>"
    monkeypatch.delenv("LAKECLI_USER_NAME")
    assert context().committer() == "a@b.org"


def test_a_repository_may_sync_where_others_do_not(file: Path, cli: Cli) -> None:
    assert cli("config", "set", "repo.my-lake.sync", "auto").exit_code == ExitCode.OK
    assert cli("config", "set", "user.name", "Ada").exit_code == ExitCode.OK
    settings = context().settings
    assert settings.sync("my-lake")
    assert not settings.sync("other")
    assert "repo.my-lake.sync\tauto" in cli("config", "list").stdout
    assert '[repo.my-lake]\nsync = "auto"\n' in file.read_text()
    assert cli("config", "unset", "repo.my-lake.sync").exit_code == ExitCode.OK
    assert file.read_text() == '[user]\nname = "Ada"\n'


def test_the_environment_overrides_all_repositories(
    file: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text('[repo.my-lake]\nsync = "auto"\n')
    monkeypatch.setenv("LAKECLI_SYNC", "manual")
    assert not context().settings.sync("my-lake")
    monkeypatch.setenv("LAKECLI_SYNC", "auto")
    assert context().settings.sync("other")


@pytest.mark.parametrize("text", ['[repo]\nsync = "auto"\n', "[repo.my-lake]\nsink = 1\n"])
def test_a_repository_has_only_some_settings(text: str, file: Path, cli: Cli) -> None:
    file.write_text(text)
    answer = cli("config", "list")
    assert answer.exit_code == ExitCode.USAGE
    assert "no setting" in answer.stderr


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("repo.my-lake.profil", "did you mean repo.my-lake.profile?"),
        ("repo.x.profile", "'x' is not the name of a repository"),
        ("repo.my-lake", "one of repo.my-lake.sync, repo.my-lake.trust.addresses, "),
        ("repo.", "one of repo.NAME.sync, repo.NAME.trust.addresses, repo.NAME.profile"),
    ],
)
def test_a_mistake_in_a_setting_of_a_repository_has_a_hint(cli: Cli, key: str, hint: str) -> None:
    answer = cli("config", "set", key, "x")
    assert answer.exit_code == ExitCode.USAGE
    assert f"hint: {hint}" in answer.stderr
