"""`.lakefs_ref.yaml`: the link of a directory with a path of a ref, in lakectl's format.

lakecli writes one value per line, as lakectl does, and parses such lines itself: with PyYAML every
command in a linked directory would take a sixth longer. PyYAML parses all other YAML.

lakectl uses ``src``, ``at_head`` and ``active_operation``. It ignores the other entries, which only
lakecli uses:

::

    src               lakefs://REPOSITORY/REF/[PREFIX/]
    at_head           the commit that the directory was last synced with: the base
    active_operation  the unfinished operation: clone, pull, checkout or commit
    target            the commit to which this operation updates the directory
    include, exclude  the patterns of a sparse directory
    unresolved        paths that were changed both here and on the branch, percent-encoded
    left_out          paths that cannot be files here, percent-encoded
"""

import errno
import json
import os
import re
import shlex
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote_from_bytes, unquote_to_bytes

from lakecli.base.directories import LINK_FILE, linked_root, sync_directory
from lakecli.base.model import CommitId
from lakecli.base.parsing import Unparsable, parse_yaml
from lakecli.base.temporary_files import replacing
from lakecli.base.uri import LakeUri, parse_path, ref_of
from lakecli.base.validation import Invalid, Record, identifier, list_of, optional, or_empty, text
from lakecli.errors import IntegrityError, LakeError, Refused, UsageError

MAX_SIZE: Final = 64 << 20
"""The largest size of a `.lakefs_ref.yaml`, in bytes; it can list many paths."""

MAX_FOREIGN: Final = 64 << 10
"""The largest size of a `.lakefs_ref.yaml` that another user owns, in bytes."""

_MAX_URI: Final = 4096
_MAX_PATHS: Final = 1 << 20
_MAX_PATTERNS: Final = 10_000

_NAME: Final = os.fsdecode(LINK_FILE)


def _path(value: object) -> bytes:
    return unquote_to_bytes(text(3 * 1024, min_size=1)(value))


_RECORD: Final = Record(
    {
        "src": text(_MAX_URI, min_size=1),
        "at_head": or_empty(identifier(CommitId)),
        "active_operation": optional(text(64), ""),
        "target": optional(or_empty(identifier(CommitId)), ""),
        "include": optional(list_of(text(_MAX_URI, min_size=1), _MAX_PATTERNS), ()),
        "exclude": optional(list_of(text(_MAX_URI, min_size=1), _MAX_PATTERNS), ()),
        "unresolved": optional(list_of(_path, _MAX_PATHS), ()),
        "left_out": optional(list_of(_path, _MAX_PATHS), ()),
    }
)
_LISTS: Final = ("include", "exclude", "unresolved", "left_out")


class Link(NamedTuple):
    """The link of a directory with a path of a ref.

    Attributes:
        src: repository, ref and prefix; the prefix is empty or ends in a slash.
        at_head: the commit that the directory was last synced with; ``None`` before its first
            checkout is complete.
        active: the operation that was begun and is not finished, or ``""``.
        target: the commit to which this operation updates the directory; ``None`` if lakectl began
            the operation.
        include: patterns of a sparse directory: only matching paths are in the directory.
        exclude: patterns of paths that are not in the directory.
        unresolved: paths, relative to the prefix, that were changed both here and on the branch.
        left_out: paths, relative to the prefix, that cannot be files in this directory.
    """

    src: LakeUri
    at_head: CommitId | None
    active: str = ""
    target: CommitId | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    unresolved: tuple[bytes, ...] = ()
    left_out: tuple[bytes, ...] = ()

    @property
    def ref(self) -> str:
        """The ref of the link, as the user gave it."""
        return ref_of(self.src)

    @property
    def prefix(self) -> bytes:
        """The prefix that all objects of the directory have in the repository."""
        return self.src.path or b""


def find_root(start: Path) -> Path | None:
    """Return the linked directory that is, or contains, a directory; ``None`` if there is none."""
    found = linked_root(start)
    return None if found is None else Path(os.fsdecode(found))


def read_link(root: Path, *, trust: Collection[str] = ()) -> Link | None:
    """Return the link of a directory; ``None`` if it is not linked.

    Args:
        trust: directories whose links are used although another user owns them; ``*`` for all.

    Raises:
        Refused: another user, who is not root, owns the directory or its `.lakefs_ref.yaml`.
        IntegrityError: the `.lakefs_ref.yaml` is malformed.
    """
    file = root / _NAME
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno not in {errno.ELOOP, errno.ENXIO, errno.EMLINK}:
            raise
        raise _malformed(root, "it is not a regular file") from error
    with os.fdopen(descriptor, "rb") as opened:
        status = os.fstat(descriptor)
        _check_owner(root, {status.st_uid, root.stat().st_uid}, trust)
        if not stat.S_ISREG(status.st_mode):
            raise _malformed(root, "it is not a regular file")
        limit = MAX_SIZE if status.st_uid == os.geteuid() else MAX_FOREIGN
        data = opened.read(limit + 1)
    if len(data) > limit:
        raise _malformed(root, f"more than {limit:,} bytes")
    try:
        return _parse(data)
    except (Invalid, Unparsable, UnicodeDecodeError, LakeError) as error:
        why = error.message if isinstance(error, LakeError) else str(error)
        raise _malformed(root, why) from error


def _check_owner(root: Path, owners: set[int], trust: Collection[str]) -> None:
    """Refuse a link that another user may have put into a directory above this user's files."""
    names = {"*", str(root), os.path.realpath(root)}
    if owners <= {0, os.geteuid()} or not names.isdisjoint(trust):
        return
    value = shlex.quote(", ".join([*trust, str(root)]))
    hint = f"if you trust them: `config set local.trust {value}`"
    raise Refused(f"{root} is linked with a ref, but belongs to another user", hint=hint)


