"""Report the hooks that a lakeFS server would run, since lakecli does not run them.

Hooks are defined by action files, which are committed below ``_lakefs_actions/``. lakeFS reads the
action files in the source of a merge, and in the data to be committed::

    on:
      pre-merge:
        branches: [main]

Only repositories that came from lakeFS are searched for hooks.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Final, NamedTuple

from lakecli.base.model import MetarangeId
from lakecli.base.parsing import Unparsable, parse_yaml
from lakecli.committed.scan import scan
from lakecli.committed.values import decode_entry
from lakecli.errors import LakeError
from lakecli.repository.contract import Repository
from lakecli.repository.reading.contents import read_object

ACTIONS: Final = "_lakefs_actions/"

MAX_FILES: Final = 16
"""The largest number of action files that are read from one tree."""

MAX_BRANCHES: Final = 8
"""The largest number of branches that are searched for action files."""

MAX_SIZE: Final = 64 << 10
_ACTS: Final = (
    "merge", "commit", "create-branch", "delete-branch", "create-tag", "delete-tag", "revert",
    "cherry-pick",
)  # fmt: skip
EVENTS: Final = {"prepare-commit", *(f"{when}-{act}" for when in ("pre", "post") for act in _ACTS)}
"""The events for which lakeFS runs hooks."""

MERGE: Final = ("pre-merge", "post-merge")
COMMIT: Final = ("prepare-commit", "pre-commit", "post-commit")
CHERRY_PICK: Final = ("pre-cherry-pick", "post-cherry-pick")
REVERT: Final = ("pre-revert", "post-revert")


class ActionFile(NamedTuple):
    """An action file, which says for which events and branches lakeFS runs its hooks.

    Attributes:
        events: for each event, the patterns of the branches for which hooks run; an empty list: all
            branches. ``None`` if the file cannot be read.
    """

    path: str
    events: Mapping[str, tuple[str, ...]] | None

    def concerns(self, events: Iterable[str], branch: str) -> bool:
        """Return whether lakeFS may run a hook of this file for any of `events` on a branch.

        Patterns are not matched: a pattern with a wildcard counts as a match.
        """
        if self.events is None:
            return True
        named = [self.events[each] for each in events if each in self.events]
        patterns = (each for several in named for each in several)
        matches = any(each == branch or set(each) & set("*?[{!") for each in patterns)
        return matches or not all(named)


def action_files(repository: Repository, *trees: MetarangeId) -> list[ActionFile]:
    """Return the action files of some trees, without duplicates; at most `MAX_FILES` per tree."""
    found: dict[tuple[bytes, bytes], None] = {}
    for tree in trees:
        below = scan(repository.trees, tree, prefix=ACTIONS.encode())
        found |= dict.fromkeys(islice(below, MAX_FILES))
    files = ((path, value) for path, value in found if path.endswith((b".yaml", b".yml")))
    named = ((path.decode("ascii", "backslashreplace"), value) for path, value in files)
    return [ActionFile(path, _events(repository, value)) for path, value in named]


def _events(repository: Repository, value: bytes) -> dict[str, tuple[str, ...]] | None:
    try:
        entry = decode_entry(value)
        if entry.size > MAX_SIZE:
            return None
        text = b"".join(read_object(repository, entry)).decode()
        events = parse_yaml(text).get("on")
    except (LakeError, Unparsable, UnicodeDecodeError):
        return None
    known = ((name, each) for name, each in _fields(events).items() if name in EVENTS)
    return {name: tuple(_patterns(each)) for name, each in known}


def _fields(found: Any) -> Mapping[Any, Any]:  # noqa: ANN401 - whatever YAML can be
    return found if isinstance(found, dict) else {}


def _patterns(event: Any) -> Iterator[str]:  # noqa: ANN401 - as above
    branches = _fields(event).get("branches")
    for each in branches if isinstance(branches, list) else ():
        yield each if isinstance(each, str) else "*"


def notify_hooks(
    repository: Repository, events: Iterable[str], branch: str, *trees: MetarangeId
) -> None:
    """Add a notice if lakeFS would have run hooks for any of these events on a branch."""
    if not repository.record.is_from_lakefs:
        return
    with suppress(LakeError):  # damage is reported when the damaged object is needed
        files = action_files(repository, *trees)
        found = sorted({each.path for each in files if each.concerns(events, branch)})
        if found:
            what = f"lakeFS ran hooks here, which lakecli does not run: {', '.join(found)}"
            repository.notify(what, hint="run the checks yourself; see: `help lakefs`")


def branch_with_actions(repository: Repository) -> tuple[str, list[ActionFile]] | None:
    """Return a branch with action files, and these files; try the default branch first."""
    if not repository.record.is_from_lakefs:
        return None
    default = repository.record.default_branch
    with repository.lake.kv.read() as txn:
        refs = repository.refs(txn)
        branches = sorted(refs.iter_branches(), key=lambda each: each.name != default)
        trees: dict[MetarangeId, str] = {}
        for each in branches:
            if len(trees) < MAX_BRANCHES and (commit := refs.find_commit(each.commit_id)):
                trees.setdefault(commit.metarange_id, each.name)
    for tree, name in trees.items():
        with suppress(LakeError):
            if files := action_files(repository, tree):
                return name, files
    return None
