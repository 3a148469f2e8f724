"""What a runner does for a check; see `lakecli.repository.check.thoroughness.Bulk`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from lakecli.base.progress import Progress
from lakecli.engine.errors_as_json import new_nonce
from lakecli.engine.runner import Runner
from lakecli.engine.spark_runner import SparkRunner
from lakecli.engine.store_location import StoreLocation, location_for
from lakecli.fsck.contents import compare_all
from lakecli.fsck.hashing import hash_part, object_parts
from lakecli.fsck.index import JoinedIndex
from lakecli.fsck.lookup import look_up
from lakecli.fsck.tasks import Checking
from lakecli.repository.bucket.data_index import DataObject, Hashed
from lakecli.repository.contract import Repository


class RunnerBulk:
    """Hashes data objects by a runner in this process, and looks references up on Spark.

    Args:
        repository: to check.
        runner: does the work.
        progress: counts the objects and bytes that are hashed, and on Spark finished tasks.
    """

    def __init__(self, repository: Repository, runner: Runner, *, progress: Progress) -> None:
        self._repository = repository
        self._runner = runner
        self._progress = progress

    def hash_objects(self, objects: Iterator[DataObject]) -> Iterator[Hashed]:
        """Read data objects and compare them with their names, in any order."""
        task = partial(
            hash_part,
            location=location_for(self._repository, self._runner),
            progress=self._progress,
        )
        for _, results in self._runner.run(task, object_parts(objects)):
            yield from results

    def open_index(self, *, compares: bool) -> JoinedIndex | None:
        """Return an empty index; ``None`` if this process is to look references up."""
        if not isinstance(self._runner, SparkRunner):
            return None
        checking = Checking(
            StoreLocation.of(self._repository), self._runner.scratch, new_nonce(), compares
        )
        return JoinedIndex(
            self._runner,
            checking,
            partial(look_up, self._runner, progress=self._progress),
            partial(compare_all, self._runner, progress=self._progress),
            progress=self._progress,
        )
