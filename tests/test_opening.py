from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

import lakecli
from lakecli import opening
from lakecli.base.model import RefKind
from lakecli.errors import LakeError, LostRace, NotFound, UsageError
from lakecli.kv.local_store import LocalStore
from lakecli.remote.refs import find_ref
from lakecli.repository import branch, repo
from lakecli.repository.clone import clone
from lakecli.repository.commit import commit
from lakecli.repository.handle.lake import Lake
from lakecli.repository.push import PushOptions, push
from lakecli.repository.reading.contents import read_object
from lakecli.repository.runtime import Home, Runtime
from lakecli.repository.stat import stat
from lakecli.repository.upload import UploadOptions, upload_file
from lakecli.settings.home import home_paths, read_file, set_value
from tests.support.clones import machine, make_commit
from tests.support.lakes import Numbered, Ticking

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakecli.base.directories import StrPath
    from lakecli.repository.contract import Repository

ME = PushOptions(who="Me <me@example.com>")


def test_without_a_home_reading_needs_none_and_writing_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(user: int) -> None:
        raise KeyError(user)

    monkeypatch.setattr("pwd.getpwuid", unknown)
    paths = home_paths(None, {})
    assert read_file(paths.config) == {}
    with pytest.raises(LakeError) as raised:
        LocalStore.open(paths.store)
    assert "set LAKECLI_HOME" in str(raised.value.hint)


def test_a_program_opens_a_repository_by_its_uri(tmp_path: Path) -> None:
    paths = home_paths(tmp_path / "home", {})
    with Lake.open(Home(paths.store, paths.cache), Runtime(Ticking(), Numbered())) as lake:
        repo.create(lake, "sales", str(tmp_path / "namespace"))
    source = tmp_path / "a.csv"
    source.write_text("a,b\n")

    with lakecli.open("lakefs://sales", home=tmp_path / "home") as sales:
        upload_file(sales, "main", b"in/a.csv", source=source, options=UploadOptions())
        made = commit(sales, "main", message="Orders", committer="etl")
        entry = stat(sales, "main@", b"in/a.csv")
        assert b"".join(read_object(sales, entry)) == b"a,b\n"
    with lakecli.open("lakefs://sales", home=tmp_path / "home") as sales:
        assert stat(sales, made.id, b"in/a.csv") == entry


def test_the_home_may_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = home_paths(tmp_path / "elsewhere", {})
    with Lake.open(Home(paths.store, paths.cache), Runtime(Ticking(), Numbered())) as lake:
        repo.create(lake, "sales", str(tmp_path / "namespace"))
    monkeypatch.setenv("LAKECLI_HOME", str(tmp_path / "elsewhere"))
    with lakecli.open("lakefs://sales") as sales:
        assert sales.name == "sales"
    with pytest.raises(NotFound):
        lakecli.open("lakefs://sales", home=tmp_path / "other")


