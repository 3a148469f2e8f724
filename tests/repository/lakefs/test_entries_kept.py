"""No command changes a byte of an entry that lakeFS wrote, unknown fields included."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.model import MergeStrategy
from lakecli.committed.decisions import Decisions
from lakecli.committed.values import decode_entry, encode_value
from lakecli.engine.runner import LocalRunner
from lakecli.imports.job import import_objects
from lakecli.imports.report import ImportOptions
from lakecli.imports.sources import open_source
from lakecli.proto.messages import ENTRY, pairs_of
from lakecli.repository import branch
from lakecli.repository.cherry_pick import cherry_pick
from lakecli.repository.clone import clone
from lakecli.repository.commit import commit
from lakecli.repository.cp import cp, cp_tree
from lakecli.repository.merge import MergeOptions, merge
from lakecli.repository.mv import mv, mv_tree
from lakecli.repository.push import PushOptions, push
from lakecli.repository.reading.view import open_view
from lakecli.repository.revert import revert
from lakecli.repository.rm import rm, rm_trees
from lakecli.repository.transfer.walk import LinkPolicy
from lakecli.repository.undo.undo import redo, undo
from lakecli.stores.contract import ANY
from tests.support.clones import machine
from tests.support.lakefs_entries import UNKNOWN_FIELD, lakefs_value, stage_values
from tests.support.lakes import stage

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.repository.contract import Repository

DATA = b"the bytes"


def entry(more: bytes = b"", **fields: object) -> bytes:
    """Return an entry with an identity of nobody's, since identities are opaque."""
    values = {"address": "data/g1/x", "size": len(DATA), "e_tag": "0" * 32, **fields}
    message = ENTRY.encode(values) + more
    return encode_value(blake3_of(message)[:20], message)


VALUES = {
    b"e/short identity": entry(),
    b"e/unknown field": lakefs_value(DATA, address="data/g1/x"),
    b"e/several unknown": entry(UNKNOWN_FIELD + b"\x80\x01\x07" + UNKNOWN_FIELD),
    b"e/no type of address": entry(address_type=0),
    b"e/relative": entry(address_type=1),
    b"e/type that does not fit": entry(address_type=2),
    b"e/unknown type": entry(address_type=7),
    b"e/nanoseconds": entry(last_modified={"seconds": 1_600_000_000, "nanos": 999_999_999}),
    b"e/no date": entry(last_modified=None),
    b"e/before 1970": entry(last_modified={"seconds": -1, "nanos": 1}),
    b"e/parts": entry(e_tag="d41d8cd98f00b204e9800998ecf8427e-17"),
    b"e/no checksum": entry(e_tag=""),
    b"e/metadata out of order": entry(
        metadata=[*pairs_of({"z": "1"}), *pairs_of({"a": "2"}), *pairs_of({"z": "3"})]
    ),
    b"e/metadata of clients": entry(metadata=pairs_of({"::lakefs::client-mtime": "1", "é": "ü"})),
}


def present(repository: Repository, ref: str, prefix: bytes = b"e/") -> dict[bytes, bytes]:
    with open_view(repository, ref) as view:
        return {
            b"e/" + path.removeprefix(prefix): value for path, value in view.scan(prefix=prefix)
        }


@pytest.fixture
def lakefs(repository: Repository) -> Repository:
    """A repository with the entries on main, and one commit before them, where ``old`` stands."""
    repository.store.put("data/g1/x", DATA, ANY)
    stage(repository, "main", {b"m": b"1"})
    commit(repository, "main", message="before", committer="c")
    branch.create(repository, "old", source="main")
    stage_values(repository, "main", VALUES)
    assert present(repository, "main") == VALUES
    commit(repository, "main", message="entries", committer="c")
    assert present(repository, "main") == VALUES
    for value in VALUES.values():
        decode_entry(value)
    return repository


