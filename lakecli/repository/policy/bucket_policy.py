"""Translate the rules into permissions of a bucket, for one person.

Only lakecli honours the rules. The permissions of a bucket hold for every program, but they can
only say who may write or delete which keys. So the document of this module enforces who may move
which refs, who may set the policy, and who may state checks and approvals. Only people who collect
garbage may delete objects or, on S3, replace objects that never change.

If a cloud's language cannot express a pattern of names, the document forbids more than the rule,
never less. Owners may move all refs, since setting a policy writes its number into them.
"""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from lakecli.base import layout
from lakecli.base.model import RefKind
from lakecli.errors import UsageError
from lakecli.repository.policy.document import Policy, RequiredApproval
from lakecli.stores.uri import NamespaceUri

COLLECTORS: Final = "collectors"
"""The role that may delete objects; if a policy does not define it, the owners may."""

_WILD: Final = re.compile(r"\[!?[^][!]+\]|[*?]")
_MARKS: Final = f"{layout.GC}marks/"

_IMMUTABLE: Final = (
    layout.DATA,
    layout.SSTABLES,
    layout.COMMITS,
    layout.REFLOG,
    layout.POLICIES,
    layout.ATTESTATIONS,
)
_NEVER_CHANGED: Final = tuple(f"{each}*" for each in _IMMUTABLE)
_REPLACED: Final = (f"{layout.REFS}*", layout.POLICY, layout.REPOSITORY, layout.GC_STATE)
_AREAS: Final = (
    layout.DATA,
    layout.SSTABLES,
    layout.COMMITS,
    layout.ATTESTATIONS,
    layout.POLICIES,
    layout.GC,
    layout.INCOMING,
    layout.SCRATCH,
    layout.DOCTOR,
    layout.POLICY,
    layout.REPOSITORY,
    layout.SHARING,
    *(f"{each}{kind}/" for each in (layout.REFS, layout.REFLOG) for kind in ("branches", "tags")),
)
"""Prefixes of all keys that lakecli writes; no two of them overlap."""


class Cloud(StrEnum):
    """The cloud for which a document is written."""

    AWS = "aws"
    GCS = "gcs"
    AZURE = "azure"


_SCHEMES: Final = {Cloud.AWS: "s3", Cloud.GCS: "gs", Cloud.AZURE: "az"}


class Limits(NamedTuple):
    """Keys below the namespace that a person may not use; a ``*`` stands for any text.

    Attributes:
        write: keys that may not be written.
        delete: keys that may not be deleted.
        may_collect: whether the person may collect garbage and repair damaged objects.
    """

    write: tuple[str, ...]
    delete: tuple[str, ...]
    may_collect: bool


def limits_of(policy: Policy, person: str) -> Limits:
    """Return the keys that a person may not write or delete under the rules.

    Args:
        person: an e-mail address; a role, which has only the permissions that all of its members
            have; or ``""`` for a person in no role.

    Raises:
        UsageError: there is no such role.
    """
    if person and "@" not in person and person not in policy.roles:
        known = ", ".join(policy.roles) or "none"
        hint = f"roles of this policy: {known}"
        raise UsageError(f"no role {person!r}, and it is not an e-mail address", hint=hint)
    people = policy.members(person)

    def is_one_of(wanted: Sequence[str]) -> bool:
        return bool(people) and people <= {who for each in wanted for who in policy.members(each)}

    owns = is_one_of(policy.owners)
    may_collect = is_one_of((COLLECTORS,)) if COLLECTORS in policy.roles else owns
    write = [] if may_collect else [layout.GC_STATE, f"{_MARKS}*"]
    delete = [] if may_collect else [*_NEVER_CHANGED, *_REPLACED, f"{_MARKS}*"]
    if not owns:
        moved = (key for rule in policy.rules if rule.who and not is_one_of(rule.who)
                 for name in rule.refs for key in _keys_of(name))  # fmt: skip
        setting = [layout.POLICY, f"{layout.POLICIES}*", layout.REPOSITORY]
        own = [*moved, *(setting if policy.owners else ())]
        write += own
        delete += own if may_collect else []  # otherwise `delete` covers these keys already
        stating = [
            (each.role,) if isinstance(each, RequiredApproval) else rule.who
            for rule in policy.rules
            for each in rule.require
        ]
        # A rule without `who` lets everybody state its checks.
        if stating and all(stating) and not any(map(is_one_of, stating)):
            write.append(f"{layout.ATTESTATIONS}*")
    return Limits(tuple(dict.fromkeys(write)), tuple(dict.fromkeys(delete)), may_collect)