def test_a_failed_open_leaves_nothing_open(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(NotFound):
            lakecli.open("lakefs://nowhere", home=tmp_path)
    with pytest.raises(UsageError):
        lakecli.open("lakefs://sales/main", home=tmp_path)


def test_the_default_home_is_that_of_the_platform(home: Path) -> None:
    paths = home_paths(None, os.environ)
    assert paths.config == f"{home}/.config/lakecli/config.toml"
    assert paths.store == f"{home}/.local/share/lakecli/store"
    assert paths.cache == f"{home}/.cache/lakecli"


@pytest.mark.parametrize("given", ["x", "~/x", ""])
def test_a_relative_xdg_directory_is_ignored(home: Path, given: str) -> None:
    names = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")
    environ = dict(os.environ) | dict.fromkeys(names, given)
    assert home_paths(None, environ) == home_paths(None, os.environ)


def test_an_absolute_xdg_directory_is_used(home: Path) -> None:
    environ = {"HOME": str(home), "XDG_DATA_HOME": "/data"}
    assert home_paths(None, environ).store == "/data/lakecli/store"


@pytest.mark.parametrize("root", ["", "here"])
def test_without_an_absolute_home_the_user_database_names_it(root: str) -> None:
    found = home_paths(None, {"HOME": root})
    assert found == home_paths(None, {"HOME": pwd.getpwuid(os.getuid()).pw_dir})


def test_the_default_home_on_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakecli.settings.home._PLATFORM", "darwin")
    paths = home_paths(None, {"HOME": "/Users/ada"})
    assert paths.config == "/Users/ada/Library/Application Support/lakecli/config.toml"
    assert paths.store == "/Users/ada/Library/Application Support/lakecli/store"
    assert paths.cache == "/Users/ada/Library/Caches/lakecli"


class TestSync:
    """`lakecli.open` with the setting ``sync``, or the argument of that name."""

    @pytest.fixture
    def home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Return the home of Ada, who has shared a repository with Bob."""
        monkeypatch.setenv("LAKECLI_USER_NAME", "Ada")
        monkeypatch.setenv("LAKECLI_USER_EMAIL", "ada@example.com")
        home = tmp_path / "home"
        paths = home_paths(home, {})
        with Lake.open(Home(paths.store, paths.cache), Runtime(Ticking(), Numbered())) as lake:
            made = repo.create(lake, "sales", str(tmp_path / "namespace"))
            make_commit(made, b"first")
            push(made, "main", options=ME)
        return home

    @pytest.fixture
    def bob(self, home: Path, tmp_path: Path) -> Iterator[Repository]:
        del home
        with machine(tmp_path, "bob") as lake:
            yield clone(lake, str(tmp_path / "namespace"), "sales")

    @pytest.mark.parametrize("by", ["argument", "environment", "file"])
    def test_a_commit_is_shared(
        self, home: Path, bob: Repository, by: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if by == "environment":
            monkeypatch.setenv("LAKECLI_SYNC", "auto")
        elif by == "file":
            Path(home_paths(home, {}).config).write_text('[repo.sales]\nsync = "auto"\n')
        theirs = make_commit(bob, b"bob's")
        push(bob, "main", options=ME)
        sync: Literal["auto"] | None = "auto" if by == "argument" else None
        with lakecli.open("lakefs://sales", home=home, sync=sync) as sales:
            assert branch.show(sales, "main").commit_id == theirs.id
            made = make_commit(sales, b"mine")
            assert position_there(bob) == made.id
            branch.create(sales, "dev", source="main")
            assert position_there(bob, "dev") is None
        assert position_there(bob, "dev") == made.id

    @pytest.mark.parametrize("sync", [None, "manual"])
    def test_nothing_is_shared_where_sync_is_manual(
        self,
        home: Path,
        bob: Repository,
        sync: Literal["manual"] | None,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        if sync is not None:
            monkeypatch.setenv("LAKECLI_SYNC", "auto")
        before = position_there(bob)
        with lakecli.open("lakefs://sales", home=home, sync=sync) as sales:
            make_commit(sales, b"mine")
            branch.create(sales, "dev", source="main")
        assert position_there(bob) == before
        assert position_there(bob, "dev") is None

    def test_after_an_error_the_next_command_sends_what_was_moved(
        self, home: Path, bob: Repository
    ) -> None:
        def fail() -> None:
            with lakecli.open("lakefs://sales", home=home, sync="auto") as sales:
                branch.create(sales, "dev", source="main")
                raise KeyError

        with pytest.raises(KeyError):
            fail()
        assert position_there(bob, "dev") is None
        with lakecli.open("lakefs://sales", home=home, sync="auto"):
            assert position_there(bob, "dev") is not None

    def test_what_others_made_first_is_reported_and_undone_here(
        self, home: Path, bob: Repository
    ) -> None:
        def create_both() -> None:
            with lakecli.open("lakefs://sales", home=home, sync="auto") as sales:
                branch.create(sales, "dev", source="main~1")
                branch.create(bob, "dev", source="main")
                push(bob, "dev", options=ME)

        with pytest.raises(LostRace, match="this is undone here: branch create"):
            create_both()
        assert position_there(bob, "dev") == branch.show(bob, "dev").commit_id
        with lakecli.open("lakefs://sales", home=home, sync="manual") as sales:
            assert [each.name for each in branch.iter_branches(sales)] == ["main"]

    def test_a_bucket_that_cannot_be_reached_is_a_notice(self, home: Path, tmp_path: Path) -> None:
        namespace = tmp_path / "namespace"
        away = namespace.rename(tmp_path / "not mounted")
        with lakecli.open("lakefs://sales", home=home, sync="auto") as sales:
            (notice,) = sales.notices
            assert "not fetched, this is as of the last time" in notice.message
            assert branch.show(sales, "main").commit_id
        away.rename(namespace)

    def test_a_word_that_is_neither_is_refused(self, home: Path) -> None:
        with pytest.raises(UsageError, match="neither auto nor manual"):
            lakecli.open("lakefs://sales", home=home, sync="always")  # type: ignore[arg-type]


def position_there(repository: Repository, name: str = "main") -> str | None:
    ref = find_ref(repository.store, RefKind.BRANCH, name)
    return None if ref is None else ref.commit_id


def test_the_settings_are_parsed_again_only_after_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[StrPath] = []

    def read(path: StrPath) -> Mapping[str, str]:
        reads.append(path)
        return read_file(path)

    monkeypatch.setattr(opening, "read_file", read)
    file = home_paths(tmp_path, {}).config
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    set_value(file, "trust.addresses", "s3://one")
    for _ in range(3):
        assert opening.settings_of(tmp_path).trusted("sales") == ("s3://one",)
    assert reads == [file]
    set_value(file, "trust.addresses", "s3://two")
    assert opening.settings_of(tmp_path).trusted("sales") == ("s3://two",)
    Path(file).unlink()
    assert opening.settings_of(tmp_path).trusted("sales") == ()
