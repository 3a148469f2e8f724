"""Every way to use an object again, in every phase of another clone's garbage collection.

What is used again survives the sweep, or is refused: whatever a ref or a staging area refers to
afterwards is in the bucket.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.layout import GC, GC_STATE, data_key, incoming_key
from lakecli.base.model import Entry
from lakecli.committed.values import decode_entry, encode_entry
from lakecli.engine.runner import LocalRunner, StoreLocation
from lakecli.errors import LakeError, NotFound, PermissionDenied, Unreachable
from lakecli.gc.run import Action
from lakecli.gc.run import undo as take_back_condemnation
from lakecli.imports.job import import_objects
from lakecli.imports.report import ImportOptions
from lakecli.imports.sources import open_source
from lakecli.remote.gc_protocol import Phase, read_state
from lakecli.repository import branch, commit_attempts, repo, tag
from lakecli.repository.cherry_pick import cherry_pick
from lakecli.repository.commit import commit
from lakecli.repository.cp import cp, cp_tree
from lakecli.repository.cp_between_repositories import RepositoryPath, cp_tree_across
from lakecli.repository.guard import Gone, Swept
from lakecli.repository.handoff.incoming import take_in
from lakecli.repository.merge import MergeOptions, merge
from lakecli.repository.mv import mv, mv_tree
from lakecli.repository.reading.view import open_view
from lakecli.repository.revert import revert
from lakecli.repository.rm import rm
from lakecli.repository.staged.stager import UNCHANGED
from lakecli.repository.transfer.walk import LinkPolicy
from lakecli.repository.undo.log import iter_log
from lakecli.repository.undo.take_back import GONE
from lakecli.repository.undo.undo import redo, restore, undo
from lakecli.repository.upload import UploadOptions, deposit, stage_together
from lakecli.stores.contract import ANY
from tests.gc.shared import LONG, Shared, make_commit, push, upload
from tests.support.counting import CountingStore
from tests.support.lakes import START, through
from tests.support.worktrees import clone as clone_directory
from tests.support.worktrees import commit_worktree, reopen
from tests.support.worktrees import write as write_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakecli.repository.contract import Repository

PHASES: Final = ("idle", "condemned", "sweeping", "swept")
OLD: Final = b"only the old commit has this"
LINK: Final = "ab" * 16


class Setting:
    """Ada, whose old and unpushed work is garbage to Ben, who collects it.

    Attributes:
        shared: both machines.
        ada: her repository.
        old: the ID of her commit, which no branch but ``old`` reaches.
        notes: what preparing left for use.
        directory: for files.
    """

    def __init__(self, shared: Shared, directory: Path, *, collected: bool = True) -> None:
        self.shared = shared
        self.ada, self.ben = shared.clones
        self.directory = directory
        self.notes: list[str] = []
        if collected:
            shared.store.put(data_key(blake3_of(b"junk").hex()), b"junk", ANY)
            assert shared.collect_all(self.ben).action is Action.SWEPT
        make_commit(self.ada, {b"base": b"base"})
        push(self.ada)
        branch.create(self.ada, "old", source="main")
        self.old = make_commit(self.ada, {b"a": OLD, b"d/b": OLD + b"2"}, "old").id

    def entry(self) -> Entry:
        digest = blake3_of(OLD).hex()
        return Entry(data_key(digest), len(OLD), digest, START)

    def begin_sweep(self) -> Thread:
        """Let Ben sweep until he is about to delete, and go on once Ada waits for him."""
        about_to, ada_waits = Event(), Event()

        def on_step(name: str) -> None:
            if name == "gc:delete":
                about_to.set()
                assert ada_waits.wait(30)

        runtime = self.ben.lake.runtime
        self.ben.lake.runtime = runtime._replace(on_step=on_step)
        sweeping = Thread(target=self.shared.collect, args=(self.ben,))

        def sleep(_seconds: float) -> None:
            ada_waits.set()
            sweeping.join(30)

        self.ada = through(self.ada, sleep=sleep)
        sweeping.start()
        assert about_to.wait(30)
        assert read_state(self.shared.store).phase is Phase.SWEEPING
        return sweeping


class Way(NamedTuple):
    """One way in.

    Attributes:
        prepare: done before all this is old.
        use: the way in.
        refs: that have to be whole afterwards.
        brings: whether it brings the bytes along, so that a sweep does not matter.
        takes_back: whether it puts back what is there, and says how much is not.
    """

    use: Callable[[Setting], object]
    refs: tuple[str, ...] = ("main",)
    prepare: Callable[[Setting], object] = lambda _setting: None
    brings: bool = False
    takes_back: bool = False


def _take_in(setting: Setting) -> None:
    setting.shared.store.put(incoming_key(LINK), OLD, ANY)
    take_in(setting.ada, "main", b"x", LINK, UNCHANGED)


def _import(setting: Setting) -> None:
    source = setting.directory / "source"
    source.mkdir()
    (source / "x").write_bytes(OLD)
    report = import_objects(
        setting.ada,
        "main",
        b"in",
        source=open_source(setting.ada, str(source), links=LinkPolicy.FAIL),
        runner=LocalRunner(),
        committer="me",
        options=ImportOptions(copies=True),
    )
    assert report.commit is not None


def _from_another(setting: Setting) -> RepositoryPath:
    """Return a directory of another repository with the old contents."""
    other = repo.create(setting.ada.lake, "other", str(setting.directory / "other"))
    upload(other, b"d/a", OLD)
    return RepositoryPath(other, "main", b"d")


def _deposit(setting: Setting) -> bytes:
    return deposit(setting.ada, "main", b"x", source=BytesIO(OLD), options=UploadOptions())


def _remove_again(setting: Setting) -> None:
    branch.create(setting.ada, "side", source="main")
    upload(setting.ada, b"x", OLD, "side")
    rm(setting.ada, "side", b"x")


def _stage_elsewhere(setting: Setting) -> None:
    branch.create(setting.ada, "side", source="main")
    upload(setting.ada, b"d/x", OLD, "side")


def _note_operation(setting: Setting) -> None:
    setting.notes.append(next(iter_log(setting.ada)).operation.id.hex())
    branch.delete(setting.ada, "old")


def _seal_removal(setting: Setting) -> None:
    rm(setting.ada, "old", b"a")
    commit_attempts.seal(setting.ada, "old")  # as a commit does that is killed then


def _commit_removal(setting: Setting) -> None:
    rm(setting.ada, "old", b"a")
    commit(setting.ada, "old", message="removed", committer="me")


def _clone_directory(setting: Setting) -> None:
    root = setting.directory / "directory"
    clone_directory(setting.ada, root)
    write_files(root, {"x": OLD.decode()})


def _commit_directory(setting: Setting) -> None:
    commit_worktree(reopen(setting.ada, setting.directory / "directory"))


def _write_table(setting: Setting) -> None:
    from lakecli.repository.guard import claim_values
    from lakecli.spark.file_writer import UploadedFile, new_entries
    from lakecli.spark.target import WriteTarget

    target = WriteTarget(setting.ada, "main", b"table/", mode="append")
    files = [UploadedFile("part-0", blake3_of(OLD).hex(), len(OLD), 1)]
    additions = claim_values(setting.ada, new_entries(setting.ada, target.prefix, files))
    target.commit(additions, message="table", committer="me", metadata={})


WAYS: Final = {
    "upload": Way(lambda s: upload(s.ada, b"x", OLD), brings=True),
    "link": Way(_take_in, brings=True),
    "local-commit": Way(_commit_directory, prepare=_clone_directory, brings=True),
    "import-copy": Way(_import, brings=True),
    "fsspec-write": Way(
        lambda s: stage_together(s.ada, "main", {b"x": _deposit(s)}, kind="t"), brings=True
    ),
    "fsspec-write-staged-late": Way(
        lambda s: stage_together(s.ada, "main", {b"x": encode_entry(s.entry())}, kind="t"),
        prepare=_deposit,
    ),
    "fsspec-copy": Way(
        lambda s: stage_together(s.ada, "main", {b"x": encode_entry(s.entry())}, kind="t")
    ),
    "write-table": Way(_write_table),
    "cp": Way(lambda s: cp(s.ada, source_ref=s.old, source=b"a", branch="main", path=b"x")),
    "cp-r": Way(lambda s: cp_tree(s.ada, source_ref=s.old, source=b"", branch="main", path=b"x")),
    "cp-r-staged": Way(
        lambda s: cp_tree(s.ada, source_ref="side", source=b"d", branch="main", path=b"x"),
        prepare=_stage_elsewhere,
    ),
    "mv": Way(lambda s: mv(s.ada, source_branch="old", source=b"a", branch="main", path=b"x")),
    "mv-r": Way(
        lambda s: mv_tree(s.ada, source_branch="old", source=b"d", branch="main", path=b"x")
    ),
    "cp-across": Way(
        lambda s: cp_tree_across(_from_another(s), RepositoryPath(s.ada, "main", b"x")), brings=True
    ),
    "mv-across": Way(
        lambda s: cp_tree_across(_from_another(s), RepositoryPath(s.ada, "main", b"x"), moves=True),
        brings=True,
    ),
    "merge": Way(lambda s: merge(s.ada, s.old, "main", MergeOptions(committer="me"))),
    "merge-squash": Way(
        lambda s: merge(s.ada, s.old, "main", MergeOptions(committer="me", squash=True))
    ),
    "cherry-pick": Way(lambda s: cherry_pick(s.ada, s.old, "main", committer="me")),
    "revert": Way(
        lambda s: revert(s.ada, "old", "old", committer="me"),
        refs=("old",),
        prepare=_commit_removal,
    ),
    "branch-create": Way(
        lambda s: branch.create(s.ada, "new", source=s.old),
        refs=("new",),
        prepare=lambda s: branch.delete(s.ada, "old"),
    ),
    "tag-create": Way(
        lambda s: tag.create(s.ada, "v1", s.old),
        refs=("v1",),
        prepare=lambda s: branch.delete(s.ada, "old"),
    ),
    "branch-reset": Way(
        lambda s: branch.reset_object(s.ada, "old", b"a"),
        refs=("old",),
        prepare=_seal_removal,
        takes_back=True,
    ),
    "undo-delete": Way(
        lambda s: undo(s.ada),
        refs=("old",),
        prepare=lambda s: branch.delete(s.ada, "old"),
        takes_back=True,
    ),
    "undo-rm": Way(lambda s: undo(s.ada), refs=("side",), prepare=_remove_again, takes_back=True),
    "redo": Way(
        lambda s: redo(s.ada), refs=("old",), prepare=lambda s: undo(s.ada), takes_back=True
    ),
    "restore": Way(
        lambda s: restore(s.ada, s.notes[0]),
        refs=("old",),
        prepare=_note_operation,
        takes_back=True,
    ),
}


@pytest.fixture
def setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Setting]:
    with Shared(tmp_path, "ada", "ben") as shared:
        made = Setting(shared, tmp_path)
        monkeypatch.setattr(StoreLocation, "store", lambda _location: shared.store)
        monkeypatch.setattr(StoreLocation, "guard", lambda _location: made.ada.guard)
        yield made


def is_whole(repository: Repository, ref: str) -> bool:
    """Return whether the bucket has the tree and all objects of a ref, staged changes included."""
    there = {info.key: info.size for info in repository.store.list("data/")}
    uncached = through(repository)
    with TemporaryDirectory() as directory:
        uncached.lake.home = repository.lake.home._replace(cache=Path(directory))
        try:
            with open_view(uncached, ref) as view:
                entries = [decode_entry(value) for _, value in view.scan()]
        except LakeError:
            return False
    assert entries
    return all(there.get(each.physical_address) == each.size for each in entries)


@pytest.mark.parametrize("phase", ["idle", "condemned"])
@pytest.mark.parametrize("name", WAYS)
def test_objects_used_again_before_the_sweep_survive_it(
    setting: Setting, name: str, phase: str
) -> None:
    way, shared = WAYS[name], setting.shared
    way.prepare(setting)
    shared.time.pass_by(LONG)
    if phase == "condemned":
        assert shared.collect(setting.ben).action is Action.CONDEMNED
    way.use(setting)
    if phase == "idle":
        shared.collect(setting.ben)
    shared.time.pass_by(LONG)
    if read_state(shared.store).phase is Phase.CONDEMNED:
        assert shared.collect(setting.ben).action is Action.SWEPT
    for ref in way.refs:
        assert is_whole(setting.ada, ref)


@pytest.mark.parametrize("name", WAYS)
def test_objects_used_again_survive_an_undone_condemnation(setting: Setting, name: str) -> None:
    """And the next one, which comes at once."""
    way, shared = WAYS[name], setting.shared
    way.prepare(setting)
    shared.time.pass_by(LONG)
    assert shared.collect(setting.ben).action is Action.CONDEMNED
    way.use(setting)
    take_back_condemnation(setting.ben)
    shared.collect(setting.ben)
    shared.time.pass_by(LONG)
    if read_state(shared.store).phase is Phase.CONDEMNED:
        assert shared.collect(setting.ben).action is Action.SWEPT
    for ref in way.refs:
        assert is_whole(setting.ada, ref)


@pytest.mark.parametrize("phase", ["sweeping", "swept"])
@pytest.mark.parametrize("name", WAYS)
def test_swept_objects_cannot_be_used_again(setting: Setting, name: str, phase: str) -> None:
    way, shared = WAYS[name], setting.shared
    way.prepare(setting)
    shared.time.pass_by(LONG)
    assert shared.collect(setting.ben).action is Action.CONDEMNED
    shared.time.pass_by(LONG)
    if phase == "sweeping":
        sweeping = setting.begin_sweep()
    else:
        assert shared.collect(setting.ben).action is Action.SWEPT
    if way.brings:
        way.use(setting)
    elif way.takes_back:
        way.use(setting)
        appended = next(iter_log(setting.ada)).operation
        assert name == "branch-reset" or appended.metadata[GONE] == "1"
    else:
        with pytest.raises((Gone, Swept)):
            way.use(setting)
    if phase == "sweeping":
        sweeping.join(30)
    assert data_key(blake3_of(OLD).hex()) in shared.data or not way.brings
    for ref in set(way.refs) & {"main"}:
        assert is_whole(setting.ada, ref)


@pytest.mark.parametrize("name", WAYS)
def test_without_a_collection_using_objects_costs_one_get(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    way, store = WAYS[name], CountingStore()
    with Shared(tmp_path, "ada", "ben", store=store) as shared:
        setting = Setting(shared, tmp_path, collected=False)
        monkeypatch.setattr(StoreLocation, "store", lambda _location: store)
        monkeypatch.setattr(StoreLocation, "guard", lambda _location: setting.ada.guard)
        way.prepare(setting)
        setting.ada = through(setting.ada)
        store.reset()
        way.use(setting)
        assert store.keys.count(("get", GC_STATE)) == 1
        if not way.brings:
            assert store.counts["head"] == 0
        assert [each for each in store.keys if each[1].startswith(GC) and each[1] != GC_STATE] == []


@pytest.mark.parametrize("error", [Unreachable("away"), PermissionDenied("no")])
@pytest.mark.parametrize("name", WAYS)
def test_without_the_bucket_refs_are_put_and_nothing_is_staged(
    setting: Setting, monkeypatch: pytest.MonkeyPatch, name: str, error: LakeError
) -> None:
    way = WAYS[name]
    way.prepare(setting)
    before = {ref: list_all(setting.ada, ref) for ref in ("main", "old") if has(setting.ada, ref)}

    def fail(*_: object, **__: object) -> None:
        raise error

    setting.ada = through(setting.ada)
    for request in ("get", "list", "head"):
        monkeypatch.setattr(setting.shared.store, request, fail)
    if name in {"branch-create", "tag-create", "undo-delete", "undo-rm", "redo", "restore"}:
        way.use(setting)
        assert has(setting.ada, way.refs[0])
        return
    with pytest.raises(LakeError):
        way.use(setting)
    for request in ("get", "list", "head"):
        monkeypatch.delattr(setting.shared.store, request)
    assert {ref: list_all(setting.ada, ref) for ref in before} == before


def has(repository: Repository, ref: str) -> bool:
    try:
        with open_view(repository, ref):
            return True
    except NotFound:
        return False


def list_all(repository: Repository, ref: str) -> dict[bytes, bytes]:
    with open_view(repository, ref) as view:
        return dict(view.scan())


@pytest.mark.parametrize("name", ["fsspec-copy", "cp", "mv", "write-table"])
def test_an_object_of_another_size_is_not_used(setting: Setting, name: str) -> None:
    setting.shared.store.put(data_key(blake3_of(OLD).hex()), OLD[:-1], ANY)
    with pytest.raises(Gone) as raised:
        WAYS[name].use(setting)
    assert len(raised.value.paths) == 1
    assert is_whole(setting.ada, "main")
