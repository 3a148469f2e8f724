"""What protoc says of ``graveler.proto``, by hand because it is four messages."""

from collections.abc import MutableSequence, Sequence

from google.protobuf.message import DecodeError as DecodeError
from google.protobuf.message import Message

class Timestamp(Message):
    seconds: int
    nanos: int
    def __init__(self, *, seconds: int = ..., nanos: int = ...) -> None: ...

class Pair(Message):
    key: str
    value: str
    def __init__(self, *, key: str = ..., value: str = ...) -> None: ...

class Entry(Message):
    address: str
    last_modified: Timestamp
    size: int
    e_tag: str
    metadata: MutableSequence[Pair]
    address_type: int
    content_type: str
    def __init__(
        self,
        *,
        address: str = ...,
        last_modified: Timestamp | None = ...,
        size: int = ...,
        e_tag: str = ...,
        metadata: Sequence[Pair] = ...,
        address_type: int = ...,
        content_type: str = ...,
    ) -> None: ...
    @staticmethod
    def FromString(data: bytes) -> Entry: ...

class RangeData(Message):
    min_key: bytes
    max_key: bytes
    estimated_size: int
    count: int
    def __init__(
        self,
        *,
        min_key: bytes = ...,
        max_key: bytes = ...,
        estimated_size: int = ...,
        count: int = ...,
    ) -> None: ...
    @staticmethod
    def FromString(data: bytes) -> RangeData: ...

class CommitData(Message):
    id: str
    committer: str
    message: str
    creation_date: Timestamp
    meta_range_id: str
    metadata: MutableSequence[Pair]
    parents: MutableSequence[str]
    version: int
    generation: int
    def __init__(
        self,
        *,
        id: str = ...,
        committer: str = ...,
        message: str = ...,
        creation_date: Timestamp | None = ...,
        meta_range_id: str = ...,
        metadata: Sequence[Pair] = ...,
        parents: Sequence[str] = ...,
        version: int = ...,
        generation: int = ...,
    ) -> None: ...
    @staticmethod
    def FromString(data: bytes) -> CommitData: ...
