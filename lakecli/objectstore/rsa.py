"""RSA signatures by a private key of this machine. Run as a program, it signs for `rsa_processes`.

As a program it gets nothing but a key and digests, through a pipe: eight digits that say how many
bytes follow, the key as PEM and the paths to import from, separated by NUL, then digests. It prints
the size of a signature as a line, then a signature for each digest, and ends with the pipe. It
imports no other module of lakecli. Arguments are descriptors of further pipes; see `run`.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from io import BufferedReader

DIGEST_SIZE = 32
AT_ONCE = 32
"""How many digests the program reads and answers at once, at most."""

HEAD_SIZE = 8
"""Digits before the key."""

_PROBE = b"\0" * DIGEST_SIZE

_SHA256_INFO = bytes.fromhex("3031300d060960864801650304020105000420")
"""What PKCS #1 v1.5 puts before a SHA-256 digest: the algorithm and the sizes, in DER."""


class PrivateKey:
    """An RSA key. Its text is never shown, and threads may share it.

    Args:
        pem: the key as PEM, not encrypted.
    """

    __slots__ = ("_sign", "pem")

    def __init__(self, pem: str) -> None:
        self.pem = pem
        self._sign: Callable[[bytes], bytes] | None = None

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same text."""
        return isinstance(other, PrivateKey) and self.pem == other.pem

    def __hash__(self) -> int:
        """Return the hash of the text."""
        return hash(self.pem)

    def __repr__(self) -> str:
        """Return a text without the key."""
        return "PrivateKey()"

    def sign(self, digest: bytes) -> bytes:
        """Return the signature of a SHA-256 digest, by PKCS #1 v1.5.

        Raises:
            ValueError: not an RSA key, or a damaged one.
        """
        if self._sign is None:
            self._sign = signing(self.pem)
        return self._sign(digest)


def quick_loader() -> Callable[..., object]:
    """Return `load_pem_private_key` of ``cryptography``, and load what signs, in 25 ms.

    The package that has it also loads what reads keys of SSH, in further 15 ms. So it comes from
    where that package has it from, as long as that exists.
    """
    import cryptography.hazmat.primitives.asymmetric.padding  # noqa: F401

    try:
        from cryptography.hazmat.bindings._rust import openssl

        found: Callable[..., object] = openssl.keys.load_pem_private_key
    except (ImportError, AttributeError):
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        return load_pem_private_key
    return found


def signing(pem: str, load_key: Callable[..., object] | None = None) -> Callable[[bytes], bytes]:
    """Return a function that returns the signature of a SHA-256 digest, by PKCS #1 v1.5.

    A first signature checks the key, in a hundredth of the time in which its factors are proven to
    be primes. A damaged key does not give its factors away: OpenSSL verifies what it computes from
    them before it returns it.

    Args:
        pem: the key.
        load_key: what `quick_loader` returns, if another error than of the key may follow.

    Raises:
        ValueError: not an RSA key, or a damaged one.
    """
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import utils
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.hashes import SHA256

    if load_key is None:
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        load_key = load_pem_private_key

    padding, hashed = PKCS1v15(), utils.Prehashed(SHA256())
    prefix = b""
    algorithm: utils.Prehashed | utils.NoDigestInfo = hashed
    if hasattr(utils, "NoDigestInfo"):  # since version 47
        # To look for SHA-256 again for each signature takes 3 µs.
        prefix, algorithm = _SHA256_INFO, utils.NoDigestInfo()
    try:
        key = load_key(pem.encode(), None, unsafe_skip_rsa_key_validation=True)
        if isinstance(key, RSAPrivateKey):
            sign = key.sign
            signature = sign(prefix + _PROBE, padding, algorithm)
            key.public_key().verify(signature, _PROBE, padding, hashed)
            return lambda digest: sign(prefix + digest, padding, algorithm)
    except (TypeError, UnsupportedAlgorithm, InvalidSignature) as error:
        raise ValueError("a damaged key, or one with a password") from error
    raise ValueError("not an RSA key")


def head_of(key: PrivateKey) -> bytes:
    """Return what the program reads before digests."""
    text = os.fsencode("\0".join((key.pem, *filter(None, sys.path))))
    return b"%0*d" % (HEAD_SIZE, len(text)) + text


def run(descriptors: Sequence[int]) -> None:
    """Sign what comes through the standard input, and what comes through further pipes.

    For each of these there is a process of its own, forked when all is loaded, since this program
    has one thread. They end with their pipes, and this process after them.

    Args:
        descriptors: of the pipes: one to read from, one for its answers, and so on.
    """
    _close_all_but({0, 1, 2, *descriptors})
    source, target = os.fdopen(0, "rb"), 1
    head = source.read(int(source.read(HEAD_SIZE)))
    pem, *sys.path[:] = os.fsdecode(head).split("\0")
    load_key = quick_loader()
    children: list[int] = []
    try:
        for at in range(0, len(descriptors), 2):
            child = os.fork()
            if not child:
                # A pipe ends when nobody else has it.
                os.close(target)
                source.close()
                source, target, children = os.fdopen(descriptors[at], "rb"), descriptors[at + 1], []
                break
            children.append(child)
        for descriptor in {*descriptors} - {source.fileno(), target}:
            os.close(descriptor)
        _serve(signing(pem, load_key), source, target)
    finally:
        os.close(target)
        for child in children:
            os.waitpid(child, 0)


def _close_all_but(used: set[int]) -> None:
    """Close what was inherited though it has no business here, such as the file of LMDB."""
    for name in os.listdir("/dev/fd"):  # noqa: PTH208 - pathlib takes 3 ms to import
        if int(name) not in used:
            with suppress(OSError):  # that of the list itself
                os.close(int(name))


def _serve(sign: Callable[[bytes], bytes], source: BufferedReader, target: int) -> None:
    os.write(target, b"%d\n" % len(sign(_PROBE)))
    kept = b""
    while found := source.read1(AT_ONCE * DIGEST_SIZE - len(kept)):
        kept += found
        end = len(kept) - len(kept) % DIGEST_SIZE
        answer = b"".join([sign(kept[at : at + DIGEST_SIZE]) for at in range(0, end, DIGEST_SIZE)])
        kept = kept[end:]
        while answer:
            answer = answer[os.write(target, answer) :]


if __name__ == "__main__":
    # Whoever started this signs by itself where this fails, and reports what is wrong with the key.
    gc.disable()  # nothing here refers to itself
    try:
        run(list(map(int, sys.argv[1:])))
    finally:
        os._exit(0)