def bucket_policy(
    policy: Policy, namespace: NamespaceUri, cloud: Cloud, person: str = ""
) -> dict[str, Any]:
    """Return the bucket permissions of one person as a JSON-serialisable document.

    Args:
        cloud: the cloud of the namespace, which determines the form of the document.
        person: an e-mail address, a role or ``""``, as for `limits_of`.

    Raises:
        UsageError: there is no such role, the namespace is in another cloud, or the language of the
            cloud cannot express the rules.
    """
    if namespace.scheme != _SCHEMES[cloud]:
        hint = "a bucket has a policy in the language of its cloud; a directory has none"
        raise UsageError(f"{namespace} is not a namespace of {cloud}", hint=hint)
    if cloud is not Cloud.AWS and set(namespace.path) & set("'\\*?"):
        raise UsageError(f"a condition of {cloud} cannot name this prefix: {namespace.path!r}")
    limits = limits_of(policy, person)
    start = f"{namespace.path}/" if namespace.path else ""
    members = sorted(policy.members(person)) if person else ["PERSON"]
    if cloud is Cloud.AWS:
        return _aws(limits, namespace.bucket, start)
    if cloud is Cloud.GCS:
        return _gcs(limits, f"projects/_/buckets/{namespace.bucket}", start, members)
    return _azure(limits, namespace.bucket, start, members)


def _keys_of(pattern: str) -> Iterator[str]:
    """Yield key patterns for the refs that a rule's pattern matches, and for their reflogs."""
    literals = map(layout.escape_name, _WILD.split(pattern))
    escaped = re.sub(r"\*+", "*", "*".join(literals))
    for kind in (RefKind.BRANCH, RefKind.TAG):
        yield layout.ref_key(kind, "x")[:-1] + escaped
        yield layout.reflog_prefix(kind, "x")[: -len("x/")] + f"{escaped}/*"


def _aws(limits: Limits, bucket: str, start: str) -> dict[str, Any]:
    """Return an IAM policy that denies actions to a user, group or role."""
    # In a resource, * and ? are wildcards, and $ begins a variable.
    below = f"arn:aws:s3:::{bucket}/" + re.sub(r"[*?$]", r"${\g<0>}", start)

    def deny(name: str, action: object, keys: Sequence[str], **condition: object) -> dict[str, Any]:
        resources = [below + key for key in keys]
        return {"Sid": name, "Effect": "Deny", "Action": action, "Resource": resources, **condition}

    def unless(*headers: str) -> dict[str, Any]:
        # Uploads of parts have no conditions: only a request that creates an object needs one.
        absent = {f"s3:{each}": "true" for each in headers}
        return {"Null": absent, "Bool": {"s3:ObjectCreationOperation": "true"}}

    statements = [
        deny("NotWritten", "s3:PutObject", limits.write),
        deny("NotDeleted", ["s3:DeleteObject", "s3:DeleteObjectVersion"], limits.delete),
        deny("OnlyOver", "s3:PutObject", _REPLACED, Condition=unless("if-match", "if-none-match")),
    ]
    if not limits.may_collect:
        once = unless("if-none-match")
        statements.append(deny("OnlyNew", "s3:PutObject", _NEVER_CHANGED, Condition=once))
    return {"Version": "2012-10-17", "Statement": [each for each in statements if each["Resource"]]}


