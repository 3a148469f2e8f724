"""JSON answers about fsck and doctor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from lakecli.base.model import CommitId
from lakecli.cli.out.answers.sharing import OutsidePlace


class _Checked(TypedDict):
    """What every object has.

    Attributes:
        type: finding; repaired, of a file in the cache or with --repair; repairable or lost with
            --repair; or summary, which comes last.
    """

    type: str


class Checked(_Checked, total=False):
    """A finding, a repair, a loss, or the summary at the end.

    Attributes:
        type: finding; repaired, of a file in the cache or with --repair; repairable or lost with
            --repair; or summary, which comes last.
        kind: repository, ref, commit, pack, metarange, range, entry, data, external, or cache.
        name: name of the branch or tag, commit ID, or key of the object.
        what: what is wrong.
        path: an affected path.
        ref: an affected branch or tag.
        commit_id: commit of the path; null if it is uncommitted.
        how: how it was repaired, or would be.
        hurt_refs: branches and tags that a loss affects.
        hurt_paths: affected paths, at most 100.
        hurt_path_count: number of affected paths, as far as known.
        advice: advice about a loss.
        refs: number of branches and tags checked.
        commits: number of commits checked.
        metaranges: number of metaranges checked.
        ranges: number of ranges checked.
        entries: number of entries checked.
        objects: number of data objects in the storage namespace.
        bytes_hashed: bytes read with --data or --sample.
        external: number of entries outside the storage namespace.
        external_asked: number of them checked with --external.
        expired: number of trees of old commits that garbage collection has deleted by its rules.
        outside: places of objects outside the storage namespace.
    """

    kind: str
    name: str
    what: str
    path: bytes | str | None
    ref: str | None
    commit_id: CommitId | None
    how: str
    hurt_refs: Sequence[str]
    hurt_paths: Sequence[bytes]
    hurt_path_count: int
    advice: str
    refs: int
    commits: int
    metaranges: int
    ranges: int
    entries: int
    objects: int
    bytes_hashed: int
    external: int
    external_asked: int
    expired: int
    findings: int
    damaged_refs: Sequence[str]
    outside: Sequence[OutsidePlace]


class Check(TypedDict):
    """One check of the doctor.

    Attributes:
        name: name such as create-only; names do not change, new ones may come.
        verdict: ok, warning, failed or skipped.
        seen: result in one line; for a skipped check, the reason.
        fix: the fix: a command, a permission or a variable.
        kind: kind of the error if it failed, as in errors.
        details: further details, such as the difference of the clocks in seconds.
    """

    name: str
    verdict: str
    seen: str
    fix: str | None
    kind: str | None
    details: Mapping[str, str]


class Examination(TypedDict):
    """The result of all checks of the doctor.

    Attributes:
        target: the repository, or the storage namespace in normal form.
        storage_namespace: URI of the storage namespace; null if the local store does not open.
        verdict: the worst of all verdicts: ok, warning or failed.
        checks: checks, in the order in which they ran.
    """

    target: str
    storage_namespace: str | None
    verdict: str
    checks: Sequence[Check]
