"""What every command answers with ``--json``; the man pages print it, and every test checks it.

Fields are snake_case. A field is never left out: what there is not, is null or empty, unless its
type says ``optional``. New fields may come; none changes its meaning or goes away.
"""

from __future__ import annotations

from typing import Final, NamedTuple

Record = dict[str, tuple[str, str]]
"""Fields: name, then type and meaning. A type is one of `TYPES`, with ``optional`` or ``or null``
behind it, or ``list of`` in front of it; a name of `RECORDS` is a type too."""

TYPES: Final = {
    "text": "a string; bytes of a path that are not UTF-8 are surrogate escapes",
    "number": "an integer",
    "boolean": "true or false",
    "time": "RFC 3339 in UTC, such as 2026-03-01T12:00:00Z",
    "id": "64 lowercase hex digits",
    "map": "an object whose values are strings",
}
"""What a field may hold."""

_ENTRY: Final[Record] = {
    "path": ("text", ""),
    "size": ("number", "in bytes"),
    "checksum": ("text", "BLAKE3 as 64 hex digits where lakecli uploaded it, else an ETag"),
    "modified_at": ("time", "when it was uploaded"),
    "content_type": ("text", ""),
    "metadata": ("map", "::lakefs::client-mtime is the file's own time, in unix seconds"),
    "physical_address": ("text", "where its bytes lie, as a URI"),
}

_FAILURES: Final[Record] = {
    "excluded": ("number", "objects that --include and --exclude leave out"),
    "failed": ("number", "how many objects"),
    "size": ("number", "bytes of what did not fail"),
    "failures": ("list of failure", "each of them"),
}

_OPERATION: Final[Record] = {
    "id": ("text", "32 hex digits"),
    "at": ("time", ""),
    "kind": ("text", "what was done, such as commit"),
    "command": ("text", "the command line; may be empty"),
    "refs": ("list of ref change", ""),
    "staged": ("list of text", "branches whose uncommitted changes it wrote"),
    "undone": ("boolean", "whether it is taken back, for now"),
    "metadata": ("map", "such as undoes: the ID of the operation that it took back"),
}

_COLLECTION: Final[Record] = {
    "phase": ("text", "idle, condemned or sweeping"),
    "epoch": ("number", "counts the condemnations; 0: there never was one"),
    "grace_seconds": ("number", "the grace period"),
    "since": ("time or null", "when the phase began, by the store's clock"),
    "sweep_at": ("time or null", "when what is condemned can be swept"),
    "resume_at": ("time or null", "when a sweep that was interrupted can be finished or ended"),
}

