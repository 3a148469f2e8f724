"""Which moves this clone made in the bucket: compared with the definition, and with its cost."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from lakecli.base.ids import CommitId, RepositoryUuid, WriteId
from lakecli.base.model import EMPTY_TREE, Commit, RefKind
from lakecli.kv import operations as log
from lakecli.kv.operations import Operation, RefChange
from lakecli.refs.graph import is_ancestor
from lakecli.refs.ref_store import RefStore
from lakecli.remote.ref_records import RecordedMove
from lakecli.repository import branch
from lakecli.repository.contract import Repository
from lakecli.repository.handle.lake import LocalRepository
from lakecli.repository.journal import operation_log
from lakecli.repository.journal.tracking import iter_known_moves, put_known_moves
from lakecli.repository.undo.log import iter_log
from lakecli.repository.undo.pushed_refs import Moved, find_ours
from tests.support.clones import make_commit
from tests.support.lakes import START, make_repository, open_lake

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lakecli.kv.local_store import ReadTransaction, WriteTransaction

TO_KNOWN = ("branch reset", "undo", "redo", "op restore")
KINDS = (*TO_KNOWN, *TO_KNOWN, "push", "push", "commit", "merge", "branch create", "fetch")


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with open_lake(tmp_path / "home") as lake:
        yield make_repository(lake, tmp_path / "namespace")


def put_commits(txn: WriteTransaction, refs: RefStore, count: int) -> list[CommitId]:
    """Put a history with branches and merges."""
    made: list[Commit] = []
    for number in range(count):
        parents = [random.choice(made) for _ in range(random.choice((1, 1, 2)))] if made else []
        unique = tuple(dict.fromkeys(each.id for each in parents))
        generation = 1 + max((each.generation for each in parents), default=0)
        commit = Commit(
            CommitId(f"{number:064x}"), unique, EMPTY_TREE, "", "", START, {}, generation
        )
        refs.put_commit(commit)
        made.append(commit)
    return [each.id for each in made]


def change_of(before: CommitId | None, after: CommitId | None, *, is_local: bool) -> RefChange:
    fields = [None if each is None else {"commit_id": each} for each in (before, after)]
    return RefChange(RefKind.BRANCH, "main", before=fields[0], after=fields[1], is_local=is_local)


def put_history(txn: WriteTransaction, repository: Repository) -> list[Moved]:
    """Put random operations and moves in the bucket; return the moves of the operations."""
    commits = put_commits(txn, RefStore(txn, repository.key), random.randrange(2, 12))
    positions = [*commits, None, CommitId("f" * 64)]  # the last one is not here
    moves, moved = [], []
    at = random.choice(positions)
    for sequence in range(1, random.randrange(2, 12)):
        to = random.choice(positions)
        id_ = WriteId(f"{sequence:032x}")
        moves.append(RecordedMove(sequence, id_, at, to, "me", START, "push"))
        at = to
    put_known_moves(txn, repository, RefKind.BRANCH, "main", moves)
    done: list[Operation] = []
    for _ in range(random.randrange(2, 25)):
        kind = random.choice(KINDS)
        before, after = random.choice(moves)[2:4] if moves else (None, commits[0])
        if random.random() < 0.5:
            before, after = random.choice(positions), random.choice(positions)
        metadata = {}
        refs = [change_of(before, after, is_local=random.random() < 0.1)]
        if kind == "push":
            metadata = {"ref": random.choice(("main", "main", "other")), "kind": "branch"}
            metadata |= {"before": before or "", "after": after or ""}
            refs = []
        if kind == "push" or (kind == "commit" and random.random() < 0.5):
            metadata["move"] = random.choice(moves).write_id
        if kind == "redo" and done:
            metadata = {"redoes": random.choice(done).id.hex()}
        made = Operation(random.randbytes(16), repository.key, START, "", kind, tuple(refs), (), ())
        done.append(log.append(txn, made._replace(metadata=metadata)))
        moved += [Moved(change, done[-1]) for change in refs]
    return moved


def is_ours(txn: ReadTransaction, repository: Repository, moved: Moved) -> bool:
    """The definition: compare a move with each newer one."""
    (before, after), operation = moved.ends, moved.operation
    known = list(iter_known_moves(txn, repository, RefKind.BRANCH, "main"))
    if before is not None and after is not None:
        if redone := operation.metadata.get("redoes"):
            operation = log.find(txn, repository.key, bytes.fromhex(redone)) or operation
        return operation.kind not in TO_KNOWN or was_sent(txn, repository, operation, before, after)
    creation = next((each for each in known if each.before is None), None)
    for newer in log.iter_operations(txn, repository.key):
        if newer.sequence <= operation.sequence:
            return False
        is_push = newer.kind == "push" and newer.metadata["ref"] == "main"
        if before is not None:
            if is_push and newer.metadata["after"] == (after or ""):
                return True
        elif (
            creation is not None
            and (is_push or newer.kind == "commit")
            and newer.metadata.get("move") == creation.write_id
        ):
            return True
    raise AssertionError


def ends_of(
    operation: Operation, *, is_local: bool
) -> Iterator[tuple[CommitId | None, CommitId | None]]:
    for change in operation.refs:
        if (change.is_local or operation.kind == "fetch") == is_local:
            yield Moved(change, operation).ends


def was_sent(
    txn: ReadTransaction, repository: Repository, operation: Operation, *ends: CommitId
) -> bool:
    refs = RefStore(txn, repository.key)
    known = iter_known_moves(txn, repository, RefKind.BRANCH, "main")
    there = [(each.before, each.after) for each in known]

    def reaches(start: CommitId | None, commit: CommitId) -> bool:
        return (
            start is not None
            and refs.find_commit(start) is not None
            and is_ancestor(refs, commit, start)
        )

    def lost(commits: Sequence[CommitId | None], *moves: Sequence[CommitId | None]) -> bool:
        return any(
            each is not None
            and refs.find_commit(each) is not None
            and all(reaches(start, each) and not reaches(end, each) for start, end in moves)
            for each in commits
        )

    before, after = ends
    for newer in log.iter_operations(txn, repository.key):
        if newer.sequence <= operation.sequence:
            return False
        sent = []
        if newer.kind == "push" and newer.metadata["ref"] == "main":
            texts = newer.metadata["before"], newer.metadata["after"]
            sent.append([CommitId(each) if each else None for each in texts])
        if newer.kind not in TO_KNOWN:
            sent += [list(each) for each in ends_of(newer, is_local=False) if each in there]
        for start, end in sent:
            if lost((before, start), ends, (start, end)):
                return True
            if lost((after, end), ends[::-1], (end, start)):
                return True
    raise AssertionError


def repository_of(repository: Repository) -> Repository:
    """Return another, empty repository."""
    uuid = RepositoryUuid(random.randbytes(16).hex())
    return LocalRepository(repository.lake, repository.record._replace(uuid=uuid))


@pytest.mark.parametrize("seed", range(4))
def test_the_log_read_once_finds_what_comparing_all_pairs_finds(
    repository: Repository, seed: int
) -> None:
    random.seed(seed)
    answers = []
    for _ in range(30):
        repository = repository_of(repository)
        with repository.lake.kv.write() as txn:
            moved = put_history(txn, repository)
            found = find_ours(txn, repository, moved)
            wanted = {each for each in moved if is_ours(txn, repository, each)}
        assert found == wanted
        answers += [each in found for each in moved]
    assert 0.1 < sum(answers) / len(answers) < 0.9


def test_two_commits_of_one_generation_are_both_left_behind(repository: Repository) -> None:
    """A merge was taken back in the bucket; both of its parents were, here."""
    with repository.lake.kv.write() as txn:
        refs = RefStore(txn, repository.key)
        made: list[CommitId] = []
        for parents, generation in (((), 1), ((0,), 2), ((0,), 2), ((1, 2), 3)):
            ids = tuple(made[number] for number in parents)
            made.append(CommitId(f"{len(made):064x}"))
            commit = Commit(made[-1], ids, EMPTY_TREE, "", "", START, {}, generation)
            refs.put_commit(commit)
        first, *sides, merged = made
        moved = []
        for side in sides:
            change = change_of(side, first, is_local=False)
            operation = operation_log.append(txn, repository, kind="branch reset", refs=[change])
            moved.append(Moved(change, operation))
    push(repository, before=merged, after=first)
    with repository.lake.kv.read() as txn:
        assert find_ours(txn, repository, moved) == set(moved)


def test_the_cost_of_taking_back_resets_grows_with_their_number(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Comparing all pairs reads 16 times as much for 4 times as many."""
    reads = []

    def count(owner: object, name: str) -> None:
        inner = getattr(owner, name)

        def call(*args: object) -> object:
            reads.append(name)
            return inner(*args)

        monkeypatch.setattr(owner, name, call)

    count(log, "_load")
    count(RefStore, "find_commit")
    first, second = (make_commit(repository, path).id for path in (b"first", b"second"))
    costs: list[int] = []
    pairs: list[int] = []
    for resets in (25, 100):
        for number in range(resets):
            branch.reset(repository, "main", to=(first, second)[number % 2])
            if number % 5 == 0:
                push(repository, before=first, after=second)
        taken = [each.operation for each in iter_log(repository)]
        moved = [Moved(change, each) for each in taken for change in each.refs]
        moved = [each for each in moved if each.operation.kind == "branch reset"][:resets]
        reads.clear()
        with repository.lake.kv.read() as txn:
            found = find_ours(txn, repository, moved)
            costs.append(len(reads))
            reads.clear()
            assert found == {each for each in moved if is_ours(txn, repository, each)}
            pairs.append(len(reads))
    assert costs[0] > 25
    assert costs[1] < 5 * costs[0]
    assert pairs[1] > 10 * pairs[0]


def push(repository: Repository, **ends: CommitId) -> None:
    """Note that a branch was pushed."""
    with repository.lake.kv.write() as txn:
        metadata = {"ref": "main", "kind": "branch", "move": "0" * 32, **ends}
        operation_log.append(txn, repository, kind="push", metadata=metadata)
