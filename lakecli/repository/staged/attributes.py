"""What may be changed of an entry without another object: its content type and its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from lakecli.base.model import CLIENT_METADATA_PREFIX
from lakecli.committed.encode import encode_entry
from lakecli.committed.values import decode_entry


class Attributes(NamedTuple):
    """New attributes of entries.

    Attributes:
        content_type: the content type; ``None`` keeps that of each entry.
        metadata: replaces the user's metadata; ``None`` keeps that of each entry. Keys that
            clients record, such as the modification time of the file, are kept unless they are
            in it.
    """

    content_type: str | None = None
    metadata: Mapping[str, str] | None = None

    def apply(self, value: bytes) -> bytes:
        """Return an encoded entry with these attributes.

        Raises:
            IntegrityError: the entry is damaged.
        """
        if self == UNCHANGED:
            return value
        entry = decode_entry(value)
        if self.content_type is not None:
            entry = entry._replace(content_type=self.content_type)
        if self.metadata is not None:
            recorded = {
                key: text
                for key, text in entry.metadata.items()
                if key.startswith(CLIENT_METADATA_PREFIX)
            }
            entry = entry._replace(metadata={**recorded, **self.metadata})
        return encode_entry(entry)


UNCHANGED = Attributes()
