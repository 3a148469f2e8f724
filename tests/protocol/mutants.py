"""Defects of the protocol, with the scene and the fault that show each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakecli.remote import refs
from lakecli.repository import push
from lakecli.repository.guard import GcGuard
from lakecli.stores.contract import ANY
from tests.protocol.bucket import Fault
from tests.protocol.scenes import Commits, Deletes, Forces, Pushes, Resets, Scene, Spills, Uses

if TYPE_CHECKING:
    import pytest

    from lakecli.remote.ref_records import RemoteRef
    from lakecli.remote.refs import Intent


class Mutant(NamedTuple):
    """A defect.

    Attributes:
        replaced: functions, as module or class, name, and what is in its place.
        scene: a scene that fails with it.
        says: part of the message.
        fault: of one of the scene's requests.
        meets: whether another clone acts meanwhile.
    """

    replaced: tuple[tuple[Any, str, Any], ...]
    scene: type[Scene]
    says: str
    fault: Fault = Fault.NONE
    meets: bool = False

    def put_in(self, patch: pytest.MonkeyPatch) -> None:
        for owner, name, replacement in self.replaced:
            patch.setattr(owner, name, replacement)


class _Forgetful(set[object]):
    """A set that keeps nothing."""

    def add(self, element: object, /) -> None:
        del element


_begin = refs.RefMove.__init__
_moved = refs._moved


def _begin_forgetful(self: Any, *args: Any, **options: Any) -> None:
    _begin(self, *args, **options)
    self._unanswered = _Forgetful()


def _moved_anew(ref: RemoteRef | None, intent: Intent) -> RemoteRef:
    return _moved(None if ref is None or ref.commit_id is None else ref, intent)


def _drop_older(_store: object, _kind: object, _name: str, moves: Any) -> Any:
    return moves[: refs.KEPT_MOVES]


def _no(*_args: object, **_options: object) -> bool:
    return False


MUTANTS: Final = {
    "a ref moves whatever its version is": Mutant(
        ((refs, "Match", lambda _version: ANY),), Pushes, "without a condition"
    ),
    "a move whose reply was lost is not found again": Mutant(
        ((refs, "_is_among", _no),), Commits, "the error said that nothing was moved", Fault.LOST
    ),
    "a request without an answer is believed not to arrive": Mutant(
        ((refs.RefMove, "__init__", _begin_forgetful),),
        Pushes,
        "the error said that nothing was moved",
        Fault.MUTE,
    ),
    "a deleted ref begins anew": Mutant(
        ((refs, "_moved", _moved_anew),), Deletes, "not the next number"
    ),
    "older moves are dropped": Mutant(((refs, "spill", _drop_older),), Spills, "moves are gone"),
    "a lease is not looked at": Mutant(
        ((push, "_check_lease", _no),), Forces, "forced from where others put it", meets=True
    ),
    "a reset that the bucket refuses stays here": Mutant(
        ((push, "put_back", _no),), Resets, "a refused reset moved the branch here", Fault.NOT_SENT
    ),
    "what exists is used without a claim": Mutant(
        ((GcGuard, "settle", _no),), Uses, "an object in use was deleted", meets=True
    ),
}
