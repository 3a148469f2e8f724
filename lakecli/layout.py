"""Every object key that lakecli writes into a storage namespace, relative to it.

::

    _lakefs/<id>                     ranges and metaranges, flat, never overwritten
    _lakefs/dummy                    lakeFS's marker of a taken namespace
    _lakecli/repository.json         claimed create-only first
    _lakecli/doctor-<id>/…           what `lakecli doctor` tries out, while it does
    _lakecli/incoming/<id>           what came by a PUT link, until it is staged
    _lakecli/…                       refs, commit packs, reflog, gc
    data/<2 hex>/<62 hex>            objects, named by the BLAKE3 of their bytes

Nothing of ours but SSTables goes under ``_lakefs/``: lakeFS's own jobs list it.
"""

from __future__ import annotations

import re

SSTABLES = "_lakefs/"
DATA = "data/"
LAKEFS_MARKER = "_lakefs/dummy"
LEGACY_LAKEFS_MARKER = "dummy"
REPOSITORY = "_lakecli/repository.json"
INCOMING = "_lakecli/incoming/"
DOCTOR = "_lakecli/doctor-"

LAKEFS_MARKER_BODY = b"this is dummy data - created by lakeFS to check accessibility"

_DATA_KEY = re.compile(r"data/[0-9a-f]{2}/[0-9a-f]{62}")


def sstable_key(table_id: str) -> str:
    """Return the key of a range or metarange."""
    return SSTABLES + table_id


def incoming_key(incoming_id: str) -> str:
    """Return the key that a PUT link points to."""
    return INCOMING + incoming_id


def data_key(digest: str) -> str:
    """Return the content address of bytes whose BLAKE3 is `digest` (64 hex digits)."""
    return f"data/{digest[:2]}/{digest[2:]}"


def data_digest(key: str) -> str | None:
    """Return the digest that a content address names, or ``None`` if `key` is none."""
    if not _DATA_KEY.fullmatch(key):
        return None
    return key[5:7] + key[8:]