_MOST_OPERATORS: Final = 12


def _gcs(limits: Limits, bucket: str, start: str, members: Sequence[str]) -> dict[str, Any]:
    """Return role bindings for the allow policy of a bucket.

    In GCS, replacing an object requires the permission to delete it.
    """
    replaced = [each for each in limits.delete if each not in _REPLACED or each in limits.write]
    below = f"{bucket}/objects/{start}"
    reads = [f"resource.name == '{bucket}'", f"resource.name.startsWith('{below}')"]
    granted = [
        ("objectViewer", [" || ".join(reads)]),
        ("objectCreator", _conditions(below, limits.write)),
        ("objectUser", _conditions(below, [*limits.write, *replaced])),
    ]
    bindings = [
        {
            "role": f"roles/storage.{role}",
            "members": [f"user:{each}" for each in members],
            "condition": {"title": f"lakecli {role} {number}", "expression": each},
        }
        for role, conditions in granted
        for number, each in enumerate(conditions)
    ]
    return {"version": 3, "bindings": bindings}


def _conditions(below: str, denied: Sequence[str]) -> Iterator[str]:
    """Yield CEL conditions, which together grant access to all keys that are not denied."""
    whole: list[str] = []
    for area in _AREAS:
        inside = [key for key in dict.fromkeys(denied) if key.startswith(area)]
        if any(_covers(key, area) for key in denied):
            continue
        if not inside:
            whole.append(_cel(below, f"{area}*"))
        elif len(inside) >= _MOST_OPERATORS:
            raise UsageError(
                f"a condition of Google has {_MOST_OPERATORS} operators at most, and the rules "
                f"name {len(inside)} patterns of refs",
                hint="write fewer patterns, such as 'release-*'",
            )
        else:
            names = " || ".join(_cel(below, key) for key in inside)
            yield f"{_cel(below, f'{area}*')} && !({names})"
    for first in range(0, len(whole), _MOST_OPERATORS):
        yield " || ".join(whole[first : first + _MOST_OPERATORS])


def _covers(key: str, area: str) -> bool:
    """Return whether a key, perhaps with a wildcard, matches all keys that begin with `area`."""
    head, wild, rest = key.partition("*")
    return not rest and (area.startswith(head) if wild else area == key)


def _cel(below: str, key: str) -> str:
    """Return a CEL expression that matches a key; only the part before its first ``*`` counts."""
    head, wild, _ = key.partition("*")
    name = f"'{below}{head}'"
    return f"resource.name.startsWith({name})" if wild else f"resource.name == {name}"


_BLOBS: Final = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"


def _azure(limits: Limits, bucket: str, start: str, members: Sequence[str]) -> dict[str, Any]:
    """Return a role assignment for a container, with a condition that limits the keys."""
    account, _, container = bucket.partition("/")

    def clause(actions: Sequence[str], denied: Sequence[str]) -> str:
        others = " AND ".join(f"!(ActionMatches{{'{_BLOBS}/{each}'}})" for each in actions)
        path = f"@Resource[{_BLOBS}:path]"
        tests = f"{path} StringLike '{start}*'"
        if denied:
            names = ", ".join(f"'{start}{key}'" for key in denied)
            tests += f" AND {path} ForAllOfAllValues:StringNotLike {{{names}}}"
        return f"(({others}) OR ({tests}))"

    return {
        "role": "Storage Blob Data Contributor",
        "assignees": list(members),
        "scope": "/subscriptions/SUBSCRIPTION/resourceGroups/GROUP/providers/Microsoft.Storage/"
        f"storageAccounts/{account}/blobServices/default/containers/{container}",
        "conditionVersion": "2.0",
        "condition": clause(("write", "add/action"), limits.write)
        + " AND "
        + clause(("delete", "move/action"), limits.delete),
    }
