"""The objects of a run of the checks, which are deleted at its end in any case."""

from __future__ import annotations

from contextlib import suppress

from lakecli.errors import LakeError
from lakecli.stores.capabilities import PartUploads, Prunes, UploadId
from lakecli.stores.contract import ObjectStore


class ScratchObjects:
    """The keys of one run under its own prefix.

    Args:
        store: to write to.
        prefix: of this run only; ends with a slash.
    """

    def __init__(self, store: ObjectStore, prefix: str) -> None:
        self.store = store
        self.prefix = prefix
        self.keys: set[str] = set()
        self._uploads: list[tuple[PartUploads, str, UploadId]] = []

    def key(self, name: str) -> str:
        """Return a key to write; `remove` deletes it."""
        key = self.prefix + name
        self.keys.add(key)
        return key

    def start_upload(self, uploads: PartUploads, key: str) -> UploadId:
        """Begin an upload in parts; `remove` aborts it unless it is completed."""
        upload = uploads.start(key)
        self._uploads.append((uploads, key, upload))
        return upload

    def remove(self) -> None:
        """Delete everything; a second call does nothing.

        Raises:
            LakeError: the store refused, or does not answer. There is no second attempt.
        """
        try:
            self._remove()
        except LakeError:
            self._forget()
            raise
        self._forget()

    def remove_after_failure(self) -> None:
        """Delete everything after an error or an interruption, without hiding it."""
        with suppress(LakeError):  # the first error is the one to report
            try:
                self.remove()
            except KeyboardInterrupt:
                self.remove()  # a second interrupt; finish the deletion
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
