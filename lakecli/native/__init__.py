"""What is written in C, too, so that bulk work takes less time: blocks, values and digests.

::

    core    the functions in C, each with the same answers as its twin in Python

An installation without a C compiler lacks the compiled core, and the twins do the work.
`.ci/build_core.py` compiles it to ``_core.abi3.so`` in this directory.
"""

from __future__ import annotations

from functools import cache

from lakecli.typed import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Protocol

    import numpy as np
    import numpy.typing as npt
    from cramjam import Buffer

    class Core(Protocol):
        """The functions of ``core.c``. What they leave to the twin is ``None`` if not noted."""

        SOURCE: str
        """The SHA-256 digest of the ``core.c`` that was compiled."""

        def decode_records(self, payload: bytes, /) -> tuple[list[bytes], list[bytes]] | None:
            """As `lakecli.sstable.block.decode_records`."""

        def decode_index(self, payload: bytes, /) -> tuple[list[bytes], list[int]] | None:
            """As `lakecli.sstable.directory.decode_handles`."""

        def columns(
            self,
            payload: bytes | Buffer | memoryview,
            area: bytearray | npt.NDArray[np.uint8],
            row: int,
            above: bytes,
            last: bytes,
            /,
        ) -> int | None:
            """As `lakecli.spark.area.Area` says; its twin is `lakecli.spark.decode`."""

        def find_value(self, payload: bytes, key: bytes, /) -> Any:  # noqa: ANN401
            """As `lakecli.sstable.block.find_value`; ``NotImplemented`` is left to the twin."""

        def digests(
            self, keys: Sequence[bytes], values: Sequence[bytes], /
        ) -> tuple[bytes, bytes] | None:
            """As `lakecli.committed.values.digests`."""

        def encode_external(
            self,
            addresses: Sequence[bytes],
            sizes: Sequence[int],
            checksums: Sequence[bytes],
            seconds: Sequence[int],
            content_types: Sequence[bytes] | None,
            /,
        ) -> list[bytes | None] | None:
            """As `lakecli.committed.encode.encode_external`; single values may be ``None``."""


INTERFACE: Final = 4
"""The meaning of the functions; a core with another one is not used."""

MISSING: Final = "there was no C compiler at the installation"
OUTDATED: Final = "it was compiled from another version of core.c"


@cache
def load() -> tuple[Core | None, str]:
    """Return the compiled core, or ``None`` and the reason why it is not used."""
    try:
        import lakecli.native._core as compiled  # type: ignore[import-not-found]
    except ModuleNotFoundError:
        return None, MISSING
    except ImportError as error:
        return None, f"it cannot be loaded: {error}"
    if getattr(compiled, "INTERFACE", None) != INTERFACE:
        return None, OUTDATED
    return compiled, ""


def core() -> Core | None:
    """Return the compiled core, or ``None`` where the twins do the work."""
    return load()[0]


def problem() -> str:
    """Return why the compiled core is not used; ``""`` if it is."""
    return load()[1]
