"""protobuf's own classes for lakeFS's messages, which the product does without."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from grpc_tools import protoc

__all__ = ["DecodeError", "decode", "encode", "message_class"]

SOURCE = Path(__file__).with_name("graveler.proto")


@cache
def _pool() -> DescriptorPool:
    pool = DescriptorPool()
    with tempfile.NamedTemporaryFile() as file:
        options = [f"-I{SOURCE.parent}", f"--descriptor_set_out={file.name}", SOURCE.name]
        assert protoc.main(["protoc", *options]) == 0
        for compiled in FileDescriptorSet.FromString(Path(file.name).read_bytes()).file:
            pool.Add(compiled)
    return pool


@cache
def message_class(name: str) -> Any:
    """Return the class of a message in ``graveler.proto``."""
    return GetMessageClass(_pool().FindMessageTypeByName(f"lakecli.graveler.{name}"))


def encode(name: str, values: dict[str, Any]) -> bytes:
    """Return protobuf's bytes for the fields of a message."""
    data: bytes = message_class(name)(**values).SerializeToString()
    return data


def decode(name: str, data: bytes) -> dict[str, Any]:
    """Return what protobuf reads, in the form that `lakecli.proto.messages.Message` returns."""
    return _values(message_class(name).FromString(data))


def _values(message: Any) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.message_type is None:
            values[field.name] = list(value) if field.is_repeated else value
        elif field.is_repeated:
            values[field.name] = [_values(item) for item in value]
        else:
            values[field.name] = _values(value) if message.HasField(field.name) else None
    return values
