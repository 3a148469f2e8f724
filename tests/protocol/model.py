"""What must hold of the writes to a bucket, by what the test did and by the JSON of the records.

A commit adds one object, whose path, contents and message are the same text. So the messages of a
commit's history are the contents that it must have.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from blake3 import blake3

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.protocol.bucket import Write

REFS = "_lakecli/refs/"
REFLOG = "_lakecli/reflog/"
DATA = "data/"


class Made(NamedTuple):
    """A commit: its parents, and the text of its object, ``""`` if it adds none."""

    parents: tuple[str, ...]
    text: str


def data_key(text: str) -> str:
    digest = blake3(text.encode()).hexdigest()
    return f"{DATA}{digest[:2]}/{digest[2:]}"


class Model:
    """The promises of the protocol, which every write is compared with.

    Args:
        find: returns a commit by its ID, as the clone that made it has recorded it.
        contents: returns the contents of an object of the bucket; ``None`` if it is absent.

    Attributes:
        moves: of every ref by its key, oldest first.
        acknowledged: commits that a clone was told to be on a ref, by the key of the ref.
        in_use: texts of objects that an upload or a commit acknowledged.
        leases: positions that a command may force a ref away from.
    """

    def __init__(
        self, find: Callable[[str], Made], contents: Callable[[str], bytes | None]
    ) -> None:
        self._find = find
        self._contents = contents
        self._writes: set[str] = set()
        self.moves: dict[str, list[dict[str, Any]]] = {}
        self.acknowledged: dict[str, list[str]] = {}
        self.in_use: set[str] = set()
        self.leases: set[str] = set()

    def begin(self, key: str, contents: bytes) -> None:
        """Take a ref as it is when the test begins."""
        self.moves[key] = self._all_moves(key, json.loads(contents)["moves"])
        self._writes.update(move["write_id"] for move in self.moves[key])

    def history(self, commit: str | None) -> set[str]:
        """Return a commit and all its ancestors."""
        found: set[str] = set()
        waiting = [commit] if commit else []
        while waiting:
            each = waiting.pop()
            if each not in found:
                found.add(each)
                waiting += self._find(each).parents
        return found

    def texts(self, commit: str | None) -> list[str]:
        """Return the texts that a commit must have, with as many of each as commits added it."""
        return sorted(filter(None, (self._find(each).text for each in self.history(commit))))

    def position(self, key: str) -> str | None:
        """Return the commit that a ref points at."""
        moves = self.moves.get(key)
        at: str | None = moves[-1]["to"] if moves else None
        return at

    def acknowledge(self, key: str, commit: str) -> None:
        """Note that a clone was told that a ref has a commit."""
        assert any(commit in self.history(move["to"]) for move in self.moves[key]), "never pushed"
        self.acknowledged.setdefault(key, []).append(commit)

    def check(self, write: Write) -> None:
        """Check a write that just took effect."""
        if write.key.startswith(REFS):
            self._check_move(write)
        elif write.key.startswith(REFLOG):
            assert write.before in (None, write.after), "moves in the reflog were changed"
        elif write.key.startswith(DATA) and write.after is None and write.before is not None:
            needed = {text for key in self.moves for text in self.texts(self.position(key))}
            lost = {data_key(text) for text in needed | self.in_use}
            assert write.key not in lost, f"an object in use was deleted: {write.key}"

    def _check_move(self, write: Write) -> None:
        assert write.after is not None, "a ref object was deleted"
        assert write.compared, "a ref moved without a condition"
        ref = json.loads(write.after)
        moves = self.moves.setdefault(write.key, [])
        move = ref["moves"][0]
        assert ref["sequence"] == move["sequence"] == len(moves) + 1, "not the next number"
        assert move["from"] == self.position(write.key), "not from where the ref was"
        assert move["to"] == ref["commit_id"]
        assert move["write_id"] == ref["write_id"]
        assert move["write_id"] not in self._writes, "one move was made twice"
        self._writes.add(move["write_id"])
        moves.append(move)
        assert self._all_moves(write.key, ref["moves"]) == moves, "moves were changed"
        if move["to"] is not None:
            missing = [
                text for text in self.texts(move["to"]) if self._contents(data_key(text)) is None
            ]
            assert missing == [], "a commit was pushed without its objects"
        is_forward = move["from"] is None or move["from"] in self.history(move["to"])
        assert is_forward or move["from"] in self.leases, (
            "a ref was forced from where others put it"
        )

    def _all_moves(self, key: str, kept: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the moves that a ref and its reflog have, oldest first."""
        listed = [*kept]
        while listed[-1]["sequence"] > 1:
            chunk = f"{REFLOG}{key.removeprefix(REFS)}/{listed[-1]['sequence'] - 1:016}"
            contents = self._contents(chunk)
            assert contents is not None, "moves are gone"
            listed += json.loads(contents)["moves"]
        return listed[::-1]

    def check_end(self) -> None:
        """Check that no ref has lost what was acknowledged."""
        for key, commits in self.acknowledged.items():
            left = {move["from"] for move in self.moves[key]} & self.leases
            reached = self.history(self.position(key)).union(*map(self.history, left))
            assert reached.issuperset(commits), "an acknowledged commit is lost"
