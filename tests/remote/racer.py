"""A process that moves branch main of a namespace, started by the tests of this directory.

``python racer.py URI NAME COUNT``: waits for a line on stdin, makes `COUNT` moves from wherever the
ref stands, however often it loses, and prints the write IDs of those that were applied.
"""

from __future__ import annotations

import sys

from lakecli.base.model import RefKind
from lakecli.base.retry import Retries, RetryPolicy
from lakecli.remote.refs import MoveOutcome, find_ref
from lakecli.stores.registry import open_store
from tests.remote.chains import commit, intent, move_ref


def main(uri: str, name: str, count: str) -> None:
    """Make the moves."""
    store = open_store(uri)
    find_ref(store, RefKind.BRANCH, "main")  # everything that takes long to load is loaded now
    print("ready", flush=True)
    sys.stdin.readline()
    retries = Retries(RetryPolicy(64, first_delay=0.01))
    applied = 0
    number = 0
    while applied < int(count):
        number += 1
        ref = find_ref(store, RefKind.BRANCH, "main")
        before, since = (None, 0) if ref is None else (ref.commit_id, ref.sequence)
        wanted = intent(f"{name}-{number}", before, commit(since + 1), since=since)
        if move_ref(store, wanted, retries=retries).outcome is MoveOutcome.APPLIED:
            print(wanted.write_id, flush=True)
            applied += 1


if __name__ == "__main__":
    main(*sys.argv[1:])
