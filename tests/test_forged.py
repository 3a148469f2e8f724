"""Whatever a namespace holds, commands touch nothing but it, and end as they should."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from lakecli.base.identity import blake3_of
from lakecli.cli.exit_codes import ExitCode
from lakecli.stores.contract import ANY
from lakecli.worktree.linked_files import PERMISSIONS
from tests.cli.out.test_escapes import FORBIDDEN, HOSTILE
from tests.support import forge
from tests.support.command_lines import Sample, command_lines
from tests.support.forge import Namespace
from tests.support.forgeries import DOCUMENTS, VALUES
from tests.support.golden import Cli
from tests.support.jail import SECRET, Jail
from tests.support.memory_store import MemoryStore
from tests.support.partners import PYTHON, FileServer, Partner, link_tools, shell_tools
from tests.support.script_canaries import VARIABLES, canaries
from tests.support.tools import require_tool
from tests.support.waits import skip_waits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.support.golden import Result

    Change = Callable[[Namespace, Any], None]

BUCKET = "s3://lake"
NAMESPACE = f"{BUCKET}/ns"
OTHER = "s3://other"
SECONDS = 20.0
"""A command may take, however slow the machine is: hanging and exploding are what is looked for."""

ESSENTIAL = (
    "null", "empty", "short", "long", "long ID", "absolute path", "parents", "NUL",
    "lone surrogate", "negative", "huge", "list of lists",
)  # fmt: skip
"""The forgeries of JSON that are tried at every run; all others nightly."""

OTHER_ID = "0" * 64
TEXTS: dict[str, Any] = {
    "empty": "",
    "short": "a",
    "long": "a" * 100_000,
    "absolute path": "/etc/passwd",
    "canary": "{root}/home/.ssh/id_rsa",
    "canary of the size of an ID": "/" + "a" * 63,
    "parents": "../" * 12 + "canary",
    "NUL": "a\0b",
    "other ID": OTHER_ID,
    "capitals": "A" * 64,
    "escapes": HOSTILE.encode("utf-8", "replace").decode(),
    "no UTF-8": b"\xff\xfe",
    "number": 7,
}
ADDRESSES: dict[str, Any] = {
    **TEXTS,
    "local file": "local://{root}/home/.ssh/id_rsa",
    "file URI": "file://{root}/home/.ssh/id_rsa",
    "process": "local:///proc/self/environ",
    "other bucket": "s3://secret/canary",
    "other cloud": "gs://secret/canary",
    "other container": "az://secret/container/canary",
    "metadata service": "http://169.254.169.254/latest/meta-data",
    "https": "https://example.com/canary",
    "through the namespace": "s3://lake/ns/../../secret/canary",
    "query": "s3://secret/canary?x=1",
    "another namespace": "s3://other/ns/_lakecli/repository.json",
    "data of others": "data/../../other/x",
}
NUMBERS: dict[str, Any] = {
    "zero": 0,
    "negative": -1,
    "huge": (1 << 63) - 1,
    "hugest": 1 << 63,
    "a year too many": 300_000_000_000,
    "wrong type": "text",
}
TIMES: dict[str, Any] = {**NUMBERS, "5,000 digits": "9" * 5_000}


class Forgery(NamedTuple):
    """One change to a sound namespace.

    Attributes:
        name: field and forgery.
        nightly: whether it is left to the longer form.
    """

    name: str
    change: Callable[[Namespace], None]
    nightly: bool = False


def forgeries() -> Iterator[Forgery]:
    """Yield every field of every record, forged in every way."""
    yield from json_fields()
    yield from message_fields()
    yield from documents()
    yield from tables()
    yield from keys()


def json_fields() -> Iterator[Forgery]:
    records: dict[str, tuple[str, Sequence[str]]] = {
        "repository": (
            "repository",
            ("format", "uuid", "range_entries", "default_branch", "created", "needs_read",
             "needs_write", "unknown"),
        ),
        "branch": (
            "branch",
            ("format", "kind", "name", "commit_id", "sequence", "write_id", "moves"),
        ),
        "move": (
            "branch_move",
            ("sequence", "write_id", "from", "to", "who", "at", "why", "pack"),
        ),
        "tag": ("tag", ("format", "commit_id", "sequence", "moves")),
        "older move": ("older_move", ("sequence", "write_id", "from", "to", "who", "at", "why")),
        "state": ("state", ("format", "phase", "epoch", "mark", "grace", "write_id")),
        "rules": ("rules", ("default_retention_days", "branches")),
        "doomed": ("doomed", ("key", "size", "kind")),
        "policy": ("policy", ("format", "number", "write_id", "who", "at", "document")),
        "sharing": ("sharing", ("place", "reason", "races", "at", "by", "again")),
    }  # fmt: skip
    own: dict[str, dict[str, Any]] = {
        "state phase": {"idle": "idle", "sweeping": "sweeping"},
        "state grace": {"an hour": 3600, "a day": 86_400, "10^13": 10**13},
        "state mark": {"elsewhere": "../../data", "another": "1-" + "0" * 32},
        "doomed key": {"live data": Namespace.address(b"aaaa"), "outside": "../../other/x"},
        "repository uuid": {"another": "f" * 32, "one digit": "0"},
        "repository range_entries": {"not a power": 17, "largest": 1 << 40},
        "policy document": {
            "no TOML": "x = ",
            "deep": "a = " + "[" * 50_000,
            "newer": "version = 2",
            "patterns": '[[rules]]\nrefs = ["' + "*a" * 140 + '"]',
            "nobody": '[[rules]]\nrefs = ["*"]\nwho = ["nobody@x"]',
        },
        "move at": {"year 1": "0001-01-01T00:00:00+14:00", "year 9999": "9999-12-31T23:59:59Z"},
        "repository created": {"year 1": "0001-01-01T00:00:00Z"},
        "branch commit_id": {"another": OTHER_ID},
    }
    for record, (attribute, names) in records.items():
        for name in names:
            title = f"{record} {name}"
            values = {**VALUES, "escapes": HOSTILE, **own.get(title, {})}
            for forgery, value in values.items():
                nightly = forgery in VALUES and forgery not in ESSENTIAL
                change = partial(_set_item, attribute=attribute, name=name, value=value)
                yield Forgery(f"{title}: {forgery}", change, nightly)


def _set_item(forged: Namespace, *, attribute: str, name: str, value: object) -> None:
    getattr(forged, attribute)[name] = value


def message_fields() -> Iterator[Forgery]:
    commit = {
        "metarange_id": TEXTS, "message": TEXTS, "committer": TEXTS, "seconds": TIMES,
        "version": NUMBERS, "generation": NUMBERS, "id": TEXTS, "key": TEXTS,
    }  # fmt: skip
    assert set(commit) | {"metadata", "parents"} == {each.name for each in fields(forge.Commit)}
    for name, values in commit.items():
        for forgery, value in values.items():
            yield _attribute("commit", name, forgery, value)
    for forgery, value in TEXTS.items():
        yield _attribute("commit", "parents", forgery, [value])
        yield _attribute("commit", "metadata", forgery, [(value, value)])
    yield _attribute("commit", "parents", "many", [OTHER_ID] * 20_000)
    tree = {
        "id": {**TEXTS, "no UTF-8": b"\xff" * 64}, "min_key": TEXTS, "max_key": TEXTS,
        "size": NUMBERS, "count": NUMBERS, "key": {"empty": b"", "early": b"\0", "late": b"\xff"},
    }  # fmt: skip
    for name, values in tree.items():
        for forgery, value in values.items():
            yield _attribute("range", name, forgery, value)
    entry = {
        "address": ADDRESSES, "seconds": TIMES, "size": NUMBERS, "checksum": TEXTS,
        "content_type": TEXTS, "address_type": NUMBERS,
        "path": {
            "absolute": b"/etc/passwd", "parents": b"../../../../canary", "dots": b"..",
            "NUL": b"a\0b", "long": b"a" * 5_000, "escapes": HOSTILE.encode("utf-8", "replace"),
            "no UTF-8": b"\xff", "empty part": b"a//b", "file and folder": b"dir",
            "newline": b"a\nb", "slash": b"/",
        },
        "identity": {"empty": b"", "short": b"a", "long": b"a" * 5_000},
    }  # fmt: skip
    for name, values in entry.items():
        for forgery, value in values.items():
            yield _attribute("entry", name, forgery, value)
    for forgery, value in {**TEXTS, "5,000 digits": "9" * 5_000, "negative": "-" * 9}.items():
        mtime = [("::lakefs::client-mtime", value)]
        yield _attribute("entry", "metadata", f"mtime {forgery}", mtime)
        yield _attribute("entry", "metadata", forgery, [(value, value)])


def _attribute(record: str, name: str, forgery: str, value: object) -> Forgery:
    def change(forged: Namespace) -> None:
        target = forged.entries[b"a"] if record == "entry" else getattr(forged, record)
        setattr(target, name, value)

    return Forgery(f"{record} {name}: {forgery}", change)


def documents() -> Iterator[Forgery]:
    places = (
        "_lakecli/repository.json",
        "_lakecli/refs/branches/main",
        "_lakecli/refs/tags/v1",
        f"_lakecli/reflog/branches/main/{1:016d}",
        "_lakecli/gc/state",
        "_lakecli/gc/rules.json",
        "_lakecli/sharing.json",
        f"_lakecli/gc/marks/3-{'d' * 32}/others",
        f"_lakecli/gc/marks/3-{'d' * 32}/data-all",
        f"_lakecli/gc/keep/3/{'e' * 32}",
        "_lakecli/gc/expired/2",
    )
    for place in places:
        for name, body in DOCUMENTS.items():
            yield Forgery(
                f"{place}: {name}",
                partial(_put, key=place, body=body),
                nightly=name not in {"empty", "NUL", "no UTF-8", "1e400", "array", "large"},
            )
        yield Forgery(f"{place}: gone", partial(_put, key=place, body=None))


def _put(forged: Namespace, *, key: str, body: bytes | None) -> None:
    forged.raw[key] = body


def tables() -> Iterator[Forgery]:
    """Yield tables and packs under names that are theirs, or not."""
    for name, body in forge.messages_out_of_order():

        def replace(forged: Namespace, body: bytes) -> None:
            for key in forged.objects():
                if key.startswith(("_lakefs/", "_lakecli/commits/")) and key != "_lakefs/dummy":
                    forged.raw[key] = body

        yield Forgery(f"tables: {name}", partial(replace, body=body))
    properties = {
        "type": (b"", b"nonsense", b"ranges"),
        "entity": (b"", b"/etc/passwd"),
        "replaces": (b"x", b"\xff" * 32, b"a" * 32 * 50_000),
        "lakecli.tree": (b"", b"1;n=0", b"1;n=17", b"9;n=16", b"1;n=999999999999999999"),
    }
    for property_, values in properties.items():
        for value in values:

            def change(forged: Namespace, property_: str, value: bytes) -> None:
                table = (
                    forged.metarange_properties
                    if property_ == "lakecli.tree"
                    else forged.pack_properties
                )
                table[property_] = value

            yield Forgery(
                f"property {property_}: {value[:20]!r} of {len(value)}",
                partial(change, property_=property_, value=value),
            )
    yield Forgery("expired: the tree in use", lambda forged: setattr(forged, "expires_tree", True))


def keys() -> Iterator[Forgery]:
    for key in (
        "_lakecli/refs/branches/..",
        "_lakecli/refs/branches/%2E%2E%2F%2E%2E%2Fcanary",
        "_lakecli/refs/branches/%00",
        "_lakecli/refs/branches/%1B%5B31m",
        "_lakecli/refs/branches/" + "a" * 900,
        "_lakecli/refs/tags/-rf",
        "_lakecli/refs/../../canary",
        "_lakecli/commits/../../canary",
        "_lakecli/commits/" + "A" * 64,
        "_lakecli/gc/marks/../../../canary",
        "_lakecli/gc/keep/x/../../canary",
        "_lakecli/gc/expired/9\n",
        "_lakecli/incoming/../../canary",
        "_lakecli/unknown/\x1b[31m",
        "_lakefs/../canary",
        "_lakefs/" + "a" * 63 + "\n",
        "data/../canary",
        "data/aa/" + "g" * 62,
        "\x1b[31m",
    ):
        yield Forgery(f"key {key[:60]!r}", partial(_put, key=key, body=b"{}"))


# -- the jail ----------------------------------------------------------------------------------


class Prison:
    """A home with a sound clone of a sound namespace, to be put in order again for each case."""

    def __init__(self, directory: Path, patch: pytest.MonkeyPatch) -> None:
        self.patch = patch
        self.templates = {known: directory / f"template-{known}" for known in (False, True)}
        self.root = directory / "jail"
        self.cases = 0
        self.lines: list[tuple[str, ...]] = []
        self.codes: list[int] = []
        for known, template in self.templates.items():
            jail = Jail(template)
            self.use(template)
            (template / "work").mkdir(parents=True)
            cli = Cli(template / "work")
            put(jail, NAMESPACE, Namespace().objects())
            with pytest.MonkeyPatch.context() as closing, jail.closed(closing):
                cli.ok("repo", "create", "lakefs://second", f"{OTHER}/ns")
                if known:
                    cli.ok("clone", NAMESPACE, "lakefs://demo")
        self.others = {key: stored.body for key, stored in jail.bucket(OTHER).objects.items()}
        skip_waits(patch)

    def use(self, root: Path) -> None:
        self.patch.setenv("HOME", str(root / "home"))
        self.patch.setenv("LAKECLI_HOME", str(root / "home" / "lakecli"))
        self.patch.setenv("LAKECLI_USER_NAME", "Victim")
        self.patch.setenv("LAKECLI_USER_EMAIL", "victim@example.com")

    def run(
        self,
        forgery: Forgery,
        choose: Callable[[list[tuple[str, ...]]], list[tuple[str, ...]]],
        *,
        known: bool,
    ) -> list[str]:
        """Run commands over one forgery, and return what was wrong.

        Args:
            forgery: of the namespace.
            choose: some of all command lines.
            known: whether the repository was cloned before it was forged, or is only afterwards.
        """
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.templates[known], self.root, symlinks=True)
        forged = Namespace()
        try:
            forgery.change(forged)
            fill_in(forged, self.root)
            objects = forged.objects()
        except (ValueError, OverflowError, TypeError) as error:
            raise AssertionError(f"{forgery.name} cannot be written: {error!r}") from error
        jail = Jail(self.root)
        put(jail, NAMESPACE, objects)
        for key, body in self.others.items():
            MemoryStore(jail.bucket(OTHER)).put(key, body, ANY)
        jail.plant()
        self.use(self.root)
        work = self.root / "work"
        cli = Cli(work)
        wrong: list[str] = []
        with pytest.MonkeyPatch.context() as closing, jail.closed(closing):
            clone = [("clone", NAMESPACE, "lakefs://demo")]
            update = [("fetch", "lakefs://demo"), ("pull", "lakefs://demo/main")]
            for begin in update if known else clone:
                wrong += self.check(forgery, begin, cli)
            operations = cli("op", "log", "lakefs://demo", "--json")
            newest = operations.json_lines[0]["id"] if operations.stdout else "0"
            sample = Sample(work / "files", NAMESPACE, operation=newest)
            for line in choose([*command_lines(sample), *in_place(work / "files")]):
                wrong += self.check(forgery, line, cli)
            jail.requests.discard(OTHER)
            second = cli("branch", "list", "lakefs://second")
            if second.exit_code or "main" not in second.stdout:
                wrong.append(f"{forgery.name}: the second repository: {second}")
            jail.requests.discard(OTHER)
        wrong += [
            f"{forgery.name}: {what}" for what in jail.trespasses(allowed={BUCKET, "s3://again"})
        ]
        return wrong

    def check(self, forgery: Forgery, line: tuple[str, ...], cli: Cli) -> list[str]:
        self.cases += 1
        self.lines.append(line)
        begun = time.monotonic()
        result: Result = cli(*line)
        took = time.monotonic() - begun
        self.codes.append(result.exit_code)
        title = f"{forgery.name}: lakecli {' '.join(line)[:150]!r}"
        wrong = []
        if result.exit_code == ExitCode.UNEXPECTED:
            wrong.append(f"{title}: {result.stderr[:300]}")
        if SECRET in result.stdout_bytes or SECRET.decode() in result.stderr:
            wrong.append(f"{title} shows the secret")
        shown = result.stderr + ("" if line[:2] == ("fs", "cat") else result.stdout)
        if FORBIDDEN.search(shown):
            wrong.append(f"{title} obeys escapes: {shown[:300]!r}")
        if took > SECONDS:
            wrong.append(f"{title} took {took:.0f} s")
        return wrong


def in_place(directory: Path) -> Iterator[tuple[str, ...]]:
    """Yield commands that read the namespace without a clone."""
    main = f"{NAMESPACE}@main"
    yield ("fs", "cat", f"{main}/a")
    yield ("fs", "download", "-r", f"{main}/", str(directory / "in-place"))
    yield ("fs", "presign", f"{main}/a")
    yield ("diff", f"{main}~1", main)
    yield ("log", main)
    yield ("reflog", main)
    yield ("branch", "list", NAMESPACE)
    yield ("tag", "list", NAMESPACE)


def put(jail: Jail, namespace: str, objects: dict[str, bytes]) -> None:
    bucket, _, prefix = namespace.removeprefix("s3://").partition("/")
    store = MemoryStore(jail.bucket(f"s3://{bucket}"), f"{prefix}/")
    for key, body in objects.items():
        store.put(key, body, ANY)


def fill_in(forged: Namespace, root: Path) -> None:
    """Write the jail's own directory into forged addresses and IDs."""
    records: list[Any] = [forged.commit, forged.range, *forged.entries.values()]
    for record in records:
        for each in fields(record):
            value = getattr(record, each.name)
            if isinstance(value, str) and "{root}" in value:
                setattr(record, each.name, value.replace("{root}", str(root)))


def digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())


@pytest.fixture
def prison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prison:
    return Prison(tmp_path, monkeypatch)


def test_a_sound_namespace_is_read_by_every_command(prison: Prison) -> None:
    """So that refusals of forged ones are not refusals of everything."""
    sound = Forgery("sound", lambda _forged: None)
    for known in (False, True):
        assert prison.run(sound, lambda lines: lines, known=known) == []
    assert prison.cases > 100
    refused = [line for line, code in zip(prison.lines, prison.codes, strict=True) if code]
    assert len(refused) < prison.cases // 4, refused
    assert ExitCode.USAGE not in prison.codes, refused


def test_fsck_tells_of_a_damaged_tree_that_a_forged_list_calls_expired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKECLI_HOME", str(tmp_path / "home"))
    forged = Namespace()
    forged.expires_tree = True
    forged.metarange_properties["writer"] = b"somebody"  # so its name is not the digest
    for key, body in forged.objects().items():
        path = tmp_path / "namespace" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    cli = Cli(tmp_path)
    cli.ok("clone", tmp_path / "namespace", "lakefs://demo")
    assert cli("fsck", "lakefs://demo").exit_code == ExitCode.INTEGRITY


CHOSEN = 2
SLICES = 8
ALWAYS = (
    ("fs", "download", "-r"), ("fsck", "--data"), ("gc", "run", "-y"),
    ("fs", "cat", f"{NAMESPACE}@main/a"),
)  # fmt: skip
"""Commands that meet every forgery: they read everything there is, with a clone and without."""


