"""Where two commands meet: one history, with what came after it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from lakecli.base.identity import blake3_of
from lakecli.base.layout import INCOMING, LAKEFS_MARKER, LAKEFS_MARKER_BODY, LINKS, incoming_key
from lakecli.cli.exit_codes import ExitCode
from lakecli.committed.tree_store import TreeStore
from lakecli.repository.commit_attempts import describe_commit, initial_commit
from lakecli.repository.lakefs.dump import MANIFEST_KEY, format_manifest
from lakecli.repository.refs_dump import write_dump
from lakecli.stores.contract import ANY
from tests.committed.trees import put_foreign
from tests.meetings.arguments import DUMPED, REPOSITORY, SIDE
from tests.meetings.world import BUCKET, LAKEFS, MACHINES, NAMESPACE, START
from tests.support.lakefs_entries import address_of, lakefs_value
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.stores.contract import ObjectStore
    from tests.meetings.world import Machines

MAIN: Final = f"{REPOSITORY}/main"
DEV: Final = f"{REPOSITORY}/dev"
GARBAGE: Final = "garbage that comes into use again"
_RULES: Final = {"default_retention_days": 30, "branches": []}


def history(world: Machines) -> None:
    """Give both machines a repository with two branches and a tag, all of it in the bucket."""
    for machine in MACHINES:
        files = world.files(machine)
        (files / "t").mkdir()
        (files / "t" / "1").write_text("one, changed in a file")
        (files / "t" / "3").write_text("three")
        (files / "new").write_text(GARBAGE)
        (files / "rules").write_text(json.dumps(_RULES))
        (files / "policy").write_text('[[rules]]\nrefs = ["main"]\nforbid = ["direct"]\n')
        (files / "config.toml").write_text('[checks]\npasses = "true"\n')
    put_lakefs(world)
    put = _uploader(world, "ada")
    world.ok("ada", "repo", "create", REPOSITORY, NAMESPACE, "--range-entries", "16")
    put("main", {"t/1": "one", "t/2": "two", "a": "a"})
    world.ok("ada", "commit", MAIN, "-m", "first")
    world.ok("ada", "branch", "create", DEV, "-s", MAIN)
    put("dev", {"d": "on dev", "t/2": "two, on dev"})
    world.ok("ada", "commit", DEV, "-m", "on dev")
    put("main", {"a": "another a"})
    world.ok("ada", "commit", MAIN, "-m", "second")
    world.ok("ada", "tag", "create", f"{REPOSITORY}/v1", MAIN)
    put("main", {"lost": GARBAGE})
    world.ok("ada", "branch", "reset", MAIN, "-y")
    world.ok("ada", "push", REPOSITORY, "--all")
    world.ok("bob", "clone", NAMESPACE, REPOSITORY)
    for machine in MACHINES:
        # The first push tries the namespace out; that is not what these tests are about.
        world.ok(machine, "tag", "create", f"{REPOSITORY}/of-{machine}", MAIN)
        world.ok(machine, "push", f"{REPOSITORY}/of-{machine}")
        world.ok(machine, "local", "clone", f"{MAIN}/t/", str(world.files(machine) / "wd"))
        (world.files(machine) / "wd" / "2").write_text(f"two, in the directory of {machine}")
    put_sent(world)
    world.ok("ada", "fetch", REPOSITORY)
    world.ok("ada", "repo", "create", SIDE, f"memory://{BUCKET}/side", "--range-entries", "16")
    for name in ("new", "t/3"):
        world.ok("ada", "fs", "upload", str(world.files("ada") / name), f"{SIDE}/main/u/")


def put_sent(world: Machines) -> None:
    """Put what a partner's page has sent for a directory of main, one file being garbage here."""
    store = MemoryStore(world.bucket, NAMESPACE.rpartition("/")[2] + "/")
    stem = blake3_of(b"main/in/").hex()[:8] + "0" * 8
    sent = {f"{stem}{number:016x}": text for number, text in enumerate(("sent", GARBAGE))}
    record = {
        "links": 1,
        "branch": "main",
        "prefix": "in/",
        "max_size": 100,
        "ids": list(sent),
        "names": list(sent),
    }
    store.put(f"{INCOMING}{stem}{LINKS}", json.dumps(record).encode(), ANY)
    for link, text in sent.items():
        store.put(incoming_key(link), text.encode(), ANY)


def put_lakefs(world: Machines) -> None:
    """Put a namespace of lakeFS into the bucket, with two commits and a dump of its refs."""
    store = MemoryStore(world.bucket, LAKEFS.rpartition("/")[2] + "/")
    store.put(MANIFEST_KEY, put_dump(store), ANY)
    store.put(LAKEFS_MARKER, LAKEFS_MARKER_BODY, ANY)