def advance(repository: Repository, name: str) -> None:
    """Commit a change among the entries, so that their ranges are rewritten."""
    stage(repository, name, {b"e/new on " + name.encode(): b"1", b"d/" + name.encode(): b"1"})
    commit(repository, name, message="advance", committer="c")


def old_ones(found: dict[bytes, bytes]) -> dict[bytes, bytes]:
    return {path: value for path, value in found.items() if path in VALUES}


def test_commits_merges_and_their_opposites(lakefs: Repository) -> None:
    advance(lakefs, "main")
    assert old_ones(present(lakefs, "main")) == VALUES
    advance(lakefs, "old")
    for strategy in (MergeStrategy.SOURCE_WINS, MergeStrategy.FAIL):
        merge(lakefs, "main", "old", MergeOptions("c", decisions=Decisions(strategy)))
        assert old_ones(present(lakefs, "old")) == VALUES
        undo(lakefs)
        assert old_ones(present(lakefs, "old")) == {}
    cherry_pick(lakefs, "main~1", "old", committer="c")
    assert old_ones(present(lakefs, "old")) == VALUES
    revert(lakefs, "old", "old", committer="c")
    assert old_ones(present(lakefs, "old")) == {}
    revert(lakefs, "old", "old", committer="c")
    assert old_ones(present(lakefs, "old")) == VALUES


def test_copies_and_moves(lakefs: Repository) -> None:
    cp_tree(lakefs, source_ref="main", source=b"e/", branch="old", path=b"f/")
    assert present(lakefs, "old", b"f/") == VALUES
    commit(lakefs, "old", message="copies", committer="c")
    assert present(lakefs, "old", b"f/") == VALUES
    mv_tree(lakefs, source_branch="old", source=b"f/", branch="old", path=b"g/")
    assert present(lakefs, "old", b"g/") == VALUES
    for path, value in VALUES.items():
        cp(lakefs, source_ref="main", source=path, branch="old", path=b"h")
        mv(lakefs, source_branch="old", source=b"h", branch="old", path=b"i")
        with open_view(lakefs, "old") as view:
            assert view.find(b"i") == value


def test_taking_back_and_putting_back(lakefs: Repository) -> None:
    rm_trees(lakefs, "main", [b"e/"])
    undo(lakefs)
    assert present(lakefs, "main") == VALUES
    redo(lakefs)
    assert present(lakefs, "main") == {}
    branch.reset_prefix(lakefs, "main", b"e/")
    assert present(lakefs, "main") == VALUES
    for path in VALUES:
        rm(lakefs, "main", path)
        branch.reset_object(lakefs, "main", path)
    rm_trees(lakefs, "main", [b"e/"])
    branch.reset(lakefs, "main")
    assert present(lakefs, "main") == VALUES
    cp_tree(lakefs, source_ref="main", source=b"e/", branch="old", path=b"f/")
    stage(lakefs, "old", dict.fromkeys((b"f" + path[1:] for path in VALUES), b"other"))
    undo(lakefs)  # what was staged over the copies
    assert present(lakefs, "old", b"f/") == VALUES


def test_an_import_beside_them(lakefs: Repository, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "imported").write_bytes(b"1")
    for copies in (True, False):
        report = import_objects(
            lakefs,
            "main",
            b"e/m/",
            source=open_source(lakefs, str(source), links=LinkPolicy.FAIL),
            runner=LocalRunner(),
            committer="c",
            options=ImportOptions(copies=copies),
        )
        assert report.commit is not None
        assert old_ones(present(lakefs, "main")) == VALUES


def test_another_machine(lakefs: Repository, tmp_path: Path) -> None:
    push(lakefs, "main", options=PushOptions("me"))
    with machine(tmp_path / "elsewhere", "two") as lake:
        other = clone(lake, lakefs.record.storage_namespace, "demo")
        assert present(other, "main") == VALUES
        advance(other, "main")
        assert old_ones(present(other, "main")) == VALUES