def some(lines: list[tuple[str, ...]], number: int) -> list[tuple[str, ...]]:
    """Choose what reads everything, and others that take turns."""
    chosen = {
        next(line for line in lines if set(words) <= set(line) and "--dry-run" not in line)
        for words in ALWAYS
    }
    step = 1 + len(lines) // CHOSEN
    chosen |= set(lines[number % step :: step])
    return [line for line in lines if line in chosen]


@pytest.mark.parametrize("part", range(SLICES))
def test_forged_fields(prison: Prison, part: int) -> None:
    """Every forgery meets some commands; over its forgeries, a field meets them all."""
    wrong: list[str] = []
    found = [each for each in forgeries() if not each.nightly]
    for number, forgery in enumerate(islice(found, part, None, SLICES)):
        choose = partial(some, number=digest(forgery.name) + number)
        wrong += prison.run(forgery, choose, known=number % 3 == 0)
    assert wrong == []
    assert prison.cases > 200


@pytest.mark.nightly
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("part", range(SLICES))
def test_forged_fields_under_every_command(prison: Prison, part: int) -> None:
    wrong: list[str] = []
    for forgery in islice(forgeries(), part, None, SLICES):
        for known in (False, True):
            wrong += prison.run(forgery, lambda lines: lines, known=known)
    assert wrong == []