RECORDS: Final[dict[str, Record]] = {
    "repository": {
        "name": ("text", "on this machine"),
        "storage_namespace": ("text", "where its data lies"),
        "default_branch": ("text", "cannot be deleted"),
        "created_at": ("time", "when its namespace was claimed"),
        "range_entries": ("number", "about how many entries a range holds"),
        "uuid": ("text", "32 hex digits, the same in every clone"),
    },
    "ref": {
        "name": ("text", "of the branch or the tag"),
        "commit_id": ("id", "what it points to"),
    },
    "listed branch": {
        "name": ("text", "of the branch"),
        "commit_id": ("id", "what it points to"),
        "upstream": ("id or null optional", "where it stood in the bucket when last seen"),
        "ahead": ("number optional", "commits that are only here"),
        "behind": ("number optional", "commits that are only in the bucket"),
    },
    "branch status": {
        "name": ("text", "of the branch"),
        "commit_id": ("id", "its head"),
        "upstream": ("id or null", "where it stood in the bucket when last seen"),
        "ahead": ("number", "commits that are only here; 0 without an upstream"),
        "behind": ("number", "commits that are only in the bucket"),
        "added": ("number", "uncommitted objects that are new"),
        "changed": ("number", "uncommitted objects that are other ones"),
        "removed": ("number", "uncommitted objects that are gone"),
    },
    "status": {
        "repository": ("text", "a URI"),
        "storage_namespace": ("text", "where its data lies"),
        "fetched_at": ("time or null", "when the bucket was last looked at; null: never"),
        "branches": ("list of branch status", "ordered by name"),
        "only_in_bucket": ("list of ref", "branches that are not here"),
        "pending": ("list of move", "that an interrupted command began"),
    },
    "move": {
        "kind": ("text", "branch or tag"),
        "name": ("text", "of the ref"),
        "before": ("id or null", "where it stood in the bucket"),
        "after": ("id or null", "where it goes; null: it is deleted"),
        "state": ("text", "applied, lost to somebody else's move, or open"),
    },
    "ref update": {
        "kind": ("text", "branch or tag"),
        "name": ("text", "of the ref"),
        "before": ("id or null", "where it was last seen in the bucket"),
        "after": ("id or null", "where it stands there; null: it was deleted"),
        "change": ("text", "new, moved, forced, deleted, incomplete or differs"),
    },
    "fetched": {
        "repository": ("text", "a URI"),
        "refs": ("number", "in the bucket"),
        "commits": ("number", "that are new here"),
        "packs": ("number", "that were read"),
        "updated": ("list of ref update", "refs that moved since the bucket was last looked at"),
        "damaged": ("list of damage", "what was left out because it cannot be believed"),
    },
    "damage": {
        "kind": ("text", "branch, tag, pack or commit"),
        "name": ("text", "of the branch or tag; the ID of the pack or commit"),
        "key": ("text", "of the object in the storage namespace"),
        "what": ("text", "is wrong"),
    },
    "cloned": {
        "repository": ("text", "a URI"),
        "storage_namespace": ("text", "where its data lies"),
        "default_branch": ("text", ""),
        "branches": ("number", ""),
        "tags": ("number", ""),
        "commits": ("number", "that are new on this machine"),
        "left_out": ("list of ref update", "refs of the bucket that are not here, and why"),
        "outside": ("list of outside place", "where objects lie outside the namespace"),
        "damaged": ("list of damage", "what was left out because it cannot be believed"),
    },
    "outside place": {
        "place": ("text", "a bucket or a directory"),
        "objects": ("number", "that lie there, as far as they were counted"),
        "allowed": ("boolean", "whether they may be read on this machine"),
    },
    "pushed": {
        "repository": ("text", "a URI"),
        "dry_run": ("boolean", "nothing was moved"),
        "refs": ("list of pushed ref", "that are in the bucket as they are here"),
        "failed": ("list of failed ref", "that were refused"),
    },
    "pushed ref": {
        "kind": ("text", "branch or tag"),
        "name": ("text", "of the ref"),
        "before": ("id or null", "where it stood in the bucket"),
        "after": ("id or null", "where it stands there now; null: it is deleted"),
        "state": ("text", "created, updated, forced, deleted, up to date or behind"),
    },
    "failed ref": {
        "kind": ("text", "branch or tag"),
        "name": ("text", "of the ref"),
        "error": ("text", "why"),
    },
    "pulled": {
        "repository": ("text", "a URI"),
        "name": ("text", "of the branch or tag"),
        "before": ("id or null", "where it stood here; null: it was not"),
        "after": ("id", "where it stands; of a merge with --dry-run, what would be merged"),
        "state": ("text", "created, fast-forward, merged, up to date, ahead or tag"),
        "dry_run": ("boolean", "the branch was not moved"),
        "updated": ("list of ref update", "refs that moved since the bucket was last looked at"),
        "damaged": ("list of damage", "what was left out because it cannot be believed"),
    },
    "commit": {
        "id": ("id", "as lakeFS computes it"),
        "parents": ("list of id", "the first parent first"),
        "message": ("text", ""),
        "committer": ("text", "name and e-mail; may be empty"),
        "created_at": ("time", ""),
        "metadata": ("map", ""),
        "metarange_id": ("text", "of its tree; empty for the empty tree"),
        "generation": ("number", "1, or one more than the largest of its parents"),
    },
    "reflog entry": {
        "ref": ("text", "an expression for where it went: main@{0}"),
        "commit_id": ("id or null", "where it went; null where it was deleted"),
        "before_commit_id": ("id or null", "where it stood; null where it was not there"),
        "at": ("time", "by the clock of whoever moved it"),
        "what": ("text", "what was done: push, commit, …"),
        "who": ("text", "name and e-mail; empty where that is not known"),
        "shared": ("boolean", "whether it is a move in the bucket"),
    },
    "difference": {
        "type": ("text", "added, removed, changed or conflict"),
        "path": ("text", ""),
    },
    "entry": _ENTRY,
    "presigned entry": _ENTRY
    | {
        "url": ("text", "reads the object; keep it secret"),
        "expires_at": ("time", "when the URL really ends"),
    },
    "listed": {"type": ("text", "object, or common_prefix, which has a path only"), **_ENTRY}
    | {
        name: (f"{kind} optional", meaning)
        for name, (kind, meaning) in _ENTRY.items()
        if name != "path"
    },
    "downloaded entry": _ENTRY | {"destination": ("text", "the file, as an absolute path")},
    "upload": {
        "uploaded": ("number", "objects that are new or changed"),
        "unchanged": ("number", "objects that were there already"),
        **_FAILURES,
    },
    "imported": {
        "objects": ("number", "that the source lists"),
        "size": ("number", "their bytes"),
        "added": ("number", "paths that are new on the branch"),
        "changed": ("number", "paths that are other objects now"),
        "removed": ("number", "paths that the source lacks"),
        "unchanged": ("number", "paths that were the same before"),
        "failed": ("number", "objects that failed; then nothing is committed"),
        "failures": ("list of failure", "the first of them"),
        "commit": ("commit or null", "null for --dry-run, or where objects failed"),
    },
    "download": {
        "downloaded": ("number", "objects"),
        "unchanged": ("number", "objects whose file was there already"),
        "destination": ("text", "the directory, as an absolute path"),
        **_FAILURES,
    },
    "transfer plan": {
        "new": ("number", "objects that are not there yet"),
        "new_size": ("number", "their bytes"),
        "changed": ("number", "objects that would replace another one"),
        "changed_size": ("number", "their bytes"),
        "unchanged": ("number", "objects that are there already"),
        "unchanged_size": ("number", "their bytes"),
        "excluded": ("number", "objects that --include and --exclude leave out"),
        "excluded_size": ("number", "their bytes"),
        "failed": ("number", "how many objects would fail"),
        "failures": ("list of failure", "each of them"),
    },
    "failure": {
        "path": ("text", "of the object; of the file where it was to be uploaded"),
        "error": ("text", "why"),
    },
    "export": {
        "commit_id": ("id", "what was exported"),
        "since_commit_id": ("id or null", "what an earlier export had brought, with --since"),
        "since_was_exported": ("boolean or null", "whether the destination has a report of that"),
        "destination": ("text", "a URI"),
        "uncommitted": ("boolean", "whether the branch has changes that are not committed"),
        "new": ("number", "objects that were not there"),
        "new_size": ("number", "their bytes"),
        "changed": ("number", "objects that replaced something else"),
        "changed_size": ("number", "their bytes"),
        "copied_by_store": ("number", "how many of both the store copied by itself"),
        "unchanged": ("number", "objects that were there already"),
        "unchanged_size": ("number", "their bytes"),
        "deleted": ("number", "objects that the earlier ref had and this one has not"),
        "deleted_size": ("number", "their bytes"),
        "without_metadata": ("number", "objects whose metadata the destination cannot hold"),
        "failed": ("number", "how many objects"),
        "failures": ("list of failure", "each of them, 10000 at most"),
        "status": ("text or null", "the status report, below the destination"),
        "dry_run": ("boolean", "whether the numbers only tell what would be done"),
    },
    "presigned": {
        "path": ("text", ""),
        "url": ("text", "reads the object; keep it secret"),
        "expires_at": ("time", "when it really ends"),
    },
    "link": {
        "path": ("text", ""),
        "size": ("number", "bytes"),
        "checksum": ("text", "BLAKE3 in 64 hex digits, or the ETag of what was imported"),
        "url": ("text", "reads the object; keep it secret"),
        "expires_at": ("time", "when it really ends"),
    },
    "handoff": {
        "repository": ("text", "a URI"),
        "ref": ("text", "as typed"),
        "commit_id": ("id", "what the ref was then"),
        "uncommitted": ("boolean", "whether uncommitted changes of the branch are among them"),
        "prefix": ("text", "of all paths"),
        "created_at": ("time", "when the URLs were signed"),
        "expires_at": ("time or null", "when the first of them ends"),
        "count": ("number", "objects"),
        "size": ("number", "bytes, of all objects"),
        "manifest": ("text or null", "the file"),
        "script": ("text or null", "the file"),
    },
    "checked link": {
        "path": ("text", ""),
        "state": ("text", "same, changed or removed"),
        "expired": ("boolean", "whether the URL has ended"),
        "expires_at": ("time", "when it ends or ended"),
        "seconds_left": ("number", "negative where it has ended"),
    },
    "incoming link": {
        "id": ("text", "32 hex digits, for fs stage --incoming"),
        "url": ("text", "takes an object; keep it secret"),
        "expires_at": ("time", "when it really ends"),
        "headers": ("map", "to be sent with the object"),
        "physical_address": ("text", "full URI of where it goes"),
    },
    "removed": {"removed": ("number", "objects")},
    "removal plan": {
        "objects": ("number", "that would be removed"),
        "size": ("number", "their bytes"),
    },
    "rearranged": {
        "source": ("text", "a URI"),
        "destination": ("text", "a URI"),
        "objects": ("number", "copied or moved"),
    },
    "checked": {
        "type": (
            "text",
            "finding; repaired, repairable or lost with --repair; or summary, which comes last",
        ),
        "kind": (
            "text optional",
            "repository, ref, commit, pack, metarange, range, entry, data, external, or cache",
        ),
        "name": ("text optional", "the ref, the commit ID or the object's key"),
        "what": ("text optional", "is wrong"),
        "path": ("text or null optional", "the path that it hurts"),
        "ref": ("text or null optional", "a branch or tag that it hurts"),
        "commit_id": ("id or null optional", "whose tree it is; null for what is uncommitted"),
        "how": ("text optional", "it was repaired, or would be"),
        "hurt_refs": ("list of text optional", "branches and tags that a loss hurts now"),
        "hurt_paths": ("list of text optional", "paths that it hurts, 100 at most"),
        "hurt_path_count": ("number optional", "of them, as far as that is known"),
        "advice": ("text optional", "what to do about a loss"),
        "refs": ("number optional", "checked"),
        "commits": ("number optional", "checked"),
        "metaranges": ("number optional", "checked"),
        "ranges": ("number optional", "checked"),
        "entries": ("number optional", "checked"),
        "objects": ("number optional", "data objects in the namespace"),
        "bytes_hashed": ("number optional", "with --data"),
        "external": ("number optional", "entries whose bytes lie elsewhere"),
        "external_asked": ("number optional", "of them that were asked for, with --external"),
        "findings": ("number optional", ""),
        "damaged_refs": ("list of text optional", ""),
        "outside": ("list of outside place optional", "where objects lie outside the namespace"),
    },
    "quickstart": {
        "repository": ("text", "a URI"),
        "storage_namespace": ("text", "where its data lies"),
        "directory": ("text", "the files that were uploaded"),
        "commands": ("list of text", "that were run, as they are typed"),
    },
    "resolved": {
        "uri": ("text", "as asked for"),
        "commit_id": ("id", ""),
        "kind": ("text", "of the base: branch, tag or commit"),
        "base": ("text", "name of the branch or tag, or ID of the commit, before any modifier"),
        "base_commit_id": ("id", ""),
        "staging": ("boolean", "whether reading it shows uncommitted changes"),
        "steps": ("list of step", "one for each modifier"),
    },
    "step": {
        "modifier": ("text", "such as ~2"),
        "commit_id": ("id", "where it leads"),
    },
    "merge base": {
        "base_commit_id": ("id", "the best common ancestor"),
        "source_commit_id": ("id", ""),
        "destination_commit_id": ("id", ""),
    },
    "reverts": {
        "branch": ("text", ""),
        "commits": ("list of commit", "that were made, in their order"),
    },
    "examination": {
        "target": ("text", "the repository, or the namespace in its one spelling"),
        "storage_namespace": ("text or null", "null where the local store does not open"),
        "verdict": ("text", "the worst of all: ok, warning or failed"),
        "checks": ("list of check", "in the order in which they were made"),
    },
    "check": {
        "name": ("text", "such as create-only; names stay, new ones may come"),
        "verdict": ("text", "ok, warning, failed or skipped"),
        "seen": ("text", "in one line; of what was skipped, why"),
        "fix": ("text or null", "what helps: a command, a permission, a variable"),
        "kind": ("text or null", "of the error where it failed, as in errors"),
        "details": ("map", "what there is to tell besides, such as seconds of the clock"),
    },
    "operation": _OPERATION,
    "operation shown": _OPERATION | {"paths": ("list of staged path", "as many as --amount says")},
    "ref change": {
        "kind": ("text", "branch, tag or repository"),
        "name": ("text", ""),
        "before": ("text or null", "the commit ID, or the UUID of a repository; null: not there"),
        "after": ("text or null", "likewise; equal where only uncommitted changes went or came"),
    },
    "staged path": {
        "branch": ("text", ""),
        "path": ("text", ""),
        "before": ("text", "what was staged there before: nothing, object or deletion"),
    },
    "undone": {
        "operation": ("text", "ID of what was taken back, or done again"),
        "kind": ("text", "what that was, such as commit"),
        "command": ("text", "by which it was done; may be empty"),
        "appended": ("text", "ID of the operation that says so"),
        "refs": ("list of ref change", "what changed now"),
        "staged": ("list of text", "branches whose uncommitted changes changed now"),
        "remote": ("list of text", "branches and tags that moved back in the bucket"),
    },
    "setting": {
        "key": ("text", ""),
        "value": ("text or null", ""),
        "origin": ("text optional", "with --show-origin: flag, environment, file or default"),
        "place": ("text or null optional", "with --show-origin: the flag, variable or file"),
    },
    "setting written": {
        "key": ("text", ""),
        "value": ("text optional", "what it was set to"),
        "file": ("text", "the configuration file"),
    },
    "script": {
        "shell": ("text", ""),
        "script": ("text", ""),
    },
    "collection state": _COLLECTION,
    "collection": {
        "action": ("text", "condemned, found nothing, waits or swept"),
        "dry_run": ("boolean", "whether that is only what would be done"),
        **_COLLECTION,
        "objects": ("number", "that are garbage"),
        "size": ("number", "of these, in bytes"),
        "spared": ("number", "condemned objects that are in use again"),
        "garbage": ("list of garbage", "by kind"),
        "commits": ("number", "that keep their objects; 0 where nothing was looked for"),
        "ranges": ("number", "distinct ranges of these that were read"),
        "entries": ("number", "in these ranges"),
        "lost": ("list of text", "tables that unpushed work needs and that are gone"),
    },
    "garbage": {
        "kind": (
            "text",
            "data, range, metarange, pack, reflog, incoming, doctor or upload",
        ),
        "prefix": ("text", "of the keys"),
        "why": ("text", "it is garbage"),
        "objects": ("number", ""),
        "size": ("number", "in bytes"),
    },
    "retention rules": {
        "default_retention_days": ("number", ""),
        "branches": ("list of retention rule", "those with days of their own, by name"),
    },
    "retention rule": {
        "branch_id": ("text", "name of the branch"),
        "retention_days": ("number", ""),
    },
    "version": {"version": ("text", "")},
}
"""Every kind of object."""


