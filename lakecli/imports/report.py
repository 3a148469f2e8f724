"""Import options and report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakecli.base.model import Commit
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.imports.addresses import Verify
from lakecli.imports.merging import Tally
from lakecli.imports.rows import Failure


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """How to import.

    Attributes:
        replaces: remove paths below the destination that the source does not have.
        copies: copy the bytes into the namespace instead of referencing the objects.
        pins: record the current version ID of each object.
        verify: which objects of a manifest to ask for where they are, if they are not copied.
        message: commit message.
        metadata: commit metadata.
        allow_empty: commit even if nothing changes.
        progress: counts the objects of each finished part, and their bytes if they are copied.
    """

    replaces: bool = True
    copies: bool = False
    pins: bool = False
    verify: Verify = Verify.SAMPLE
    message: str = "Import objects"
    metadata: Mapping[str, str] = field(default_factory=dict)
    allow_empty: bool = False
    progress: Progress = NO_PROGRESS


@dataclass(slots=True)
class ImportReport:
    """What an import did, or in a dry run would do.

    Attributes:
        tally: counts of objects, bytes and changed paths.
        commit: ``None`` if nothing was committed.
        failed: number of objects that cannot be imported.
        failures: the first of these.
        parts: number of parts.
        resumed: number of parts that an earlier run had finished.
        ranges_written: new ranges that the parts of this run wrote.
        places: buckets and directories outside the namespace where the objects stay.
        verified: number of objects of a manifest that were found where it says.
    """

    tally: Tally = field(default_factory=Tally)
    commit: Commit | None = None
    failed: int = 0
    failures: list[Failure] = field(default_factory=list)
    parts: int = 0
    resumed: int = 0
    ranges_written: int = 0
    places: set[str] = field(default_factory=set)
    verified: int = 0
