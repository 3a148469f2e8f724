"""Defects that would lose data, most of which the tests did not detect when they were found.

Each replaces a text of a module: cosmic-ray has no operator that makes them.
"""

from __future__ import annotations

from dataclasses import dataclass

GC = "pipeline/gc/"


@dataclass(frozen=True, slots=True)
class Defect:
    """A text of a module, and its replacement.

    Attributes:
        title: the effect of the defect.
        module: below `lakecli`.
        old: the text, which occurs once.
        new: the replacement.
    """

    title: str
    module: str
    old: str
    new: str


DEFECTS = (
    Defect(
        "where a ref moved from is no root",
        f"{GC}positions.py",
        "update((move.before, move.after))",
        "update((move.after,))",
    ),
    Defect(
        "what is sealed is no root",
        f"{GC}own.py",
        "tokens.update((branch.staging_token, *branch.sealed_tokens))",
        "tokens.add(branch.staging_token)",
    ),
    Defect(
        "what a commit took, and undo would stage again, is no root",
        f"{GC}own.py",
        "        tokens.update(operation.sealed)\n        for ref in operation.refs:\n"
        "            tokens.update(_tokens_of(ref.before), _tokens_of(ref.after))\n",
        "",
    ),
    Defect(
        "moves that were begun are no roots",
        f"{GC}own.py",
        "for begun in intents.iter_begun(txn, repository):",
        "for begun in list(intents.iter_begun(txn, repository))[:0]:",
    ),
    Defect(
        "objects are condemned an hour early",
        f"{GC}mark.py",
        "self.grace - 2 * STALE_AFTER",
        "self.grace - STALE_AFTER",
    ),
    Defect(
        "the sweep begins an hour early",
        f"{GC}run.py",
        "sweep_at += max(state.grace, grace) + STALE_AFTER",
        "sweep_at += max(state.grace, grace)",
    ),
    Defect(
        "a grace period above the reflog's is not kept",
        f"{GC}roots.py",
        "max(REFLOG_KEPT, grace)",
        "REFLOG_KEPT",
    ),
    Defect(
        "trees go after what they refer to",
        f"{GC}sweep.py",
        "            self._spared += delete(_garbage(trees))\n"
        '            self._spared += delete(_garbage(each for each in others if each.kind != "meta'
        'range"))\n',
        '            self._spared += delete(_garbage(each for each in others if each.kind != "meta'
        'range"))\n'
        "            self._spared += delete(_garbage(trees))\n",
    ),
    Defect(
        "a sweep does not look at keeps",
        f"{GC}sweep.py",
        "if not info.is_old} | self._keep()",
        "if not info.is_old}",
    ),
    Defect(
        "a commit drops another one that came before it",
        "repository/core/landing.py",
        "present.commit_id == head and (*newer, *sealed) == present.sealed_tokens",
        "(*newer, *sealed) == present.sealed_tokens",
    ),
    Defect(
        "a commit takes what another one took",
        "repository/core/landing.py",
        "present.commit_id == head and (*newer, *sealed) == present.sealed_tokens",
        "present.commit_id == head",
    ),
    Defect(
        "sealed work goes with a branch deleted elsewhere",
        "repository/sharing/follow.py",
        "areas = (before.staging_token, *before.sealed_tokens)",
        "areas = (before.staging_token,)",
    ),
    Defect(
        "what is still to be sent follows the bucket",
        "repository/sharing/follow.py",
        "        unsent.find_unsent(txn, repository, *key) is not None\n        or unsent",
        "        unsent",
    ),
    Defect(
        "a refused condition counts as created",
        "objectstore/s3/direct.py",
        "HTTPStatus.PRECONDITION_FAILED: False",
        "HTTPStatus.PRECONDITION_FAILED: True",
    ),
    Defect(
        "only the first of a few files is synced",
        "objectstore/local/batch.py",
        "for temporary in temporaries:\n            descriptor",
        "for temporary in temporaries[:1]:\n            descriptor",
    ),
    Defect(
        "the names of new directories are not synced",
        "objectstore/local/files.py",
        "    if sync:\n        sync_names(parent)\n    return os.open",
        "    return os.open",
    ),
    Defect(
        "LMDB commits without a sync",
        "kv/environment.py",
        "max_readers=_MAX_READERS, mode=0o700\n",
        "max_readers=_MAX_READERS, mode=0o700, sync=False\n",
    ),
    Defect(
        "a point read believes a damaged block",
        "sstable/reader.py",
        "            verify(stored, size)\n            return search_block",
        "            return search_block",
    ),
    Defect(
        "a page of deletes is too large",
        "objectstore/s3/store.py",
        "delete_size = versions.PAGE_SIZE",
        "delete_size = versions.PAGE_SIZE + 1",
    ),
)