class Answer(NamedTuple):
    """What a command answers.

    Attributes:
        record: a name of `RECORDS`.
        each: one object a line, none or many; else exactly one.
        option: the option that makes this its answer; ``""`` for the usual one.
    """

    record: str
    each: bool = False
    option: str = ""


ANSWERS: Final[dict[str, tuple[Answer, ...]]] = {
    "branch create": (Answer("ref"),),
    "branch delete": (Answer("ref"),),
    "branch list": (Answer("listed branch", each=True),),
    "branch reset": (Answer("ref"),),
    "branch revert": (Answer("reverts"),),
    "branch show": (Answer("ref"),),
    "cherry-pick": (Answer("commit"),),
    "clone": (Answer("cloned"),),
    "commit": (Answer("commit"),),
    "completion": (Answer("script"),),
    "config get": (Answer("setting"),),
    "config list": (Answer("setting", each=True),),
    "config set": (Answer("setting written"),),
    "config unset": (Answer("setting written"),),
    "diff": (Answer("difference", each=True),),
    "doctor": (Answer("examination"),),
    "export": (Answer("export"),),
    "fetch": (Answer("fetched"),),
    "find-merge-base": (Answer("merge base"),),
    "fs cp": (Answer("rearranged"),),
    "fs download": (
        Answer("downloaded entry"),
        Answer("download", option="-r"),
        Answer("transfer plan", option="--dry-run"),
    ),
    "fs ls": (Answer("listed", each=True),),
    "fs mv": (Answer("rearranged"),),
    "fs presign": (
        Answer("presigned"),
        Answer("link", each=True, option="-r"),
        Answer("handoff", option="--manifest"),
        Answer("handoff", option="--script"),
        Answer("checked link", each=True, option="--check"),
        Answer("incoming link", each=True, option="--put"),
    ),
    "fs rm": (Answer("removed"), Answer("removal plan", option="--dry-run")),
    "fs stage": (Answer("entry"),),
    "fs stat": (Answer("entry"), Answer("presigned entry", option="--pre-sign")),
    "fs upload": (
        Answer("entry"),
        Answer("upload", option="-r"),
        Answer("transfer plan", option="--dry-run"),
    ),
    "fsck": (Answer("checked", each=True),),
    "gc delete-config": (Answer("retention rules"),),
    "gc get-config": (Answer("retention rules"),),
    "gc run": (Answer("collection"),),
    "gc set-config": (Answer("retention rules"),),
    "gc status": (Answer("collection state"),),
    "gc undo": (Answer("collection state"),),
    "import": (Answer("imported"),),
    "log": (Answer("commit", each=True),),
    "merge": (Answer("commit"), Answer("difference", each=True, option="--dry-run")),
    "op log": (Answer("operation", each=True),),
    "op redo": (Answer("undone"),),
    "op restore": (Answer("operation"),),
    "op show": (Answer("operation shown"),),
    "op undo": (Answer("undone"),),
    "pull": (Answer("pulled"),),
    "push": (Answer("pushed"),),
    "quickstart": (Answer("quickstart"),),
    "redo": (Answer("undone"),),
    "reflog": (Answer("reflog entry", each=True),),
    "repo create": (Answer("repository"),),
    "repo delete": (Answer("repository"),),
    "repo list": (Answer("repository", each=True),),
    "rev-parse": (Answer("resolved", each=True),),
    "show commit": (Answer("commit"),),
    "status": (Answer("status"),),
    "tag create": (Answer("ref"),),
    "tag delete": (Answer("ref"),),
    "tag list": (Answer("ref", each=True),),
    "tag show": (Answer("ref"),),
    "undo": (Answer("undone"),),
    "version": (Answer("version"),),
}
"""The answer of every command; a command without a row answers nothing in JSON."""
