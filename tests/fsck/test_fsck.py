from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.layout import DATA, POLICY, REPOSITORY, SHARING, SSTABLES, data_key
from lakecli.base.model import CommitId
from lakecli.committed.check import SMALLEST_ENTRY
from lakecli.engine.runner import count_head_entries
from lakecli.errors import IntegrityError, Unreachable
from lakecli.fsck.check import fsck, summarise
from lakecli.fsck.findings import FsckCounts
from lakecli.fsck.hashing import hash_objects
from lakecli.refs.ref_store import RefStore
from lakecli.repository import branch, tag
from lakecli.repository.commit import commit
from lakecli.repository.reading.view import open_view
from lakecli.repository.sharing.set_policy import set_policy
from lakecli.repository.stored_objects import DataIndex
from lakecli.repository.upload import UploadOptions
from lakecli.repository.upload_tree import upload_tree
from tests.support.disk import limit_databases
from tests.support.lakes import entry_of, stage, stage_entries
from tests.support.recorded_progress import RecordedProgress
from tests.support.stores import get_branch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakecli.repository.contract import Repository
    from lakecli.repository.stored_objects import Hashed
    from lakecli.stores.contract import ObjectInfo


@pytest.fixture
def namespace(repository: Repository, tmp_path: Path) -> Path:
    """A namespace with three commits of forty objects, two branches and a tag."""
    source = tmp_path / "source"
    source.mkdir()
    for number in range(40):
        (source / f"{number:02d}.txt").write_text(f"contents {number}")
    upload_tree(repository, "main", b"first", source=source, options=UploadOptions())
    commit(repository, "main", message="first", committer="me")
    tag.create(repository, "v1", "main")
    branch.create(repository, "side", source="main")
    (source / "00.txt").write_text("changed")
    upload_tree(repository, "main", b"first", source=source, options=UploadOptions())
    commit(repository, "main", message="second", committer="me")
    return tmp_path / "namespace"


def sole_object(namespace: Path, kind: str) -> Path:
    """Return an object of a kind that the tree of ``main`` needs."""
    if kind == "data":
        return min(path for path in (namespace / DATA).rglob("*") if path.is_file())
    wanted = b"type" + kind.encode() + b"s"
    tables = [path for path in (namespace / SSTABLES).iterdir() if path.name != "dummy"]
    return min(path for path in tables if kind_of(path) == wanted)


def kind_of(path: Path) -> bytes:
    body = path.read_bytes()
    return b"typemetaranges" if b"typemetaranges" in body else b"typeranges"


