"""RSA signatures: by a key in this process, and by processes that know nothing else."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakecli.objectstore import rsa
from lakecli.objectstore.rsa import PrivateKey
from lakecli.objectstore.rsa_processes import BATCH, MOST, RsaProcesses

if TYPE_CHECKING:
    from collections.abc import Sequence

DIGESTS = [sha256(b"%d" % number).digest() for number in range(100)]
BATCHES = [DIGESTS[start : start + BATCH] for start in range(0, len(DIGESTS), BATCH)]


def test_signatures_are_those_of_pkcs_1(rsa_key: PrivateKey) -> None:
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    theirs = load_pem_private_key(rsa_key.pem.encode(), None)
    assert isinstance(theirs, RSAPrivateKey)
    assert rsa_key.sign(DIGESTS[7]) == theirs.sign(b"7", PKCS1v15(), SHA256())


@pytest.mark.parametrize("is_there", [True, False])
def test_a_key_is_loaded_the_quick_way_where_there_is_one(
    rsa_key: PrivateKey, monkeypatch: pytest.MonkeyPatch, *, is_there: bool
) -> None:
    from cryptography.hazmat.bindings._rust import openssl
    from cryptography.hazmat.primitives import serialization

    if not is_there:
        monkeypatch.delattr(openssl.keys, "load_pem_private_key")
    load_key = rsa.quick_loader()
    assert load_key is serialization.load_pem_private_key
    assert rsa.signing(rsa_key.pem, load_key)(DIGESTS[0]) == rsa_key.sign(DIGESTS[0])


def test_older_libraries_sign_the_same(
    rsa_key: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cryptography.hazmat.primitives.asymmetric import utils

    expected = rsa_key.sign(DIGESTS[0])
    monkeypatch.delattr(utils, "NoDigestInfo")
    assert rsa.signing(rsa_key.pem)(DIGESTS[0]) == expected


def test_a_key_is_not_shown(rsa_key: PrivateKey) -> None:
    assert f"{rsa_key} {rsa_key!r}" == "PrivateKey() PrivateKey()"
    assert rsa_key == PrivateKey(rsa_key.pem)
    assert hash(rsa_key) == hash(PrivateKey(rsa_key.pem))
    assert rsa_key != PrivateKey("")


def damaged(key: PrivateKey) -> Sequence[str]:
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )

    good = load_pem_private_key(key.pem.encode(), None)
    assert isinstance(good, rsa.RSAPrivateKey)
    numbers = good.private_numbers()
    forms = Encoding.PEM, PrivateFormat.PKCS8
    wrong = rsa.RSAPrivateNumbers(
        numbers.p,
        numbers.q,
        numbers.d ^ 4,
        numbers.dmp1 ^ 4,
        numbers.dmq1,
        numbers.iqmp,
        numbers.public_numbers,
    ).private_key(unsafe_skip_rsa_key_validation=True)
    return [
        "",
        key.pem[:-200],
        wrong.private_bytes(*forms, NoEncryption()).decode(),
        good.private_bytes(*forms, BestAvailableEncryption(b"password")).decode(),
        ec.generate_private_key(ec.SECP256R1()).private_bytes(*forms, NoEncryption()).decode(),
    ]


def test_a_damaged_key_signs_nothing(rsa_key: PrivateKey) -> None:
    for pem in damaged(rsa_key):
        with pytest.raises(ValueError, match=r"key|PEM|Could not"):
            PrivateKey(pem).sign(DIGESTS[0])


def test_processes_sign_as_the_key_does(rsa_key: PrivateKey) -> None:
    with RsaProcesses(rsa_key, 2) as processes:
        tickets = [processes.send(batch) for batch in BATCHES]
        assert {ticket.worker for ticket in tickets} == set(processes.workers)
        found = [processes.receive(ticket) for ticket in tickets]
    assert found == [[rsa_key.sign(digest) for digest in batch] for batch in BATCHES]


def numbers_of(processes: RsaProcesses) -> list[int]:
    """Return the numbers of all processes, each of which has answered once."""
    first = processes.pid
    forked = Path(f"/proc/{first}/task/{first}/children").read_text().split()
    return [first, *map(int, forked)]


def test_the_key_is_in_no_list_of_processes(rsa_key: PrivateKey, tmp_path: Path) -> None:
    secret = rsa_key.pem.splitlines()[3].encode()
    assert rsa_key.pem.encode().count(secret) == 1
    before = opened_by(os.getpid())
    file = (tmp_path / "of LMDB").open("wb")
    inheritable = True
    os.set_inheritable(file.fileno(), inheritable)
    with file, RsaProcesses(rsa_key, 3) as processes:
        tickets = [processes.send(DIGESTS[:1]) for _ in range(3)]
        assert None not in [processes.receive(ticket) for ticket in tickets]
        pipes = opened_by(os.getpid()) - before - {file.name}
        assert len(pipes) == 6
        for pid in numbers_of(processes):
            proc = Path(f"/proc/{pid}")
            assert secret not in (proc / "cmdline").read_bytes() + (proc / "environ").read_bytes()
            assert len(opened_by(pid) & pipes) == 2
            assert {name.partition(":")[0] for name in opened_by(pid)} == {"pipe", os.devnull}


def opened_by(pid: int) -> set[str]:
    names = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the list itself
            names.add(str(file.readlink()))
    return names


def test_processes_end_with_their_owner(rsa_key: PrivateKey) -> None:
    processes = RsaProcesses(rsa_key, 3)
    tickets = [processes.send(DIGESTS[:BATCH]) for _ in range(4)]
    assert None not in [processes.receive(ticket) for ticket in tickets[:3]]
    numbers = numbers_of(processes)
    assert len(numbers) == 3
    processes.close()
    assert not [pid for pid in numbers if Path(f"/proc/{pid}").exists()]  # not even as a zombie


def test_ctrl_c_is_for_their_owner(rsa_key: PrivateKey) -> None:
    with RsaProcesses(rsa_key, 2) as processes:
        os.kill(processes.pid, signal.SIGINT)
        tickets = [processes.send(DIGESTS[:1]) for _ in range(2)]
        expected = [rsa_key.sign(DIGESTS[0])]
        assert [processes.receive(ticket) for ticket in tickets] == [expected] * 2
        for pid in numbers_of(processes):
            os.kill(pid, signal.SIGINT)
        tickets = [processes.send(DIGESTS[:1]) for _ in range(2)]
        assert [processes.receive(ticket) for ticket in tickets] == [expected] * 2


@pytest.mark.parametrize("failing", [0, 1])
def test_a_process_that_fails_leaves_the_work_to_others(rsa_key: PrivateKey, failing: int) -> None:
    with RsaProcesses(rsa_key, 2) as processes:
        tickets = [processes.send(DIGESTS[:1]) for _ in range(2)]
        assert None not in [processes.receive(ticket) for ticket in tickets]
        numbers = numbers_of(processes)
        os.kill(numbers[failing], signal.SIGKILL)
        tickets = [processes.send(batch) for batch in BATCHES]
        found = [processes.receive(ticket) for ticket in tickets]
        assert len(processes.workers) == 1
        for batch, signatures in zip(BATCHES, found, strict=True):
            assert signatures in (None, [rsa_key.sign(digest) for digest in batch])
        assert processes.receive(processes.send(DIGESTS[:1])) == [rsa_key.sign(DIGESTS[0])]
        os.kill(numbers[1 - failing], signal.SIGKILL)
        assert processes.receive(processes.send(DIGESTS[:1])) is None
        assert processes.ahead == 0
        assert processes.receive(processes.send(DIGESTS[:1])) is None


def test_a_first_process_that_fails_at_once_leaves_all_to_the_caller(rsa_key: PrivateKey) -> None:
    with RsaProcesses(rsa_key, 3) as processes:
        os.kill(processes.pid, signal.SIGKILL)
        tickets = [processes.send(batch) for batch in BATCHES]
        assert {processes.receive(ticket) is None for ticket in tickets} == {True}


def test_a_key_that_is_damaged_has_no_signatures(rsa_key: PrivateKey) -> None:
    with RsaProcesses(PrivateKey(rsa_key.pem[:-200]), 1) as processes:
        assert processes.receive(processes.send(DIGESTS[:1])) is None


@pytest.mark.parametrize("program", ["print('1' * 99)", "print(256)", "print(0)", "print()"])
def test_answers_of_another_program_are_not_believed(
    rsa_key: PrivateKey, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str
) -> None:
    (tmp_path / "program.py").write_text(program)
    monkeypatch.setattr(rsa, "__file__", str(tmp_path / "program.py"))
    with RsaProcesses(rsa_key, 1) as processes:
        assert processes.receive(processes.send(DIGESTS[:1])) is None


@pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="a size of pipes is of Linux")
def test_no_side_waits_for_the_other_if_pipes_are_small(
    rsa_key: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    def small() -> tuple[int, int]:
        ends = pipe()
        fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, 4_096)
        return ends

    pipe = os.pipe
    monkeypatch.setattr(os, "pipe", small)
    with RsaProcesses(rsa_key, 2) as processes:
        assert processes.ahead == 2
        for _ in range(2):
            tickets = [processes.send(BATCHES[0]) for _ in range(3)]
            assert [ticket.worker is None for ticket in tickets] == [False, False, True]
            found = [processes.receive(ticket) for ticket in tickets]
            assert found[0] == found[1] == [rsa_key.sign(digest) for digest in BATCHES[0]]
            assert found[2] is None


def test_processes_are_bounded(rsa_key: PrivateKey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/true")
    with RsaProcesses(rsa_key, 1_000) as processes:
        assert len(processes.workers) == MOST
