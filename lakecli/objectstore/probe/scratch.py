"""Objects that are written to try a store out, and are gone afterwards whatever happens."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from lakecli.errors import LakeError
from lakecli.objectstore.capabilities import Prunes

if TYPE_CHECKING:
    from lakecli.objectstore.base import ObjectStore
    from lakecli.objectstore.uploads import UploadId, Uploads


class Scratch:
    """Keys of one run under a prefix of its own.

    Args:
        store: where they lie.
        prefix: nobody else writes under it; ends with a slash.
    """

    def __init__(self, store: ObjectStore, prefix: str) -> None:
        self.store = store
        self.prefix = prefix
        self.keys: set[str] = set()
        self._uploads: list[tuple[Uploads, str, UploadId]] = []

    def key(self, name: str) -> str:
        """Return a key to write; it is removed in the end."""
        key = self.prefix + name
        self.keys.add(key)
        return key

    def start_upload(self, uploads: Uploads, key: str) -> UploadId:
        """Begin an upload in parts; it is aborted in the end, unless it is completed."""
        upload = uploads.start(key)
        self._uploads.append((uploads, key, upload))
        return upload

    def remove(self) -> None:
        """Remove everything; a second call has nothing left to do.

        Raises:
            LakeError: the store refused, or does not answer. It is not asked again.
        """
        try:
            self._remove()
        except LakeError:
            self._forget()
            raise
        self._forget()

    def remove_after_failure(self) -> None:
        """Remove everything while an error or an interruption may be on its way out."""
        with suppress(LakeError):  # what went wrong before is the news
            try:
                self.remove()
            except KeyboardInterrupt:
                self.remove()  # impatience; it takes a moment more all the same
                raise

    def _remove(self) -> None:
        try:
            for uploads, key, upload in self._uploads:
                uploads.abort(key, upload)
        finally:
            if self.keys:
                self.store.delete(sorted(self.keys))
                if isinstance(self.store, Prunes):
                    self.store.prune(self.prefix)

    def _forget(self) -> None:
        self.keys.clear()
        self._uploads.clear()
