"""Moves of refs in the bucket that this clone has begun: written down first, settled in the end.

Each has one write ID, random and made once. It is in the local store before the first request, so
that whoever comes after a crash finds out what became of the move, and repeats it as the same one.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from lakecli.ids import CommitId, PackId, WriteId
from lakecli.kv.intents import IntentStore
from lakecli.model import StagingToken
from lakecli.refs.store import RefStore
from lakecli.remote.move import Intent, Outcome
from lakecli.repository.core import operations, tracking

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakecli.kv.env import ReadTransaction, WriteTransaction
    from lakecli.remote.move import Result
    from lakecli.repository.core.lake import Repository

_ID_FIELD = "write_id"
"""Rows without it are those of `lakecli.repository.core.unsent`."""


class Begun(NamedTuple):
    """A move that was begun.

    Attributes:
        intent: the move.
        local: what is to happen here once the bucket has taken it, as `publish` has it; ``None``
            where a push sent what had happened here already.
        sent: when its last request was sent, by this machine's clock; ``None``: none was.
    """

    intent: Intent
    local: Mapping[str, Any] | None
    sent: datetime | None = None

    @property
    def id(self) -> bytes:
        """The key of its row."""
        return bytes.fromhex(self.intent.write_id)


def iter_begun(txn: ReadTransaction, repository: Repository) -> Iterator[Begun]:
    """Yield the moves that were begun and are not settled."""
    for _, fields in IntentStore(txn, repository.key).iter():
        if _ID_FIELD in fields:
            yield _load(fields)


def write_down(txn: WriteTransaction, repository: Repository, begun: Begun) -> None:
    """Note that a move is about to be sent; other moves of the same ref are given up.

    Commits that were sent are not: another process may be waiting for the outcome.
    """
    rows = IntentStore(txn, repository.key)
    for other in list(iter_begun(txn, repository)):
        is_sent = other.local is not None and other.sent is not None
        same_ref = (other.intent.kind, other.intent.name) == (begun.intent.kind, begun.intent.name)
        if same_ref and not is_sent:
            rows.delete(other.id)
    fields = {**begun.intent._asdict(), "local": begun.local, "sent": None}
    rows.put(begun.id, {**fields, "at": int(begun.intent.at.timestamp())})


def give_up(txn: WriteTransaction, repository: Repository, begun: Begun) -> None:
    """Forget a move that was never sent."""
    IntentStore(txn, repository.key).delete(begun.id)


def settle(txn: WriteTransaction, repository: Repository, begun: Begun, result: Result) -> None:
    """Write down what became of a move, and do here what follows from it; repeating is fine."""
    applied = result.outcome == Outcome.APPLIED
    # Where somebody else moved it, that is for a fetch to bring: a lease means what was fetched.
    if applied and result.ref is not None:
        tracking.track(txn, repository, result.ref)
    is_new = IntentStore(txn, repository.key).delete(begun.id)
    intent = begun.intent
    if not applied:
        return
    if begun.local is None:
        if not is_new:
            return  # another process has settled it
        metadata = {
            "ref": intent.name,
            "kind": intent.kind,
            "before": intent.before or "",
            "after": intent.after or "",
        }
        operations.append(txn, repository, kind="push", metadata=metadata)
    elif intent.after is not None:
        # Another process may have settled it, or given it up for a move of its own: landing it
        # once more does nothing, or what is still missing. But it may have been undone since.
        from lakecli.repository.core.transaction import land

        if not is_new and _was_landed(txn, repository, begun):
            return
        commit = RefStore(txn, repository.key).get_commit(intent.after)
        sealed = [StagingToken(bytes.fromhex(token)) for token in begun.local["sealed"]]
        land(
            txn,
            repository,
            commit,
            branch=intent.name,
            kind=begun.local["operation"],
            sealed=sealed,
            from_staging=begun.local.get("from_staging", True),  # as earlier versions took it
        )


def _was_landed(txn: WriteTransaction, repository: Repository, begun: Begun) -> bool:
    """Tell whether an operation of the log has moved the branch here to what was sent."""
    from lakecli.kv.operations import iter_operations

    wanted = ("branch", begun.intent.name, begun.intent.after)
    return any(
        (change.kind, change.name, operations.commit_of(change.after)) == wanted
        for operation in iter_operations(txn, repository.key)
        for change in operation.refs
    )


def _load(fields: Mapping[str, Any]) -> Begun:
    values = {name: fields[name] for name in Intent._fields if name in fields}
    values["at"] = datetime.fromtimestamp(fields["at"], UTC)
    values["write_id"] = WriteId(fields["write_id"])
    for end in ("before", "after"):
        values[end] = None if fields[end] is None else CommitId(fields[end])
    if values.get("pack"):
        values["pack"] = PackId(fields["pack"])
    sent = fields.get("sent", fields["at"])  # rows of older versions do not say: they may be sent
    return Begun(
        Intent(**values),
        fields["local"],
        None if sent is None else datetime.fromtimestamp(sent, UTC),
    )
