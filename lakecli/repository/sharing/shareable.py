"""Whether a storage namespace can be shared: looked at once, before this clone first writes a ref.

Everything that several machines do rests on compare-and-set, and a store that ignores conditions
answers like one that honours them. So the promises are put to the test, and what came of it is
remembered in the local store: a namespace that passed is never asked again, one that failed when
a day has passed or by ``lakecli doctor``, since stores are upgraded and replaced.

::

    META  sharing/ ‖ repository  -> what was found, as JSON, its time as unix seconds
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli import layout
from lakecli.errors import Refused, Unsupported
from lakecli.kv.env import Table
from lakecli.objectstore.access import access_of
from lakecli.objectstore.probe import conditions, objects
from lakecli.objectstore.probe.run import distance
from lakecli.objectstore.probe.scratch import Scratch
from lakecli.objectstore.uri import is_local
from lakecli.repository.core.clock import CLOCK_FIX, CLOCK_LIMIT, wrong_by

if TYPE_CHECKING:
    from lakecli.kv.env import ReadTransaction
    from lakecli.repository.core.lake import Repository

VERSION: Final = 1
"""Of what is put to the test; a namespace that passed an older version is looked at anew."""

REFUSED_FOR: Final = timedelta(days=1)
"""How long a store that failed is refused without being asked again."""

PROMISES: Final = ("read-after-write", "create-only", "compare-and-set", "race")
"""The checks of `lakecli.objectstore.probe.run` that sharing rests on."""


class CannotShare(Unsupported):
    """The store does not keep the promises that writing from several machines rests on."""


class ClockOff(Refused):
    """This machine's clock is far from the store's: what it dates would mislead everybody else."""


class Finding(NamedTuple):
    """What is remembered of a namespace.

    Attributes:
        reason: why it cannot be shared, ``""`` if it can.
        at: when it was looked at.
        version: of the look, see `VERSION`.
        namespace: its URI.
    """

    reason: str
    at: datetime
    version: int
    namespace: str


def ensure_shareable(repository: Repository) -> None:
    """Try out, once, whether several machines may write to this repository's namespace.

    Asks the store nothing once it has passed. At the first time it sends about 100 small requests
    under a prefix of their own, which is removed in the end where deleting is allowed.

    Raises:
        CannotShare: the store ignores conditions, or does not show what was written; saying which.
        ClockOff: this machine's clock is more than `CLOCK_LIMIT` from the store's.
        PermissionDenied: reading or writing is not allowed there.
        Unreachable: the store does not answer; nothing is remembered then.
    """
    with repository.lake.kv.read() as txn:
        known = find_finding(txn, repository)
    if known is None or (known.reason and not _is_recent(repository, known)):
        known = remember(repository, _try_out(repository))
    if known.reason:
        raise CannotShare(
            f"{known.namespace} cannot be shared: {known.reason}",
            hint=f"{conditions.FIX}; to have it looked at again: lakecli doctor {repository.uri}",
        )


def find_finding(txn: ReadTransaction, repository: Repository) -> Finding | None:
    """Return what is remembered of a repository's namespace, or ``None`` if it tells nothing now.

    What an older version of the look found tells nothing, nor what was found elsewhere.
    """
    data = txn.get(Table.META, _key(repository))
    if data is None:
        return None
    fields = json.loads(data)
    at = datetime.fromtimestamp(fields["at"], UTC)
    found = Finding(fields["reason"], at, fields["version"], fields["namespace"])
    is_current = (found.version, found.namespace) == (VERSION, _namespace(repository))
    return found if is_current else None


def remember(repository: Repository, reason: str) -> Finding:
    """Write down what a look at the namespace came to; `reason` is ``""`` if it can be shared."""
    found = Finding(reason, repository.lake.now(), VERSION, _namespace(repository))
    fields = {**found._asdict(), "at": int(found.at.timestamp())}
    with repository.lake.kv.write() as txn:
        txn.put(Table.META, _key(repository), json.dumps(fields).encode("ascii"))
    return found


def check_clock(ahead: timedelta) -> None:
    """Refuse to share from a machine whose clock is far off.

    Args:
        ahead: how far the store's clock is ahead of this machine's.

    Raises:
        ClockOff: more than `CLOCK_LIMIT`, either way.
    """
    if abs(ahead) > CLOCK_LIMIT:
        raise ClockOff(wrong_by(ahead), hint=CLOCK_FIX)


def _try_out(repository: Repository) -> str:
    """Return why the namespace cannot be shared, or ``""``."""
    clock, store = repository.lake.runtime.clock, repository.store
    prefix = f"{layout.DOCTOR}{repository.lake.runtime.new_id().hex()}/"
    scratch = Scratch(store, prefix)
    try:
        before = clock()
        objects.check_write(scratch)
        after = clock()
        # A store that nobody signs in to is of this machine, and so is its clock.
        if not is_local(store.uri) and access_of(store) is not None:
            told = store.head(prefix + objects.OBJECT).modified_at
            check_clock(distance(told, before, after))
        try:
            objects.check_read_after_write(scratch)
            conditions.check_create_only(scratch)
            conditions.check_match(scratch)
            conditions.check_races(scratch)
        except Unsupported as error:
            return error.message
        return ""
    finally:
        scratch.remove_after_failure()  # who may write and not delete can share all the same


def _is_recent(repository: Repository, found: Finding) -> bool:
    return abs(repository.lake.now() - found.at) < REFUSED_FOR


def _namespace(repository: Repository) -> str:
    return repository.record.storage_namespace


def _key(repository: Repository) -> bytes:
    return b"sharing/" + repository.key
