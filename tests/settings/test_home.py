"""Edits of the configuration file: one setting changes, and nothing else."""

from __future__ import annotations

import errno
import os
import re
import tomllib
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.base import temporary_files
from lakecli.errors import PermissionDenied, Unreachable
from lakecli.settings.home import read_file, set_value, unset_value

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random
    from typing import BinaryIO

    from lakecli.errors import LakeError

NAMES = [
    *("user.name", "user.email", "base_uri", "cache.size", "cache.memory", "sync", "use"),
    *("trust.addresses", "repo.sales.profile", "repo.sales.region", "repo.sales.trust.addresses"),
    *("repo.users.profile", "repo.users.endpoint"),
]
VALUES = {
    "user.email": "ada@example.com",
    "base_uri": "lakefs://sales/main/",
    "cache.size": "5 GiB",
    "cache.memory": "64 MiB",
    "sync": "auto",
    "use": "lakefs://sales/main",
    "repo.users.endpoint": "https://s3.example.com",
    "repo.sales.region": "eu-central-1",
}
COMMENT = re.compile("# note [0-9]+")


@pytest.mark.parametrize(
    ("number", "error", "hint"),
    [
        (errno.ENOSPC, Unreachable, "free some space, and repeat the command"),
        (errno.EROFS, PermissionDenied, "mount it writable, or name another directory"),
        (errno.EACCES, PermissionDenied, None),
    ],
)
def test_a_disk_that_takes_no_settings_is_told_from_modes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    error: type[LakeError],
    hint: str | None,
) -> None:
    def fail(_: object) -> None:
        raise OSError(number, os.strerror(number))

    file = tmp_path / "config.toml"
    file.write_text("")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(error, match=f"cannot write {re.escape(str(file))}: [a-z]") as raised:
        set_value(file, "user.name", "Ada")
    assert raised.value.hint == hint
    assert [each.name for each in tmp_path.iterdir()] == ["config.toml"]
    assert not file.read_text()


class Writer:
    """Writes settings as TOML in the ways that people do."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._comments = 0
        self._sections: list[tuple[tuple[str, ...], list[str]]] = []

    def write(self, values: dict[str, str]) -> str:
        tree: dict[str, Any] = {}
        for name, value in values.items():
            table = tree
            *tables, leaf = name.split(".")
            for each in tables:
                table = table.setdefault(each, {})
            table[leaf] = value
        lines: list[str] = []
        self._table(tree, (), (), lines)
        self._random.shuffle(self._sections)
        for path, inside in self._sections:
            lines += [*self._maybe(["", "# note"]), f"[{self._key(path)}]", *inside]
        end = self._random.choice(["\n", ""])
        numbered = (f"{line} {n}" if line == "# note" else line for n, line in enumerate(lines))
        return self._random.choice(["\n", "\n", "\r\n"]).join(numbered) + end

    def _table(
        self, table: dict[str, Any], path: tuple[str, ...], dotted: tuple[str, ...], to: list[str]
    ) -> None:
        leaves = {name: value for name, value in table.items() if not isinstance(value, dict)}
        for name, value in leaves.items():
            to += [*self._maybe(["# note"]), f"{self._key((*dotted, name))} = {self._text(value)}"]
        for name, value in table.items():
            if name in leaves:
                continue
            below = (*path, name)
            way = self._random.choice(["dotted", "inline"] if dotted else ["dotted", "inline", ""])
            if way == "dotted":
                self._table(value, below, (*dotted, name), to)
            elif way == "inline":
                to.append(f"{self._key((*dotted, name))} = {self._inline(value)}")
            else:
                inside: list[str] = []
                self._sections.append((below, inside))
                self._table(value, below, (), inside)

    def _inline(self, value: object) -> str:
        if not isinstance(value, dict):
            return self._text(value)
        pairs = (f"{self._key((name,))} = {self._inline(each)}" for name, each in value.items())
        return f"{{ {', '.join(pairs)} }}"

    def _text(self, value: object) -> str:
        return self._random.choice([f'"{value}"', f"'{value}'", f'"""{value}"""'])

    def _key(self, words: tuple[str, ...]) -> str:
        return ".".join(self._random.choice([word, word, f'"{word}"']) for word in words)

    def _maybe(self, lines: list[str]) -> list[str]:
        return lines if self._random.random() < 0.3 else []


@given(
    random=st.randoms(use_true_random=False),
    names=st.lists(st.sampled_from(NAMES), unique=True, max_size=8),
    name=st.sampled_from(NAMES),
    removes=st.booleans(),
)
def test_an_edit_changes_one_setting_and_nothing_else(
    random: Random, names: list[str], name: str, *, removes: bool
) -> None:
    before = {each: VALUES.get(each, "s3://b") for each in names}
    text = Writer(random).write(before)
    tomllib.loads(text)  # it is TOML
    with TemporaryDirectory() as directory:
        path = Path(directory, "config.toml")
        path.write_bytes(text.encode())
        assert read_file(path) == before
        if name in before and removes:
            unset_value(path, name)
            del before[name]
        else:
            new = VALUES.get(name, "s3://c")
            set_value(path, name, new)
            before[name] = new
            kept = COMMENT.findall(path.read_text(encoding="utf-8"))
            assert set(COMMENT.findall(text)) <= set(kept)
        assert read_file(path) == before


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("", '[user]\nname = "Bo"\n'),
        ('[user]\nname = "Ada" # me\n', '[user]\nname = "Bo" # me\n'),
        ("user = { name = 'Ada', email = 'a' }\n", "user = { name = \"Bo\", email = 'a' }\n"),
        ("user.email = 'a'", "user.email = 'a'\nuser.name = \"Bo\"\n"),
        ("sync = 'auto'", "sync = 'auto'\n\n[user]\nname = \"Bo\"\n"),
    ],
)
def test_a_setting_is_written_where_a_reader_expects_it(
    tmp_path: Path, text: str, after: str
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    set_value(path, "user.name", "Bo")
    assert path.read_text() == after


def test_two_edits_at_a_time_are_both_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config.toml"
    others: list[Thread] = []

    @contextmanager
    def replacing(target: str) -> Iterator[BinaryIO]:
        if not others:
            others.append(Thread(target=set_value, args=(path, "sync", "auto")))
            others[0].start()
            others[0].join(0.05)
        with temporary_files.replacing(target) as file:
            yield file

    monkeypatch.setattr("lakecli.settings.home.replacing", replacing)
    set_value(path, "use", "lakefs://demo")
    others[0].join()
    assert read_file(path) == {"use": "lakefs://demo", "sync": "auto"}
