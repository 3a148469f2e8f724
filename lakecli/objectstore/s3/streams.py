"""What S3 sends, as a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from lakecli.objectstore.streams import ReadStream

if TYPE_CHECKING:
    from botocore.response import StreamingBody

    from lakecli.objectstore.s3.errors import Translator


class AnswerStream(ReadStream):
    """The body of an answer as a file."""

    def __init__(self, body: StreamingBody, translator: Translator, full: str) -> None:
        self._body = body
        self._translator = translator
        self._full = full

    def read(self, size: int = -1) -> bytes:
        """Read `size` bytes, fewer only at the end.

        Raises:
            Unreachable: the connection broke.
            IntegrityError: the bytes do not have the checksum that the store sent with them.
        """
        with self._translator.translated(self._full):
            return cast("bytes", self._body.read(None if size < 0 else size))

    def close(self) -> None:
        """Give up the connection."""
        if not self.closed:
            self._body.close()
        super().close()
