"""The arguments and options that commands share.

A parameter of a command is annotated with a type from this module::

    def branch_create(context: Context, branch: BranchUri, *, source: SourceRef) -> None:
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated

from lakecli.base.uri import LakeUri
from lakecli.cli.line import Argument, Kind, Option
from lakecli.cli.parsers import (
    Side,
    each,
    read_branch,
    read_branch_prefix,
    read_duration,
    read_metadata,
    read_path,
    read_prefix,
    read_prefix_or_file,
    read_ref,
    read_repository,
    read_repository_or_ref,
    read_tag,
)

RepositoryUri = Annotated[LakeUri, Argument("REPOSITORY", "lakefs://REPOSITORY", read_repository)]
BranchUri = Annotated[LakeUri, Argument("BRANCH", "lakefs://REPOSITORY/BRANCH", read_branch)]
TagUri = Annotated[LakeUri, Argument("TAG", "lakefs://REPOSITORY/TAG", read_tag)]
RefUri = Annotated[
    LakeUri, Argument("REF", "lakefs://REPOSITORY/REF, with modifiers such as ~2", read_ref)
]
SourceUri = Annotated[
    LakeUri, Argument("SOURCE", "lakefs://REPOSITORY/REF to merge", read_ref, Kind.REF)
]
BranchOrTagUri = Annotated[LakeUri, Argument("REF", "lakefs://REPOSITORY/BRANCH-OR-TAG", read_ref)]
_HERE = "default: of this directory, or set by `lakecli use`"
HereRepositoryUri = Annotated[
    LakeUri | None, Argument("REPOSITORY", f"lakefs://REPOSITORY; {_HERE}", read_repository)
]
HereBranchUri = Annotated[
    LakeUri | None, Argument("BRANCH", f"lakefs://REPOSITORY/BRANCH; {_HERE}", read_branch)
]
HereRepositoryOrRefUri = Annotated[
    LakeUri | None,
    Argument(
        "REF",
        "lakefs://REPOSITORY/BRANCH-OR-TAG, or lakefs://REPOSITORY for its default branch; "
        f"{_HERE}",
        read_repository_or_ref,
    ),
]
HereRepositoryOrBranchUri = Annotated[
    LakeUri | None,
    Argument("BRANCH", f"lakefs://REPOSITORY[/BRANCH]; {_HERE}", read_repository_or_ref),
]
PrefixOrFileUri = Annotated[
    LakeUri,
    Argument(
        "PATH",
        "lakefs://REPOSITORY/REF/[PREFIX]; or a file of a linked directory",
        read_prefix_or_file,
        Kind.PATH_OR_FILE,
    ),
]
RefUris = Annotated[
    list[LakeUri],
    Argument("REF", "lakefs://REPOSITORY/REF, with modifiers such as ~2", each(read_ref)),
]
_IN_PLACE = (
    "lakefs://REPOSITORY/REF/PATH, or NAMESPACE@REF/PATH to read without a clone (lakecli help "
    "remotes); with --files-from, the directory of the names"
)
PathOrDirectoryUri = Annotated[LakeUri, Argument("PATH", _IN_PLACE, read_prefix)]
NewPathUri = Annotated[LakeUri, Argument("PATH", "lakefs://REPOSITORY/BRANCH/PATH", read_path)]
PrefixUri = Annotated[LakeUri, Argument("PATH", "lakefs://REPOSITORY/REF/[PREFIX]", read_prefix)]
BranchPathUri = Annotated[
    LakeUri, Argument("PATH", "lakefs://REPOSITORY/BRANCH/[PATH]", read_branch_prefix)
]
BranchUris = Annotated[
    list[LakeUri], Argument("BRANCH", "lakefs://REPOSITORY/BRANCH", each(read_branch))
]
TagUris = Annotated[list[LakeUri], Argument("TAG", "lakefs://REPOSITORY/TAG", each(read_tag))]
PathOrDirectoryUris = Annotated[list[LakeUri], Argument("PATH", _IN_PLACE, each(read_prefix))]
BranchPathUris = Annotated[
    list[LakeUri], Argument("PATH", "lakefs://REPOSITORY/BRANCH/[PATH]", each(read_branch_prefix))
]

StorageNamespace = Annotated[
    str,
    Argument(
        "NAMESPACE",
        "s3://BUCKET/PREFIX, gs://…, az://…, local:///DIRECTORY or an absolute path",
        kind=Kind.DIRECTORY,
    ),
]

OperationId = Annotated[
    str, Argument("ID", "ID of an operation or its first digits; see op log", kind=Kind.OPERATION)
]

AtOp = Annotated[
    str,
    Option(
        "--at-op",
        metavar="ID",
        help="Read the state right after an operation; see op log",
        kind=Kind.OPERATION,
    ),
]
Remote = Annotated[bool, Option("--remote", help="Move pushed refs back in the bucket, too")]
Yes = Annotated[bool, Option("--yes", "-y", help="Do not ask for confirmation")]
Message = Annotated[str, Option("--message", "-m", metavar="TEXT", help="Commit message")]
CheckName = Annotated[str, Argument("NAME", "Name of a check: the setting checks.NAME")]
Checks = Annotated[
    Sequence[str],
    Option(
        "--check",
        metavar="CHECK",
        help="Publish only if this passes: the name of a check (checks.NAME), or a command",
    ),
]
NoVerify = Annotated[
    bool, Option("--no-verify", help="Leave out hooks of this machine; the operation log says so")
]
Metadata = Annotated[
    Mapping[str, str],
    Option(
        "--meta",
        metavar="KEY=VALUE[,...]",
        help="Metadata to record; quote a pair whose value has a comma: '\"KEY=A,B\"'",
        read=read_metadata,
    ),
]
AllowEmptyMessage = Annotated[
    bool, Option("--allow-empty-message", help="Commit without a message")
]
ContentType = Annotated[
    str | None,
    Option("--content-type", metavar="TYPE", help="Content type; default: by the suffix of PATH"),
]
Amount = Annotated[
    int, Option("--amount", min=-1, metavar="N", help="Show at most N; 0 or -1 for all")
]
After = Annotated[str, Option("--after", metavar="NAME", help="Start after this name")]
Prefix = Annotated[str, Option("--prefix", metavar="TEXT", help="Only what begins with this")]
Expires = Annotated[
    timedelta | None,
    Option(
        "--expires",
        metavar="TIME",
        help="Lifetime of the URL: 90s, 30m, 12h or 7d; default: 15m (presign.expires)",
        read=read_duration,
    ),
]
Recursive = Annotated[bool, Option("--recursive", "-r", help="All objects below the path")]
ForceWithLease = Annotated[
    str | None,
    Option(
        "--force-with-lease",
        metavar="[=COMMIT]",
        help="Move the branch or tag even backwards, unless somebody else moved it in the bucket",
        bare="",
    ),
]
DryRun = Annotated[bool, Option("--dry-run", help="Show what would be done, but do nothing")]
ParentNumber = Annotated[
    int | None,
    Option(
        "--parent-number",
        "-m",
        min=1,
        metavar="N",
        help="Compare a merge commit with its parent N, counted from 1",
    ),
]
Winner = Annotated[
    Side | None,
    Option("--strategy", help="Resolve all conflicts: take the source's side or the destination's"),
]
AllowEmptyCommit = Annotated[
    bool, Option("--allow-empty-commit", "--allow-empty", help="Commit even if nothing changes")
]
ShowMetarangeId = Annotated[bool, Option("--show-meta-range-id", help="Show the metarange ID too")]
SettingName = Annotated[
    str, Argument("KEY", "Name of a setting, as in lakecli config list", kind=Kind.SETTING)
]
PreSign = Annotated[
    bool,
    Option("--pre-sign", hidden=True, help="Accepted for lakectl compatibility; has no effect"),
]
