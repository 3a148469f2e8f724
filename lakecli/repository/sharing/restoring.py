"""Upload again what the bucket lacks and this machine still has, before a ref is moved.

Ranges and metaranges come from the cache, data objects from large files that were uploaded from
here and have not changed. Each object is verified by its digest before and after it is uploaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from lakecli.base.layout import SSTABLES
from lakecli.repository.core.lake import Repository
from lakecli.repository.core.notice import Notice
from lakecli.repository.repair.objects import repair_data, repair_tables
from lakecli.repository.repair.records import Damage, Repaired

if TYPE_CHECKING:
    Repair = Callable[..., Iterator[Repaired]]


class Restoring:
    """Uploads objects again, each once, and counts them."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._done: set[str] = set()

    def tables(self, keys: Sequence[str]) -> list[str]:
        """Upload ranges and metaranges again; return the keys for which that was impossible."""
        sent = self._upload(repair_tables, [Damage("table", key, "missing") for key in keys])
        return [key for key in keys if key not in sent]

    def data(self, sizes: Mapping[str, int]) -> set[str]:
        """Upload data objects again, given by key and size; return the keys that were."""
        damages = [Damage("data", key, "missing", size=size) for key, size in sizes.items()]
        return self._upload(repair_data, damages)

    def _upload(self, repair: Repair, damages: Iterable[Damage]) -> set[str]:
        todo = [each for each in damages if each.name not in self._done]
        sent = {each.name for each in repair(self._repository, todo, (), dry_run=False)}
        self._done |= sent
        return sent

    def notify(self) -> None:
        """Leave a notice of what was uploaded again."""
        if not self._done:
            return
        tables = sum(key.startswith(SSTABLES) for key in self._done)
        self._repository.notify(
            Notice(
                f"{len(self._done)} objects were missing in {self._repository.store.uri} and were "
                f"sent again ({tables} tables, {len(self._done) - tables} data objects)",
                hint=f"see what else is missing: lakecli fsck {self._repository.uri}",
            )
        )