# -- hostile directories -----------------------------------------------------------------------

OWN = (
    ".git/config", "d/.GIT/hooks/pre-commit", "git~1/config", ".git ./config", ".git::$DATA",
    ".g\u200cit/config", "x\\.git\\config", ".lakefs_ref.yaml", "d/.LAKEFS_REF.YAML",
    ".lakecli-incoming/x", ".lakecli-parts/x", ".DS_Store",
)  # fmt: skip
"""Names that Git, lakecli or a system uses, as an enemy spells them."""

COMMAND = b"#!/bin/sh\ntouch pwned\n"


@pytest.fixture
def hostile(prison: Prison) -> Iterator[Cli]:
    """Return a command line beside a clone of a namespace full of programs with such names."""
    with clone_of(prison, dict.fromkeys([b"data", *map(os.fsencode, OWN)], COMMAND)) as cli:
        yield cli


@contextmanager
def clone_of(prison: Prison, files: dict[bytes, bytes]) -> Iterator[Cli]:
    """Return a command line beside a clone of a namespace of executable files."""
    forged = Namespace()
    bit = [(PERMISSIONS, '{"UID":0,"GID":0,"Mode":493}')]
    forged.files = files
    forged.entries = {
        path: forge.Entry(
            path,
            address=forged.address(data),
            checksum=blake3_of(data).hex(),
            size=len(data),
            metadata=bit,
        )
        for path, data in forged.files.items()
    }
    shutil.copytree(prison.templates[False], prison.root, symlinks=True)
    jail = Jail(prison.root)
    put(jail, NAMESPACE, forged.objects())
    prison.use(prison.root)
    cli = Cli(prison.root / "work")
    with pytest.MonkeyPatch.context() as closing, jail.closed(closing):
        cli.ok("clone", NAMESPACE, "lakefs://demo")
        cli.ok("branch", "create", "lakefs://demo/old", "-s", "lakefs://demo/main~1")
        yield cli


