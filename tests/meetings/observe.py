"""What a user can see of two machines and their bucket, so that two runs can be compared."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from lakecli.base.layout import POLICY, REFS
from lakecli.committed.values import decode_entry
from lakecli.refs.ref_store import RefStore
from lakecli.repository.handle.lake import Lake
from lakecli.repository.reading.view import open_view
from lakecli.repository.runtime import Home, Runtime
from lakecli.repository.undo.log import is_passed_over, iter_log
from tests.meetings.world import MACHINES

if TYPE_CHECKING:
    from lakecli.repository.contract import Repository
    from tests.meetings.world import Machines

_IDS = re.compile(r'"?(?:[0-9a-f]{64}|[0-9a-f]{32}|\b[0-9a-f]{12}\b)"?')
"""IDs, and the quotes that YAML sets around those that look like numbers."""

_TIMES = re.compile(r"\d{4}-?\d\d-?\d\dT\d\d:?\d\d:?\d\dZ")
"""Times, which are those of a machine's clock."""

_contents: dict[object, dict[str, str]] = {}
"""Checksums by path, for each tree and what is staged on top of it."""


def observe(world: Machines) -> dict[str, Any]:
    """Return everything that a user of either machine can rely on."""
    seen: dict[str, Any] = {machine: _machine(world, machine) for machine in MACHINES}
    seen["bucket"] = _bucket(world)
    return seen


def _machine(world: Machines, machine: str) -> dict[str, Any]:
    home = world.home(machine)
    runtime = Runtime(lambda: world.now, lambda: bytes(16), "observe")
    with Lake.open(Home(home / "store", home / "cache"), runtime) as lake:
        repositories = {
            each.name: _repository(lake.repository(each.name)) for each in lake.repositories()
        }
    config = home / "config.toml"
    files = world.files(machine)
    return {
        "repositories": repositories,
        "config": config.read_text() if config.exists() else "",
        "files": {
            _masked(str(path.relative_to(files))): _masked(path.read_text("utf-8", "replace"))
            for path in sorted(files.rglob("*"))
            if path.is_file()
        },
    }


def log_of(world: Machines, machine: str) -> dict[str, list[str]]:
    """Return what undo and redo can take back of each repository, newest first."""
    home = world.home(machine)
    runtime = Runtime(lambda: world.now, lambda: bytes(16), "observe")
    with Lake.open(Home(home / "store", home / "cache"), runtime) as lake:
        return {
            each.name: [
                f"{logged.operation.kind} {logged.operation.id.hex()}"
                for logged in iter_log(lake.repository(each.name))
                if not is_passed_over(logged.operation)
            ]
            for each in lake.repositories()
        }


def _masked(text: str) -> str:
    return _TIMES.sub("TIME", _IDS.sub("ID", text))


def _repository(repository: Repository) -> dict[str, Any]:
    with repository.lake.kv.read() as txn:
        refs = RefStore(txn, repository.key)
        heads = {each.name: each.commit_id for each in refs.iter_branches()}
        tags = {each.name: each.commit_id for each in refs.iter_tags()}
    contents = {}
    for name in heads:
        with open_view(repository, name) as view:
            key = view.commit.metarange_id, tuple(view.staged())
            if key not in _contents:
                _contents[key] = {
                    path.decode(): decode_entry(value).checksum for path, value in view.scan()
                }
            contents[name] = _contents[key]
    return {"branches": heads, "tags": tags, "contents": contents}


def _bucket(world: Machines) -> dict[str, Any]:
    refs: dict[str, Any] = {}
    collection = "idle"
    for key, stored in world.bucket.objects.items():
        place, _, name = key.partition("/")
        if name.startswith(REFS):
            refs[f"{place}/{name}"] = json.loads(stored.body)["commit_id"]
        if name == "_lakecli/gc/state":
            collection = json.loads(stored.body)["phase"]
        if name == "_lakecli/repository.json":
            refs[place] = "a repository"
        if name == POLICY:
            refs[f"{place}/{name}"] = json.loads(stored.body)["document"]
    return {"refs": refs, "collection": collection}
