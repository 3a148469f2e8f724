"""What of a bucket was left out because it cannot be believed; everything else is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lakecli.layout import pack_key, ref_key

if TYPE_CHECKING:
    from lakecli.remote.packs import BadCommit, DamagedPack, Pack
    from lakecli.remote.refs import BadRef


class Damage(NamedTuple):
    """One thing in the bucket that was left out.

    Attributes:
        kind: ``branch``, ``tag``, ``pack`` or ``commit``.
        name: of the branch or tag, or the ID of the pack or commit.
        key: of the object.
        what: is wrong with it, in one line.
    """

    kind: str
    name: str
    key: str
    what: str


def of_ref(bad: BadRef) -> Damage:
    """Return the damage that a bad ref object is."""
    return Damage(bad.kind, bad.name, ref_key(bad.kind, bad.name), bad.what)


def of_pack(error: DamagedPack) -> Damage:
    """Return the damage that a bad pack is."""
    return Damage("pack", error.pack_id, pack_key(error.pack_id), error.message)


def of_commit(pack: Pack, bad: BadCommit) -> Damage:
    """Return the damage that a record of a pack is which is no commit."""
    return Damage("commit", bad.id, pack_key(pack.id), bad.what)