def found_below(root: Path) -> set[str]:
    """Return the files below a directory, of which those of commands are executable."""
    files = {path for path in root.rglob("*") if not path.is_dir()}
    assert not any(path.read_bytes() == COMMAND and path.name != "data" for path in files)
    return {str(path.relative_to(root)) for path in files}


def test_hostile_names_are_written_by_no_command_of_a_directory(
    hostile: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = {"data", ".lakefs_ref.yaml"}
    root = hostile.directory / "cloned"
    hostile.ok("local", "clone", "lakefs://demo/main/", root)
    assert found_below(root) == mine
    assert os.access(root / "data", os.X_OK)
    root = hostile.directory / "wd"
    hostile.ok("local", "clone", "lakefs://demo/old/", root)
    monkeypatch.chdir(root)
    hostile.ok("checkout", "main")
    assert found_below(root) == mine
    hostile.ok("checkout", "old")
    assert found_below(root) == mine - {"data"}
    hostile.ok("restore", ".", "--source", "main")
    assert found_below(root) == mine
    hostile.ok("local", "checkout", "-y")
    hostile.ok("merge", "lakefs://demo/main", "lakefs://demo/old")
    hostile.ok("local", "pull")
    assert found_below(root) == mine
    (root / "data").unlink()
    hostile.ok("local", "checkout", "-y", "--ref", "main")
    assert found_below(root) == mine


def test_hostile_names_are_neither_downloaded_nor_exported(hostile: Cli) -> None:
    for name, words in (
        ("down", ("fs", "download", "-r", "lakefs://demo/main/")),
        ("in-place", ("fs", "download", "-r", f"{NAMESPACE}@main/")),
        ("out", ("export", "lakefs://demo/main/")),
    ):
        root = hostile.directory / name
        left_out = hostile.ok(*words, root, "--json").json["left_out"]
        assert len(left_out) == len(OWN), name
        assert not {path.lower() for path in found_below(root)} & {path.lower() for path in OWN}
        assert (root / "data").read_bytes() == COMMAND
        assert not (root / ".git").exists()


def test_hostile_names_are_not_written_by_the_script_of_a_partner(
    hostile: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Neither as lakecli writes it, nor if its list was forged."""
    for number, is_forged in enumerate((False, True)):
        if is_forged:
            monkeypatch.setattr("lakecli.repository.handoff.links.is_own", lambda _name: False)
        script = tmp_path / f"script-{number}.sh"
        words = ("fs", "presign", "-r", "lakefs://demo/main/", "--script", script)
        hostile(*words)
        place = tmp_path / f"place-{number}"
        place.mkdir()
        tools = link_tools(tmp_path / f"bin-{number}", shell_tools() | PYTHON)
        partner = Partner([require_tool("dash")], place, tools)
        with FileServer({b"x": COMMAND}) as server:
            url = server.url(b"x").encode()
            text = script.read_bytes()
            assert text.count(b"https://signed.invalid/x") == (1 + len(OWN) if is_forged else 1)
            script.write_bytes(text.replace(b"https://signed.invalid/x", url))
            done = partner.run(script)
        assert partner.files() == {b"data": COMMAND}, done.stderr
        assert len(done.stderr.splitlines()) >= len(OWN)
        assert done.returncode == 1


MODULES = ("struct", "typing", "re", "os", "encodings", "site", "lakecli")
"""What a Python program imports, `lakecli` among it."""


def test_no_name_that_an_interpreter_could_load_is_loaded(prison: Prison, tmp_path: Path) -> None:
    """Not by the script of a partner, nor by lakecli in a directory of such files."""
    mark = tmp_path / "mark"
    files = {
        os.fsencode(name): data
        for name, data in canaries(mark).items()
        if not name.endswith((".py", ".so", ".pyc")) or name.split(".")[0].split("/")[0] in MODULES
    }
    files.pop(b"./canary.pth")
    with clone_of(prison, files) as cli, FileServer(files) as server:
        script = tmp_path / "script.sh"
        cli.ok("fs", "presign", "-r", "lakefs://demo/main/", "--script", script)
        lines = script.read_text().splitlines()
        for at, line in enumerate(lines):
            if line.startswith("o "):
                name = line.split("'")[1].encode()
                lines[at] = line.replace("https://signed.invalid/x", server.url(name))
        script.write_text("\n".join([*lines, ""]))
        place = tmp_path / "place"
        place.mkdir()
        tools = link_tools(tmp_path / "bin", shell_tools() | PYTHON)
        partner = Partner([require_tool("dash")], place, tools, VARIABLES.copy())
        partner.environment["PATH"] = f":.:files:files/bin:{partner.directory}/bin:{tools}:"
        for _ in range(2):
            done = partner.run(script)
            assert done.returncode == 0, done.stderr
        assert partner.files() == files
        root = cli.directory / "cloned"
        cli.ok("local", "clone", "lakefs://demo/main/", root)
    program = Path(sys.executable).with_name("lakecli")
    for words in (("version", "--verbose"), ("repo", "list"), ("local", "list")):
        done = subprocess.run(
            [program, *words], cwd=root, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert not mark.exists(), mark.read_text()
