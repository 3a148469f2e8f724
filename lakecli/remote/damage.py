"""Records in the bucket that were left out because they are not valid."""

from __future__ import annotations

from typing import NamedTuple

from lakecli.base.layout import pack_key, ref_key
from lakecli.remote.packs import BadCommit, DamagedPack, Pack
from lakecli.remote.refs import BadRef


class Damage(NamedTuple):
    """One invalid record.

    Attributes:
        kind: ``branch``, ``tag``, ``pack`` or ``commit``.
        name: of the branch or tag, or the ID of the pack or commit.
        key: of the object.
        what: the defect, in one line.
    """

    kind: str
    name: str
    key: str
    what: str


def of_ref(bad: BadRef) -> Damage:
    """Describe an invalid ref object."""
    return Damage(bad.kind, bad.name, ref_key(bad.kind, bad.name), bad.what)


def of_pack(error: DamagedPack) -> Damage:
    """Describe a damaged pack."""
    return Damage("pack", error.pack_id, pack_key(error.pack_id), error.message)


def of_commit(pack: Pack, bad: BadCommit) -> Damage:
    """Describe a record of a pack that is not a commit."""
    return Damage("commit", bad.id, pack_key(pack.id), bad.what)