def _malformed(root: Path, why: str) -> IntegrityError:
    hint = f"link the directory again: `local init --force lakefs://REPOSITORY/REF/PATH {root}`"
    return IntegrityError(f"malformed {root / _NAME}: {why}", hint=hint)


def _parse(data: bytes) -> Link:
    found: dict[str, Any] = _load(data.decode())
    for name in _LISTS:
        if found.get(name) == "":
            found[name] = []
    fields = _RECORD.read(found)
    if not fields["at_head"] and not fields["target"]:
        raise Invalid("at_head: no commit")
    src = parse_path(fields["src"], allow_empty=True)
    path = src.path or b""
    if path and not path.endswith(b"/"):
        src = parse_path(fields["src"] + "/")
    return Link(
        src,
        fields["at_head"] or None,
        active=fields["active_operation"],
        target=fields["target"] or None,
        **{name: tuple(fields[name]) for name in _LISTS},
    )


_ENTRY: Final = re.compile(r"^(\w+):", re.MULTILINE)
_PLAIN: Final = re.compile(r"[A-Za-z0-9/](?:[\w./:@~^=+-]*[\w./@~^=+-])?")
_QUOTED: Final = r'"(?:[^"\\]|\\["\\nrtbf]|\\u(?:00|20|f[ef])[0-9a-f]{2})*"'
_SCALAR: Final = rf"(\[\])|({_QUOTED})|({_PLAIN.pattern})"
_LINE: Final = re.compile(rf"(?:([a-z_]+):|  -)(?: (?:{_SCALAR}))?")
_UNPRINTED: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON leaves unescaped and YAML does not print."""

_WORDS: Final = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
"""Plain scalars that YAML does not parse as text."""


def _load(text: str) -> dict[str, Any]:
    """Parse the text of a `.lakefs_ref.yaml` into its entries: strings, and lists of strings.

    Raises:
        Unparsable: the text is not a YAML mapping, or has two entries with the same name.
    """
    names = _ENTRY.findall(text)
    if len(names) > len({*names}):
        raise Unparsable("it has two entries of one name")
    found: dict[str, Any] = {}
    items: list[str] | None = None
    for line in text.removesuffix("\n").split("\n"):
        match = _LINE.fullmatch(line)
        if match is None:
            return parse_yaml(text, max_size=MAX_SIZE)
        name, empty, quoted, plain = match.groups()
        scalar = json.loads(quoted) if quoted else plain
        if name:
            items = [] if scalar is None and not empty else None
            found[name] = scalar if items is None else items
        elif items is None or scalar is None:
            return parse_yaml(text, max_size=MAX_SIZE)
        else:
            items.append(scalar)
    return {name: value or "" for name, value in found.items()}


def _dump(entries: Mapping[str, str | Sequence[str]]) -> str:
    """Return entries as the text of a `.lakefs_ref.yaml`, with one value per line."""
    lines = []
    for name, value in entries.items():
        if isinstance(value, str):
            lines.append(f"{name}: {_quoted(value)}")
        else:
            lines += [f"{name}:", *(f"  - {_quoted(item)}" for item in value)]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    if _PLAIN.fullmatch(text) and not text[0].isdigit() and text.lower() not in _WORDS:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return _UNPRINTED.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)


def write_link(root: Path, link: Link) -> None:
    """Write `.lakefs_ref.yaml` durably and atomically.

    Raises:
        UsageError: the URI or a pattern is not Unicode; or patterns are too long or too many.
        Refused: there are too many paths.
    """
    needed = {"src": str(link.src), "at_head": link.at_head or "", "active_operation": link.active}
    others: dict[str, str | Sequence[str]] = {
        "target": link.target or "",
        "include": link.include,
        "exclude": link.exclude,
        "unresolved": [quote_from_bytes(path) for path in link.unresolved],
        "left_out": [quote_from_bytes(path) for path in link.left_out],
    }
    entries = {**needed, **{name: value for name, value in others.items() if value}}
    try:
        data = _dump(entries).encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"cannot be written to {_NAME}: not Unicode: {error.object!r}") from error
    if len(data) > MAX_SIZE or max(len(link.unresolved), len(link.left_out)) > _MAX_PATHS:
        raise Refused(
            f"too many paths that are unresolved or cannot be files for {_NAME}",
            hint="link a smaller path",
        )
    try:
        _parse(data)
    except Invalid as error:
        raise UsageError(f"cannot be written to {_NAME}: {error}") from error
    with replacing(root / _NAME, mode=0o666) as opened:
        opened.write(data)
    sync_directory(root)


class LinkedDirectory(NamedTuple):
    """A linked directory.

    Attributes:
        directory: path of the directory; in a list, relative to the directory searched.
        link: the link; ``None`` if the `.lakefs_ref.yaml` is malformed, or another user owns it.
    """

    directory: Path
    link: Link | None

    @property
    def uri(self) -> str | None:
        """URI with which the directory is linked; ``None`` if its .lakefs_ref.yaml is malformed."""
        return None if self.link is None else str(self.link.src)

    @property
    def commit_id(self) -> CommitId | None:
        """Commit with which the directory was last synced; ``None`` before the first checkout."""
        return None if self.link is None else self.link.at_head


def find_linked(start: Path, *, trust: Collection[str] = ()) -> Iterator[LinkedDirectory]:
    """Yield the linked directories at and below a directory, in order of their names."""
    for place, directories, files in os.walk(start):
        directories.sort()
        if _NAME in files:
            directories.clear()  # no directory below a linked directory is linked
            found = Path(place)
            try:
                link = read_link(found, trust=trust)
            except (IntegrityError, Refused):
                link = None
            yield LinkedDirectory(found.relative_to(start), link)
