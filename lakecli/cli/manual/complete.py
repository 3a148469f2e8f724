"""``lakecli __complete KIND PREFIX``, which completion scripts run at a TAB.

The command prints one candidate per line. All candidates come from this machine, because a TAB must
not wait for a bucket: repositories, refs and staged objects come from the local store. Other
objects come from the namespace if it is a directory, and from the cache otherwise. The command
prints no errors, changes nothing, and loads no other command.

The functions after `candidates` are ordered by kinds of words: repositories and refs by URI,
operations and settings; repositories named by their storage namespace (buckets are not read); refs
with modifiers and in ranges; and the names in one directory of a ref or on the disk.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import AnyStr, Final, TextIO, TypeAlias, cast

from lakecli.base.layout import REPOSITORY
from lakecli.base.model import Branch, RefKind, Tag
from lakecli.base.uri import SCHEME, is_namespace
from lakecli.base.visibility import is_visible
from lakecli.cli.context import Context, Environment
from lakecli.cli.line import Globals
from lakecli.cli.parsers import base_of, linked, relative_path
from lakecli.cli.tree import IN_PLACE
from lakecli.committed.scan import common_start, list_prefix, prefix_end
from lakecli.kv.local_store import ReadTransaction
from lakecli.refs.expression import parse_expression
from lakecli.refs.ref_store import get_commit, get_parent
from lakecli.repository import branch, tag
from lakecli.repository.contract import Repository
from lakecli.repository.reading.view import View, commit_at, open_view, resolve_ref
from lakecli.repository.runtime import Runtime
from lakecli.repository.transfer.ignore_patterns import is_own
from lakecli.repository.undo.log import SHORT_ID, iter_log
from lakecli.settings.keys import KEYS, OF_REPOSITORY, REPOSITORY_KEYS, own_key
from lakecli.stores.contract import ObjectStore
from lakecli.stores.uri import is_local, normalise
from lakecli.worktree.link import Link

DEADLINE: Final = 2.0
"""Seconds after which the process ends, even if it still waits, for example for a network disk."""

_FILES: Final = frozenset({"ref-or-file", "ref-or-own-file", "path-or-file", "file-of-ref"})
"""The kinds of words that may be a file in a linked directory."""

_NO_REF: Final = frozenset({"repository", "path", "file-of-ref"})
"""The kinds of words that are never a ref without its repository."""


def main(argv: Sequence[str], environ: Mapping[str, str], stdout: TextIO) -> None:
    """Print the candidates for ``KIND PREFIX``; errors are never printed."""
    context = Context(Environment(environ, sys.stdin, stdout, sys.stderr), Globals())
    try:
        kind, typed = argv
        context.runtime = _without_buckets(context.runtime)
        for candidate in candidates(context, kind, typed):
            # One candidate is one line that shows all of its characters.
            if is_visible(candidate):
                stdout.write(candidate + "\n")
        stdout.flush()
    except Exception:  # noqa: BLE001, S110 - a TAB never prints an error
        pass
    finally:
        context.close()


def _without_buckets(runtime: Runtime) -> Runtime:
    """Return a runtime whose buckets have no requests, so that a request ends the completion."""

    def open_store(uri: str, region: str) -> ObjectStore:
        if is_local(uri):
            return runtime.open_store(uri, region)
        return cast("ObjectStore", SimpleNamespace(uri=uri, local_path=lambda _key: None))

    return runtime._replace(open_store=open_store)


def candidates(context: Context, kind: str, typed: str) -> Iterator[str]:
    """Yield the candidates that begin with the typed text.

    A text without ``lakefs://`` is relative to the base URI. If no base URI is set, and the command
    accepts such words, the text is relative to the linked directory or the default repository.

    Args:
        kind: the kind of the word. If `kind` ends with `IN_PLACE`, the command also accepts the
            URI of a storage namespace.
        typed: the beginning of the word.
    """
    if kind == "setting":
        yield from _settings(context, typed)
        return
    if kind.endswith(IN_PLACE):
        kind = kind.removesuffix(IN_PLACE)
        if _is_in_place(typed):
            yield from _iter_in_place(context, kind, typed)
            return
    if not os.path.exists(context.home.store):
        return  # a TAB creates no store
    if kind == "operation":
        yield from _operations(context, typed)
    elif typed.startswith(SCHEME):
        yield from _uris(context, kind, typed)
    else:
        yield from _relative(context, kind, typed)


def _relative(context: Context, kind: str, typed: str) -> Iterator[str]:
    """Yield the candidates for a word without a scheme."""
    place = linked(context) if kind in _FILES else None
    base = context.base_uri
    if place is not None:
        yield from _in_directory(context, *place, kind, typed)
    else:
        if not base and kind not in _NO_REF:
            base = base_of("", context)
        if base and kind != "file-of-ref":
            for uri in _uris(context, kind, base + typed):
                yield uri.removeprefix(base)
    if SCHEME.startswith(typed) and (typed or not (base or place)) and kind != "file-of-ref":
        yield from _uris(context, kind, typed)


def _in_directory(context: Context, root: Path, link: Link, kind: str, typed: str) -> Iterator[str]:
    """Yield the refs and files that complete a word in a linked directory."""
    repository = context.lake().repository(link.src.repository)
    if kind.startswith("ref-") and "/" not in typed:
        yield from _iter_refs(repository, kind, typed)
    yield from _iter_files(repository, root, link, typed, is_new_too=kind == "ref-or-own-file")


def _uris(context: Context, kind: str, typed: str) -> Iterator[str]:
    if SCHEME.startswith(typed):
        typed = SCHEME
    elif not typed.startswith(SCHEME):
        return
    name, slash, rest = typed.removeprefix(SCHEME).partition("/")
    if not slash:
        end = "" if kind == "repository" else "/"
        for record in context.lake().repositories(prefix=name):
            yield f"{SCHEME}{record.name}{end}"
    elif kind != "repository":
        repository = context.lake().repository(name)
        yield from _iter_refs_and_paths(repository, kind, rest, start=f"{SCHEME}{name}/")


def _operations(context: Context, prefix: str) -> Iterator[str]:
    """Yield the IDs of the newest operations of all repositories that begin with `prefix`."""
    lake = context.lake()
    for record in lake.repositories():
        for logged in islice(iter_log(lake.repository(record.name)), MAX_CANDIDATES):
            shown = logged.operation.id.hex()[: max(SHORT_ID, len(prefix))]
            if shown.startswith(prefix):
                yield shown


def _settings(context: Context, typed: str) -> Iterator[str]:
    """Yield names of settings; ``repo.NAME.KEY`` is completed one part at a time."""
    names = [key.name for key in KEYS]
    if typed.startswith(OF_REPOSITORY):
        name, dot, _ = typed.removeprefix(OF_REPOSITORY).partition(".")
        if dot:
            names = [own_key(name, key.name) for key in REPOSITORY_KEYS]
        else:
            found = {
                each.key.name.split(".")[1]
                for each in context.settings
                if each.key.name.startswith(OF_REPOSITORY)
            }
            if os.path.exists(context.home.store):
                found |= {record.name for record in context.lake().repositories(prefix=name)}
            names = [f"{OF_REPOSITORY}{each}." for each in found]
    else:
        names.append(OF_REPOSITORY)
    yield from (each for each in sorted(names) if each.startswith(typed))


_ENCODED_AT: Final = "%40"


def _is_in_place(typed: str) -> bool:
    """Return whether a word begins with a storage namespace.

    A path counts only if an ``@`` follows it and a repository exists in that directory.
    """
    if not typed.startswith("/"):
        return is_namespace(typed)

    namespace, at, _ = typed.partition("@")
    directory = namespace.replace(_ENCODED_AT, "@")
    return bool(at) and os.path.isfile(f"{directory}/{REPOSITORY}")


def _iter_in_place(context: Context, kind: str, typed: str) -> Iterator[str]:
    """Yield the candidates for a word that begins with a storage namespace."""
    namespace, at, rest = typed.partition("@")
    if not at:
        end = "" if kind == "repository" else "@"
        for uri in _clones(context):
            shown = uri.replace("@", _ENCODED_AT)
            if shown.startswith(typed):
                yield f"{shown}{end}"
    elif kind != "repository" and (repository := _find(context, namespace)) is not None:
        yield from _iter_refs_and_paths(repository, kind, rest, start=f"{namespace}@")


def _clones(context: Context) -> dict[str, str]:
    """Return the names of all clones, keyed by their storage namespaces."""
    if not os.path.exists(context.home.store):
        return {}
    return {each.storage_namespace: each.name for each in context.lake().repositories()}


def _find(context: Context, namespace: str) -> Repository | None:
    """Return the clone of a namespace; else, if the namespace is a directory, its repository."""
    uri = normalise(namespace.replace(_ENCODED_AT, "@"))
    name = _clones(context).get(uri)
    if name is not None:
        return context.lake().repository(name)
    if uri.startswith("local://"):
        return context.repository_in_place(uri)
    return None


PATHS: Final = frozenset({"path", "ref-or-file", "path-or-file"})
"""The kinds of words whose URIs may have a path."""

MOST_STEPS: Final = 9
"""The maximum number of ancestors, parents or moves that are candidates."""

_BEFORE_MARK: Final = re.compile(r"[^~^@$]*")
_LAST_STEP: Final = re.compile(r"(.+)([~^])[0-9]*")
_LAST_NAME: Final = "\U0010ffff"
"""A character that sorts after every character of a name."""

_IterRefs: TypeAlias = Callable[..., Iterator[Branch | Tag]]


def _iter_refs_and_paths(
    repository: Repository, kind: str, typed: str, *, start: str
) -> Iterator[str]:
    """Yield the candidates after the name of a repository: refs, or paths of a ref.

    Args:
        typed: the beginning of a ref, or a ref and the beginning of a path.
        start: the text before `typed`; each candidate begins with it.
    """
    ref, slash, path = typed.partition("/")
    if not slash:
        end = "/" if kind in PATHS else ""
        for found in _iter_refs(repository, kind, ref):
            yield f"{start}{found}{end}"
    elif kind in PATHS:
        with open_view(repository, ref) as view:
            for each in names_at(view, os.fsencode(path)):
                yield f"{start}{ref}/{os.fsdecode(each)}"


def _iter_refs(repository: Repository, kind: str, typed: str) -> Iterator[str]:
    """Yield the branches, the tags and the refs with modifiers that begin with the typed text.

    Args:
        kind: ``branch`` or ``tag``; any other kind allows both, and modifiers.
        typed: the beginning of a ref expression, or of the second expression of a range (``..``).
    """
    if kind in {"branch", "tag"}:
        yield from _names(repository, kind, typed)
        return
    before, dots, last = typed.rpartition("..")
    lead = before + dots
    base = _BEFORE_MARK.match(last)
    assert base is not None
    if base[0] == last:
        found = _names(repository, kind, last)
    else:
        found = _modified(repository, base[0], last)
    for each in found:
        yield lead + each


def _names(repository: Repository, kind: str, prefix: str) -> Iterator[str]:
    def names_behind(iter_refs: _IterRefs, lead: str | None) -> Iterator[str]:
        after = "" if lead is None else lead + _LAST_NAME
        return (each.name for each in iter_refs(repository, prefix=prefix, after=after))

    if kind != "tag":
        yield from some_names(partial(names_behind, branch.iter_branches), prefix)
    if kind != "branch":
        yield from some_names(partial(names_behind, tag.iter_tags), prefix)


def _modified(repository: Repository, base: str, typed: str) -> Iterator[str]:
    """Yield refs with modifiers that begin with the typed text: ``main~2``, ``main@{1}``."""
    with repository.lake.kv.read() as txn:
        if typed.startswith(f"{base}@") and not re.search(r"[~^]", typed):
            offered = [f"{base}{mark}" for mark in _marks(repository, txn, base)]
        else:
            offered = list(_steps(repository, txn, typed))
    for each in offered:
        if each.startswith(typed):
            yield each


def _marks(repository: Repository, txn: ReadTransaction, base: str) -> Iterator[str]:
    """Yield the modifiers beginning with ``@`` that may follow the name of a branch or tag."""
    from lakecli.repository.reading.reflog import Past  # most completions do without

    past = Past(repository, txn)
    kind = past.find_kind(base)
    if kind is None:
        kind = resolve_ref(repository, txn, base).kind
        if kind is RefKind.COMMIT:
            return
    if kind is RefKind.BRANCH:
        yield "@"
    if past.find_upstream(kind, base) is not None:
        yield "@{upstream}"
    for number, move in enumerate(islice(past.iter_moves(kind, base), MOST_STEPS), 1):
        if move.before is not None:
            yield f"@{{{number}}}"


def _steps(repository: Repository, txn: ReadTransaction, typed: str) -> Iterator[str]:
    """Yield refs for the ancestors (``~``) or parents (``^``) of the commit that precedes the sign.

    ``main~`` is completed to ``main~1``, ``main~2`` and so on.
    """
    step = _LAST_STEP.fullmatch(typed)
    if step is None:
        return
    start, mark = step.groups()
    parse_expression(start + mark)  # refuses modifiers that must stand alone
    reader = repository.refs(txn)
    commit = get_commit(reader, commit_at(repository, txn, start).id)
    if mark == "^":
        parents = range(1, 1 + min(MOST_STEPS, len(commit.parents)))
        yield from (f"{start}^{number}" for number in parents)
        return
    for number in range(1, MOST_STEPS + 1):
        if not commit.parents:
            return
        commit = get_parent(reader, commit, commit.parents[0])
        yield f"{start}~{number}"


MAX_CANDIDATES: Final = 200
"""The maximum number of candidates: more do not fit on a screen. To keep the common prefix right,
`some_names` returns a few more names."""


def some_names(
    names_behind: Callable[[AnyStr | None], Iterator[AnyStr]], prefix: AnyStr
) -> list[AnyStr]:
    """Return names that start with `prefix`, in order.

    If there are more than `MAX_CANDIDATES`, the result is a sample of the names. The sample has the
    same longest common prefix as all the names, because the shell inserts this prefix.

    Args:
        names_behind: a function that yields, in order, the names that sort after all names with a
            given prefix; for ``None``, all names.
        prefix: the text with which all names start.
    """
    names = list(islice(names_behind(None), MAX_CANDIDATES))
    if len(names) < MAX_CANDIDATES:
        return names
    lead = common_start(names[0], names[-1])
    while len(lead) > len(prefix):
        name = next(names_behind(lead), None)
        if name is None:
            break
        names.append(name)
        lead = common_start(lead, name)
    return names


def names_at(view: View, prefix: bytes) -> list[bytes]:
    """Return paths that start with `prefix`, each cut after the next slash.

    If there are many, the result is a sample, as in `some_names`.

    Args:
        prefix: any bytes; the last component may be incomplete.

    Raises:
        IntegrityError: a range or metarange that had to be read is missing or damaged.
    """

    def names_behind(lead: bytes | None) -> Iterator[bytes]:
        start = prefix if lead is None else prefix_end(lead)
        if start is not None:
            names = list_prefix(
                lambda at: view.scan(prefix=prefix, start=max(at, start)),
                prefix=prefix,
                delimiter=b"/",
            )
            yield from (each.path for each in names)

    return some_names(names_behind, prefix)


def _iter_files(
    repository: Repository, root: Path, link: Link, typed: str, *, is_new_too: bool
) -> Iterator[str]:
    """Yield the files and directories that begin with the typed text.

    For a relative text the names are relative, for an absolute text absolute. The names come from
    the commit of the last sync, so they include files that were deleted afterwards.

    Args:
        repository: the repository that the directory is linked with.
        typed: a path, relative to the current directory or absolute.
        is_new_too: whether to add files on the disk that the commit lacks.
    """
    directory, slash, name = typed.rpartition("/")
    lead = directory + slash
    inside = relative_path(root, lead or ".")
    inside += b"/" if inside else b""
    found: dict[bytes, None] = {}
    commit_id = link.at_head or link.target
    if commit_id is not None:
        prefix = link.prefix + inside
        with open_view(repository, commit_id) as view:
            names = names_at(view, prefix + os.fsencode(name))
        found.update(dict.fromkeys(each[len(prefix) :] for each in names))
    if is_new_too:
        found.update(dict.fromkeys(_on_disk(lead or ".", os.fsencode(name))))
    for each in sorted(found):
        if not is_own(each.rstrip(b"/")):
            yield lead + os.fsdecode(each)


def _on_disk(directory: str, start: bytes) -> list[bytes]:
    with os.scandir(os.fsencode(directory)) as listing:
        found = [
            each.name + b"/" if each.is_dir() else each.name
            for each in listing
            if each.name.startswith(start) and (start or not each.name.startswith(b"."))
        ]
    return sorted(found)[:MAX_CANDIDATES]