def flip(path: Path) -> None:
    body = bytearray(path.read_bytes())
    body[len(body) // 3] ^= 1
    path.write_bytes(body)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def remove(path: Path) -> None:
    path.unlink()


def test_a_sound_repository_has_no_findings(repository: Repository, namespace: Path) -> None:
    counts = FsckCounts()
    progress = RecordedProgress()
    checked = fsck(repository, hash_data=True, counts=counts, progress=progress)
    assert list(checked) == []
    assert summarise(counts) is None
    assert progress.items == 41
    assert (counts.refs, counts.commits, counts.metaranges) == (3, 3, 2)
    assert counts.objects == 41
    assert counts.entries >= 41
    assert counts.bytes_hashed == sum(
        path.stat().st_size for path in (namespace / DATA).rglob("*") if path.is_file()
    )


def test_results_of_tests_of_the_store_are_checked(repository: Repository, namespace: Path) -> None:
    (namespace / SHARING).write_bytes(b'{"format": 1, "results": 1}')
    (found,) = fsck(repository)
    assert (found.kind, found.name) == ("repository", SHARING)
    assert "does not hold results" in found.what
    (namespace / SHARING).write_bytes(b'{"format": 2}')  # of a newer lakecli
    assert list(fsck(repository)) == []


@pytest.mark.parametrize("document", ["x", "version = 2"])
def test_the_rules_are_checked(repository: Repository, namespace: Path, document: str) -> None:
    set_policy(repository, "# nothing", who="me")
    assert list(fsck(repository)) == []
    record = (namespace / POLICY).read_text()
    (namespace / POLICY).write_text(record.replace("# nothing", document))
    (found,) = fsck(repository)
    assert (found.kind, found.name) == ("repository", POLICY)
    (namespace / POLICY).write_bytes(b"")
    (found,) = fsck(repository)
    assert "not a policy that lakecli wrote" in found.what


def test_entries_are_progress_where_no_data_is_read(repository: Repository) -> None:
    counts, progress = FsckCounts(), RecordedProgress()
    assert list(fsck(repository, counts=counts, progress=progress)) == []
    with open_view(repository, "main") as view:
        staged = len(list(view.staged()))
    assert (progress.items, progress.size) == (counts.entries - staged, 0)


@pytest.mark.parametrize("damage", [flip, truncate, zero, remove])
@pytest.mark.parametrize("kind", ["metarange", "range", "data"])
def test_every_damage_is_found_and_located(
    repository: Repository, namespace: Path, kind: str, damage: Callable[[Path], None]
) -> None:
    broken = sole_object(namespace, kind)
    damage(broken)
    counts = FsckCounts()
    findings = list(fsck(repository, hash_data=True, counts=counts))

    key = broken.relative_to(namespace).as_posix()
    assert {each.name for each in findings} == {key}
    assert {each.kind for each in findings} == {kind}
    assert counts.findings == len(findings)
    error = summarise(counts)
    assert isinstance(error, IntegrityError)
    located = [each for each in findings if each.ref]
    assert located
    assert all(each.commit_id for each in located)
    if kind == "data":
        assert all(each.path for each in located)


def test_counts_in_a_metarange_are_checked_above_a_limit(
    repository: Repository, namespace: Path
) -> None:
    assert count_head_entries(repository, check_from=40) == 40
    ranges = [path for path in (namespace / SSTABLES).iterdir() if kind_of(path) == b"typeranges"]
    for path in ranges:
        path.write_bytes(bytes(SMALLEST_ENTRY))
    assert count_head_entries(repository, check_from=41) == 40
    found = count_head_entries(repository, check_from=40)
    assert found is not None
    assert 0 < found <= len(ranges) < 40
    for path in ranges:
        path.unlink()
    assert count_head_entries(repository, check_from=40) == 0


def test_the_entries_of_all_branches_are_checked_by_one_listing(
    repository: Repository, namespace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listing has the ranges of the whole history, so it may take thousands of requests."""
    assert namespace.exists()
    listed: list[str] = []
    list_objects = repository.store.list

    def list_(prefix: str) -> Iterator[ObjectInfo]:
        listed.append(prefix)
        return list_objects(prefix)

    monkeypatch.setattr(repository.store, "list", list_)
    assert count_head_entries(repository, check_from=40) == 40
    assert listed == [SSTABLES]


def test_entries_are_counted_from_metaranges(repository: Repository, namespace: Path) -> None:
    assert count_head_entries(repository, check_from=41) == 40
    sole_object(namespace, "range").unlink()
    assert count_head_entries(repository, check_from=41) == 40
    sole_object(namespace, "metarange").unlink()
    repository.forget_trees()
    assert count_head_entries(repository, check_from=41) is None


def test_without_hashing_a_flipped_byte_of_data_goes_unnoticed(
    repository: Repository, namespace: Path
) -> None:
    flip(sole_object(namespace, "data"))
    assert list(fsck(repository)) == []


def test_staged_objects_are_checked(repository: Repository, namespace: Path) -> None:
    stage_entries(repository, "side", {b"never/written": entry_of(b"only in staging")})
    (finding,) = fsck(repository)
    assert (finding.kind, finding.what, finding.path) == ("data", "missing", b"never/written")
    assert (finding.ref, finding.commit_id) == ("side", None)


def test_commits_and_refs_are_checked(repository: Repository, namespace: Path) -> None:

    with repository.lake.kv.write() as txn:
        refs = RefStore(txn, repository.key)
        side = get_branch(refs, "side")
        main = refs.get_commit(get_branch(refs, "main").commit_id)
        refs.put_commit(main._replace(message="tampered"))
        refs.put_branch(side._replace(commit_id=CommitId(main.id[::-1])))
    findings = list(fsck(repository))
    assert [(each.kind, each.name) for each in findings] == [("ref", "side"), ("commit", main.id)]


def test_a_namespace_of_another_repository_is_reported(
    repository: Repository, namespace: Path
) -> None:
    (namespace / REPOSITORY).write_text('{"uuid": "somebody else"}')
    (finding,) = fsck(repository)
    assert (finding.kind, finding.name) == ("repository", REPOSITORY)
    (namespace / REPOSITORY).write_text("no JSON")
    (finding,) = fsck(repository)
    assert "is not a repository description" in finding.what


def test_what_is_written_while_it_runs_is_no_problem(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has listed objects behind it when it stages a new one."""

    def and_stage(*arguments: Any) -> Iterator[Hashed]:
        yield from hash_objects(*arguments)
        stage(repository, "main", {b"since": b"written since the listing"})

    with monkeypatch.context() as patched:
        patched.setattr("lakecli.fsck.check.hash_objects", and_stage)
        assert list(fsck(repository)) == []
    missing = data_key(blake3_of(b"written since the listing").hex())
    repository.store.delete([missing])
    assert [(each.name, each.what) for each in fsck(repository)] == [(missing, "missing")]


def test_the_index_finds_every_digest(repository: Repository, namespace: Path) -> None:
    with DataIndex(repository.store) as index:
        listed = list(repository.store.list(DATA))
        assert list(index.fill()) == listed
        assert index.count == len(listed)
        for info in repository.store.list(DATA):
            assert index.problem_of(info.key, info.size) is None
            assert index.problem_of(info.key, info.size + 1) is not None
        assert index.problem_of("data/00/" + "0" * 62, 1) == "missing"
        assert index.problem_of("data/ff/" + "f" * 62, 1) == "missing"
        for key in ("elsewhere", "data/../elsewhere", "data//x", "data/" + "x" * 300, "data/\0"):
            assert (
                index.problem_of(key, 1) == "its physical address is not the key of a data object"
            )


@pytest.mark.parametrize("pages", [1, 2])
def test_a_disk_without_space_for_the_index_is_reported(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, pages: int
) -> None:
    stage(repository, "main", {b"%d" % number: b"%d" % number for number in range(100)})
    limit_databases(monkeypatch, pages=pages)
    with pytest.raises(Unreachable, match="temporary files: database or disk is full"):
        list(fsck(repository))


def test_an_index_that_cannot_be_read_is_reported(repository: Repository) -> None:
    with DataIndex(repository.store) as index:
        index._database.set_progress_handler(lambda: 1, 1)  # ends each statement with an error
        with pytest.raises(Unreachable, match="temporary files: interrupted"):
            index.problem_of("data/00/" + "0" * 62, 1)