def put_dump(store: ObjectStore) -> bytes:
    """Put two commits of lakeFS and a dump of its refs into a store; return its manifest."""
    contents = {b"%d" % number: b"contents %d" % number for number in range(8)}
    for data in contents.values():
        store.put(address_of(data), data, ANY)
    values = {path: lakefs_value(data) for path, data in contents.items()}
    first = initial_commit(START)
    second = describe_commit(
        parents=[first],
        metarange_id=put_foreign(store, values, size=3),
        message="in lakeFS",
        committer="carol",
        created_at=START,
        metadata={},
    )
    manifest = write_dump(
        TreeStore(store, cache=None, range_entries=16),
        commits=sorted([first, second]),
        branches={"main": second.id},
        tags={"v1": second.id},
        default_branch="main",
    )
    return format_manifest(manifest)


def staged(world: Machines) -> None:
    """Let both have staged changes on main, and Ada a commit that she has not pushed."""
    history(world)
    _uploader(world, "ada")("dev", {"mine": "not pushed"})
    world.ok("ada", "commit", DEV, "-m", "not pushed")
    _uploader(world, "ada")("main", {"t/1": "one, by ada"})
    _uploader(world, "bob")("main", {"b": "by bob"})


def clean(world: Machines) -> None:
    """Let nobody have changes, though both have staged what the head has already.

    And let there be what some commands want to find: an empty repository beside a dump of refs, a
    bisect session, a setting, rules of retention, a pattern of protected branches, and a run whose
    check has failed and passes now.
    """
    history(world)
    world.ok("ada", "repo", "create", DUMPED, f"memory://{BUCKET}/dumped", "--range-entries", "16")
    manifest = put_dump(MemoryStore(world.bucket, "dumped/"))
    (world.files("ada") / "manifest").write_bytes(manifest)
    world.ok("ada", "bisect", "start", MAIN, f"{MAIN}~2")
    world.ok("ada", "config", "set", "user.name", "Ada")
    (world.files("bob") / "rules").write_text(json.dumps({**_RULES, "default_retention_days": 31}))
    world.ok("bob", "gc", "set-config", REPOSITORY, "-f", str(world.files("bob") / "rules"))
    world.ok("bob", "branch-protect", "add", REPOSITORY, "guarded-*")
    passes = world.files("ada") / "passes"
    job = ("lakecli", "fs", "upload", str(world.files("ada") / "new"), "left")
    line = ["run", MAIN, "--branch", "left", "--check", f"test -e {passes}", "--", *job]
    assert world("ada", line).exit_code == ExitCode.CHECK
    passes.touch()
    for machine in MACHINES:
        world.ok(machine, "fs", "rm", f"{MAIN}/t/1")
        _uploader(world, machine)("main", {"t/1": "one"})
        world.ok(machine, "tag", "create", f"{REPOSITORY}/undone", DEV)
        world.ok(machine, "undo", REPOSITORY)


def due(world: Machines) -> None:
    """Let garbage be condemned and due for the sweep; a file to upload holds the same bytes."""
    history(world)
    world.pass_time(timedelta(days=40))
    world.ok("ada", "gc", "run", REPOSITORY, "-y")
    world.pass_time(timedelta(days=15))
    world.ok("bob", "fetch", REPOSITORY)
    put_sent(world)  # lately, so that only the data that it takes into use are garbage


def apart(world: Machines) -> None:
    """Let Bob have pushed to main what Ada has not fetched, and Ada have an unpushed commit."""
    history(world)
    _uploader(world, "ada")("dev", {"mine": "not pushed"})
    world.ok("ada", "commit", DEV, "-m", "not pushed")
    _uploader(world, "bob")("main", {"b": "by bob"})
    world.ok("bob", "commit", MAIN, "-m", "by bob")
    world.ok("bob", "push", MAIN)


def pushed(world: Machines) -> None:
    """Let Ada have pushed the last thing that she did, and Bob have fetched it."""
    history(world)
    _uploader(world, "ada")("main", {"mine": "pushed"})
    world.ok("ada", "commit", MAIN, "-m", "pushed")
    world.ok("ada", "push", MAIN)
    world.ok("bob", "pull", MAIN)


SITUATIONS: Final[dict[str, Callable[[Machines], None]]] = {
    "staged": staged,
    "clean": clean,
    "due": due,
    "apart": apart,
    "pushed": pushed,
}


def _uploader(world: Machines, machine: str) -> Callable[[str, dict[str, str]], None]:
    def put(branch: str, contents: dict[str, str]) -> None:
        file = world.files(machine) / "upload"
        for path, text in contents.items():
            file.write_text(text)
            world.ok(machine, "fs", "upload", str(file), f"{REPOSITORY}/{branch}/{path}")
        file.unlink()

    return put
