"""Repositories on which commands are measured, created and changed through the library."""

from __future__ import annotations

import random
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from os import urandom
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.base.model import EMPTY_TREE, RefKind
from lakecli.cli.context import random_id, system_now
from lakecli.committed.writer import apply
from lakecli.errors import NotFound
from lakecli.refs.ref_store import RefStore
from lakecli.remote.packs import list_packs
from lakecli.repository import branch, repo, tag
from lakecli.repository.commit import commit
from lakecli.repository.commit_attempts import Draft, clean_attempt
from lakecli.repository.guard import claim_head
from lakecli.repository.handle.lake import Lake
from lakecli.repository.handle.namespace import check_writable
from lakecli.repository.journal.intents import WantedMove, make_move
from lakecli.repository.merge import MergeOptions, merge
from lakecli.repository.runtime import DEFAULT_MEMORY_SIZE, Home, Runtime
from lakecli.repository.sharing.publish import write_pack
from lakecli.repository.staged.stager import Stager
from tests.benchmarks import dataset
from tests.support.lakes import stage, unclaimed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from lakecli.base.model import Commit
    from lakecli.repository.contract import Repository

MAIN: Final = "main"
EVERYTHING: Final = "everything"
"""A tag of the unchanged data set, whatever happens to the main branch."""

_STAGED_AT_ONCE: Final = 1 << 16


class Place(NamedTuple):
    """Where the measured repositories are: a home, and a directory for their namespaces."""

    home: Path
    namespaces: Path

    @contextmanager
    def open(self, *, memory: int = DEFAULT_MEMORY_SIZE) -> Iterator[Lake]:
        """Open the lake of the home, as the command line does; `memory` is ``cache.memory``."""
        home = Home(self.home / "store", self.home / "cache", memory_size=memory)
        with Lake.open(home, Runtime(system_now, random_id, "benchmark")) as lake:
            yield lake

    def create(self, name: str) -> str:
        """Create a repository in a directory of its own and return its URI."""
        with self.open() as lake:
            return repo.create(lake, name, str(self.namespaces / name)).uri


def commit_entries(repository: Repository, entries: Iterable[tuple[bytes, bytes]]) -> Commit:
    """Commit entries in key order to the main branch, without staging them."""
    attempt = clean_attempt(repository, MAIN, kind="commit")
    with attempt.view() as view:
        head = claim_head(view)
        tree = apply(repository.trees, EMPTY_TREE, entries)
    commit = attempt.move(Draft(tree, [head], "Everything", "benchmark"))
    assert commit is not None
    return commit


@dataclass(frozen=True, slots=True)
class Large:
    """A repository with the first `count` entries of the data set on its main branch."""

    place: Place
    name: str
    count: int

    @property
    def uri(self) -> str:
        return f"lakefs://{self.name}"

    @contextmanager
    def open(self, *, memory: int = DEFAULT_MEMORY_SIZE) -> Iterator[Repository]:
        with self.place.open(memory=memory) as lake:
            yield lake.repository(self.name)

    def create(self) -> None:
        """Create the repository, without entries."""
        self.place.create(self.name)

    def stage_all(self) -> None:
        """Stage every entry."""
        entries = dataset.records(self.count)
        with self.open() as repository:
            stager = Stager(repository, MAIN)
            while part := list(islice(entries, _STAGED_AT_ONCE)):
                stager.write(unclaimed(part), kind="upload")

    def commit_all(self) -> None:
        """Commit every entry straight from the data set, without staging it."""
        with self.open() as repository:
            commit_entries(repository, dataset.records(self.count))
            tag.create(repository, EVERYTHING, MAIN)

    def path(self, number: int) -> bytes:
        """Return the path of round `number`: an existing or a new one."""
        entry = random.Random(number).randrange(self.count)
        return dataset.new_key(entry) if number % 2 else dataset.key_of(entry)

    def stage(self, number: int, *, on: str = MAIN) -> None:
        """Stage a change of the path of a round."""
        change = self.path(number), dataset.changed_value(urandom(16))
        with self.open() as repository:
            Stager(repository, on).write(unclaimed([change]), kind="upload")

    def commit(self, number: int, *, on: str = MAIN) -> None:
        """Commit a change of the path of a round."""
        self.stage(number, on=on)
        with self.open() as repository:
            commit(repository, on, message=f"Round {number}", committer="benchmark")

    def part(self, number: int, *, names: tuple[str, str] = ("left", "right")) -> None:
        """Let two branches diverge from main, by a commit of one change each."""
        for name, path in zip(names, (number, 1000 + number), strict=True):
            with self.open() as repository:
                try:
                    branch.delete(repository, name)
                except NotFound:
                    assert number == 0
                branch.create(repository, name, source=MAIN)
            self.commit(path, on=name)

    def diverge(self, number: int, *, into: str, source: str) -> None:
        """Let a branch and a new branch of it get a commit of one object each.

        In the first round, the branch is made, and moved in the bucket although the data set has no
        objects there.
        """
        with self.open() as repository:
            if number == 0:
                made = branch.create(repository, into, source=MAIN)
                check_writable(repository)
                with repository.lake.kv.read() as txn:
                    commits = list(RefStore(txn, repository.key).iter_commits())
                pack = write_pack(repository, commits, list_packs(repository.store))
                wanted = (RefKind.BRANCH, into, None, made.commit_id, "benchmark", "push")
                make_move(repository, WantedMove(*wanted), pack=pack)
            else:
                branch.delete(repository, source)
            branch.create(repository, source, source=into)
            for place, name in ((number, source), (1000 + number, into)):
                stage(repository, name, {self.path(place): urandom(16)})
                commit(repository, name, message=f"Round {number}", committer="benchmark")

    def cross(
        self, number: int, *, names: tuple[str, str], changes: int, at_once: bool = True
    ) -> None:
        """Let two branches diverge, be merged into each other, and diverge again.

        Args:
            number: of the round.
            names: of the branches.
            changes: paths that each changes before; afterwards each changes as many again.
            at_once: whether each is merged as it was before, so that they have two best common
                ancestors; otherwise the first one is merged into the second one after that into it.
        """
        self.part(number, names=names)
        left, right = names
        with self.open() as repository:
            for at, name in enumerate(names):
                self._change(repository, name, 10 * number + at, changes)
            before = branch.show(repository, left).commit_id
            merge(repository, right, left, MergeOptions("benchmark"))
            merge(repository, before if at_once else left, right, MergeOptions("benchmark"))
            for at, name in enumerate(names, 2):
                self._change(repository, name, 10 * number + at, changes)

    def _change(self, repository: Repository, name: str, place: int, count: int) -> None:
        """Commit changes of paths that no other place has."""
        step = self.count // count
        changes = (
            (dataset.key_of(at * step + place % step), dataset.changed_value(urandom(16)))
            for at in range(count)
        )
        Stager(repository, name).write(unclaimed(changes), kind="upload")
        commit(repository, name, message=f"Place {place}", committer="benchmark")
