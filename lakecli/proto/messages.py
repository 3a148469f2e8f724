"""The message classes of ``graveler.proto``, built from its compiled descriptor.

protoc's own Python output ties a program to the protobuf release that wrote it and imports five
more modules at every start; the descriptor and these two public calls do neither. Regenerate
``graveler.desc`` with ``python -m tests.support.compile_proto``; ``messages.pyi`` is kept by hand.
"""

from pathlib import Path

from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

__all__ = ["CommitData", "DecodeError", "Entry", "Pair", "RangeData", "Timestamp"]

_POOL = DescriptorPool()
_POOL.AddSerializedFile(Path(__file__).with_name("graveler.desc").read_bytes())


def _message(name: str):  # noqa: ANN202 - messages.pyi types what this makes
    return GetMessageClass(_POOL.FindMessageTypeByName(f"lakecli.graveler.{name}"))


Timestamp = _message("Timestamp")
Pair = _message("Pair")
Entry = _message("Entry")
RangeData = _message("RangeData")
CommitData = _message("CommitData")
