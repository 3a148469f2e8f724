"""BLAKE3 as partners compute it, against the real one."""

from __future__ import annotations

import ast
import io
import random
from pathlib import Path

from blake3 import blake3

from lakecli.repository.handoff import partner_blake3 as module
from lakecli.repository.handoff.partner_blake3 import CHUNK, GROUP, Blake3, blake3_of

WHOLE = CHUNK * GROUP
DATA = random.Random(3).randbytes(2 * WHOLE + 5 * CHUNK)


def _around(size: int) -> tuple[int, int, int]:
    return size - 1, size, size + 1


SIZES = [
    *(0, 1, 3, 4, 63, 64, 65, 127, 128, 129),
    *(size for chunks in (1, 2, 3, 4, 5, 7, 8, 31, 33) for size in _around(chunks * CHUNK)),
    *(WHOLE - 1, WHOLE, WHOLE + 1, WHOLE + CHUNK, 2 * WHOLE, 2 * WHOLE + 1, len(DATA)),
]


def test_digests_equal_those_of_blake3() -> None:
    for size in SIZES:
        assert blake3_of(io.BytesIO(DATA[:size])) == blake3(DATA[:size]).hexdigest(), size


def test_the_published_vectors_are_reproduced() -> None:
    # From the project's test_vectors.json: bytes 0 to 250, over and over.
    pattern = bytes(range(251)) * 500
    for size, digest in (
        (0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"),
        (1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213"),
        (1025, "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444"),
        (102400, "bc3e3d41a1146b069abffad3c0d44860cf664390afce4d9661f7902e7943e085"),
    ):
        assert blake3_of(io.BytesIO(pattern[:size])) == digest


def test_the_size_of_pieces_does_not_change_the_digest() -> None:
    chance = random.Random(5)
    for _ in range(10):
        size = chance.randrange(len(DATA))
        hasher = Blake3()
        position = 0
        while position < size:
            step = min(chance.choice((1, 64, 1000, CHUNK, 70_000, WHOLE)), size - position)
            hasher.update(DATA[position : position + step])
            position += step
        assert hasher.hexdigest() == blake3(DATA[:size]).hexdigest()


def test_lanes_count_chunks_beyond_32_bits() -> None:
    """The counter of a chunk far out, as one lane and as one of several."""
    words = list(range(16))
    for counter in (0, 5, (1 << 32) - 1, 1 << 32, (1 << 54) - 1):
        alone = module.compress(module.IV, words, counter, 64, 1, 1)
        ones = module.pack([1, 1])
        both = module.compress(
            [word * ones for word in module.IV],
            [word * ones for word in words],
            module.pack([7, counter]),
            64,
            1,
            ones,
        )
        assert [module.unpack(word, 2)[1] for word in both] == alone


def test_the_module_runs_on_an_old_python() -> None:
    text = Path(module.__file__).read_text()
    ast.parse(text, feature_version=(3, 6))
    assert text.isascii()
