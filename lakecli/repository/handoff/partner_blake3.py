"""BLAKE3 in pure Python, without other packages; hashes 10 to 20 MB a second.

With this module a partner without b3sum can verify downloads without installing anything. The
package blake3 must be compiled, or needs a wheel for the platform.

One Python integer holds many words, so that a single addition works on hundreds of chunks. Every
64 bits of the integer are a lane: its low half holds a word of one chunk, and its high half takes
the carry and the bits that are shifted out.
"""

import struct
from typing import BinaryIO, List, Sequence

IV = (
    *(0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A),
    *(0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19),
)
PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))
CHUNK_START, CHUNK_END, PARENT, ROOT = 1, 2, 4, 8
BLOCK, CHUNK = 64, 1024
GROUP = 512  # chunks that are hashed at once, a power of two


def compress(
    cv: Sequence[int], words: Sequence[int], counter: int, length: int, flags: int, ones: int
) -> List[int]:
    """Return the next chaining value of every lane; `ones` is an integer with a 1 in each lane."""
    mask = 0xFFFFFFFF * ones
    state = [*cv, *(word * ones for word in IV[:4])]
    state += [counter & mask, counter >> 32 & mask, length * ones, flags * ones]
    for _ in range(7):
        message = iter(words)
        for i, j, k, m in COLUMNS + DIAGONALS:
            a, b, c, d = state[i], state[j], state[k], state[m]
            for turn, twist in ((16, 12), (8, 7)):
                a = a + b + next(message) & mask
                d ^= a
                d = (d >> turn | d << 32 - turn) & mask
                c = c + d & mask
                b ^= c
                b = (b >> twist | b << 32 - twist) & mask
            state[i], state[j], state[k], state[m] = a, b, c, d
        words = [words[i] for i in PERMUTATION]
    return [low ^ high for low, high in zip(state[:8], state[8:])]


def pack(words: Sequence[int]) -> int:
    """Put every word into its own lane of one integer."""
    return int.from_bytes(struct.pack("<%dQ" % len(words), *words), "little")


def unpack(number: int, count: int) -> Sequence[int]:
    """Split `number` into its first `count` lanes; return the value of each."""
    return struct.unpack("<%dQ" % count, number.to_bytes(8 * count, "little"))


class Blake3:
    """A BLAKE3 hasher for data that is added in pieces."""

    def __init__(self) -> None:
        self.rest = b""  # the end of the input, at most one group
        self.chunks = 0
        self.stack: List[List[int]] = []  # chaining values of subtrees, the largest subtree first

    def update(self, data: bytes) -> None:
        """Add bytes to the hashed data."""
        data = self.rest + data
        start = 0
        while len(data) - start > CHUNK * GROUP:
            self.add(data[start : start + CHUNK * GROUP])
            start += CHUNK * GROUP
        self.rest = data[start:]

    def add(self, data: bytes) -> None:
        """Hash one subtree of the BLAKE3 tree; its number of chunks must be a power of two."""
        count = size = len(data) // CHUNK
        ones = pack([1] * count)
        counter = pack(range(self.chunks, self.chunks + count))
        words = struct.unpack("<%dI" % (len(data) // 4), data)
        cv = [word * ones for word in IV]
        for block in range(CHUNK // BLOCK):
            flags = {0: CHUNK_START, 15: CHUNK_END}.get(block, 0)
            lanes = [pack(words[16 * block + word :: 256]) for word in range(16)]
            cv = compress(cv, lanes, counter, BLOCK, flags, ones)
        while count > 1:
            spread = [unpack(word, count) for word in cv]
            count //= 2
            ones = pack([1] * count)
            lanes = [pack(word[side::2]) for side in (0, 1) for word in spread]
            cv = compress([word * ones for word in IV], lanes, 0, BLOCK, PARENT, ones)
        self.chunks += size
        trees = self.chunks // size
        while trees % 2 == 0:
            cv = compress(IV, self.stack.pop() + cv, 0, BLOCK, PARENT, 1)
            trees //= 2
        self.stack.append(cv)

    def hexdigest(self) -> str:
        """Return the digest of all added bytes; nothing can be added afterwards."""
        size = CHUNK * GROUP // 2
        while size >= CHUNK:
            if len(self.rest) > size:
                self.add(self.rest[:size])
                self.rest = self.rest[size:]
            size //= 2
        cv, flags = list(IV), CHUNK_START
        while len(self.rest) > BLOCK:
            block, self.rest = self.rest[:BLOCK], self.rest[BLOCK:]
            cv = compress(cv, struct.unpack("<16I", block), self.chunks, BLOCK, flags, 1)
            flags = 0
        length, flags, counter = len(self.rest), flags | CHUNK_END, self.chunks
        words = list(struct.unpack("<16I", self.rest.ljust(BLOCK, b"\0")))
        for left in reversed(self.stack):
            words = left + compress(cv, words, counter, length, flags, 1)
            cv, counter, length, flags = list(IV), 0, BLOCK, PARENT
        return struct.pack("<8I", *compress(cv, words, counter, length, flags | ROOT, 1)).hex()


def blake3_of(file: BinaryIO) -> str:
    """Return the digest of everything that can be read from a file."""
    hasher = Blake3()
    for piece in iter(lambda: file.read(1 << 20), b""):
        hasher.update(piece)
    return hasher.hexdigest()
