"""Compile ``lakecli/proto/graveler.proto``: ``python -m tests.support.compile_proto``."""

from __future__ import annotations

import tempfile
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc

PROJECT = Path(__file__).parents[2]
SOURCE = "lakecli/proto/graveler.proto"
COMPILED = PROJECT / "lakecli/proto/graveler.desc"


def compile_descriptor() -> bytes:
    """Return the serialised FileDescriptorProto of the source."""
    with tempfile.NamedTemporaryFile() as file:
        code = protoc.main(["protoc", f"-I{PROJECT}", f"--descriptor_set_out={file.name}", SOURCE])
        assert code == 0
        (compiled,) = FileDescriptorSet.FromString(Path(file.name).read_bytes()).file
    return compiled.SerializeToString(deterministic=True)


if __name__ == "__main__":
    COMPILED.write_bytes(compile_descriptor())
