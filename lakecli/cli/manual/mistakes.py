"""Hints for invalid command lines: commands of git, lakectl, aws or Unix, and incomplete lines.

The table `HABITS` covers unknown commands, unknown options and surplus words. `run` searches the
table when a line is invalid. If the meaning of a line is clear and the command is harmless,
`lakecli.cli.tree.instead` runs the right command.
"""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from lakecli.base.model import is_repository_name
from lakecli.base.uri import SCHEME
from lakecli.cli.context import Context
from lakecli.cli.tree import COMMANDS, GROUPS

_DOWNLOAD: Final = "lakecli fs download PATH DEST; with -r all below PATH"
_UPLOAD: Final = "lakecli fs upload FILE PATH; with -r a directory"
_BUCKET: Final = "the bucket is the only remote, so it is not named: lakecli"

_BRING_BACK: Final = "objects of an earlier commit: lakecli fs cp -r --delete REF/PATH BRANCH/PATH"
_MIRROR: Final = (
    "lakecli fs upload -r DIRECTORY PATH --delete, or lakecli fs download -r PATH DEST --delete"
)
_EARLIER: Final = (
    "one operation at a time; to an earlier state: lakecli op log; lakecli op restore REPOSITORY ID"
)

HABITS: Final = {
    "-V": "lakecli version",
    "actions": "a check, and a rule that requires it: lakecli help policy",
    "add": "a commit takes all files of a linked directory: lakecli commit -m MESSAGE; elsewhere: "
    "lakecli fs upload FILE PATH",
    "am": "apply a commit to a branch: lakecli cherry-pick REF BRANCH",
    "archive": "files of a ref: lakecli fs download -r PATH DEST; in a bucket: lakecli export PATH "
    "DEST",
    "auth": "who may do what is up to rules and the bucket: lakecli help policy",
    "branch -a": "lakecli branch list; those of the bucket, too: lakecli status REPOSITORY",
    "branch -D": "lakecli branch delete BRANCH",
    "branch -d": "lakecli branch delete BRANCH",
    "branch -m": "lakecli branch rename BRANCH NAME",
    "branch -M": "lakecli branch rename BRANCH NAME",
    "branch rm": "lakecli branch delete BRANCH",
    "branch reset +": "uncommitted changes are discarded; to move the branch to a commit: lakecli "
    "branch reset BRANCH --to REF",
    "branch protect": "lakecli branch-protect add REPOSITORY PATTERN; all rules: lakecli "
    "policy show REPOSITORY",
    "cat": "lakecli fs cat PATH",
    "checkout +": f"files of a linked directory: lakecli restore FILE --source REF; {_BRING_BACK}",
    "cherry-pick --abort": "it is made whole or not at all; take the last one back: lakecli undo",
    "cherry-pick --continue": "it is made whole or not at all: lakecli cherry-pick REF BRANCH",
    "clone http": "a storage namespace is s3://BUCKET/PREFIX, gs://…, az://…: lakecli clone "
    "s3://BUCKET/PREFIX lakefs://NAME",
    "clone lakefs://": "files of a ref in a directory: lakecli local clone "
    "lakefs://REPOSITORY/REF/ DIRECTORY",
    "commit --author": "who commits is a setting: lakecli config set user.name NAME",
    "commit --amend": "take the commit back, and commit again: lakecli undo",
    "commit -a": "all changes are committed anyway: lakecli commit -m MESSAGE",
    "commit -m …": 'quote the message: lakecli commit -m "hello world"',
    "config --get": "lakecli config get KEY",
    "config --global": "lakecli config set KEY VALUE",
    "config --list": "lakecli config list",
    "config user.": "lakecli config get KEY, or lakecli config set KEY VALUE",
    "cp": "lakecli fs cp SOURCE DEST",
    "describe": "the tags: lakecli tag list; the commit of a ref: lakecli rev-parse REF",
    "fetch --all": "a fetch brings all branches and tags: lakecli fetch",
    "fetch --prune": "a fetch notes what was deleted, too: lakecli fetch",
    "fetch origin": f"{_BUCKET} fetch",
    "find": "lakecli fs find PATH --name PATTERN",
    "fs get": _DOWNLOAD,
    "fs head": "lakecli fs stat PATH",
    "fs mkdir": "there are no directories without objects: lakecli fs upload -r DIRECTORY PATH",
    "fs put": _UPLOAD,
    "fs restore": _BRING_BACK,
    "fs rm -f": "a removal asks nothing; all objects below a path: lakecli fs rm -r PATH",
    "fs rename": "lakecli fs mv SOURCE DEST",
    "fs rsync": _MIRROR,
    "fs sync": _MIRROR,
    "gateway": "an endpoint of S3 for other programs: lakecli serve",
    "gc --dry-run": "lakecli gc run REPOSITORY --dry-run",
    "gc run --force": "without a question: lakecli gc run REPOSITORY -y",
    "get": _DOWNLOAD,
    "grep": "names: lakecli fs find PATH --name PATTERN; contents: lakecli fs cat PATH | grep TEXT",
    "identity": "the committer of commits: lakecli config get user.name; the user of the bucket: "
    "lakecli doctor TARGET",
    "ingest": "lakecli import --from SOURCE --to lakefs://REPOSITORY/BRANCH/PATH/",
    "import …": "lakecli import --from SOURCE --to lakefs://REPOSITORY/BRANCH/PATH/",
    "init": "a repository: lakecli repo create REPOSITORY NAMESPACE; a directory linked with one: "
    "lakecli local init PATH DIRECTORY",
    "log --limit": "at most three commits: lakecli log --amount 3",
    "log --stat": "what a commit changed: lakecli diff REF~1 REF",
    "log +": "commits that changed a path: lakecli log REF/PATH",
    "log -0": "at most five commits: lakecli log --amount 5",
    "log -p": "what a commit changed: lakecli diff REF~1 REF",
    "login": "credentials are those of the cloud's own tools: lakecli help clouds",
    "ls": "lakecli fs ls PATH",
    "ls-files": "lakecli fs ls -r lakefs://REPOSITORY/BRANCH/",
    "ls-remote": "lakecli status lakefs://REPOSITORY",
    "ls-tree": "lakecli fs ls lakefs://REPOSITORY/REF/",
    "merge --abort": "a merge is made whole or not at all; take the last one back: lakecli undo",
    "merge --continue": "a merge is made whole or not at all: lakecli merge SOURCE BRANCH "
    "--strategy source-wins",
    "merge-base": "lakecli find-merge-base REF REF",
    "metastore": "there are no tables of a metastore; Spark reads files: lakecli help spark",
    "mount": "files of a branch: lakecli local clone PATH DIRECTORY; as a file system: lakecli "
    "help python",
    "mv": "lakecli fs mv SOURCE DEST",
    "pull --rebase": "a pull merges: lakecli pull",
    "pull origin": f"{_BUCKET} pull BRANCH",
    "push --force": "over what others pushed, with a lease: lakecli push --force-with-lease",
    "push -f": "over what others pushed, with a lease: lakecli push --force-with-lease",
    "push :": "a branch has the same name here and in the bucket: lakecli push BRANCH",
    "push origin": f"{_BUCKET} push BRANCH",
    "put": _UPLOAD,
    "rebase": "commits of one branch onto another: lakecli cherry-pick REF BRANCH",
    "remote": "the bucket of a repository is its only remote; to see it: lakecli repo list",
    "repo rename": "a repository keeps its name on a machine; another machine may clone it under "
    "another one: lakecli clone NAMESPACE lakefs://NAME",
    "reset": "uncommitted changes of a branch: lakecli branch reset BRANCH; files of a directory: "
    "lakecli restore FILE",
    "revert": "a branch stands for its newest commit, main~1 for the one before: lakecli branch "
    "revert BRANCH REF",
    "rm": "lakecli fs rm PATH",
    "show": "the commit of a ref: lakecli show commit REF",
    "stash": "uncommitted changes stay on their branch; start another one: lakecli branch create "
    "lakefs://REPOSITORY/NAME -s REF",
    "stat": "lakecli fs stat PATH",
    "status -s": "lakecli status",
    "switch": "another ref in a linked directory: lakecli checkout REF; a new branch: lakecli "
    "branch create lakefs://REPOSITORY/NAME -s REF",
    "sync": _MIRROR,
    "tag -a": "lakecli tag create TAG REF",
    "tag -d": "lakecli tag delete TAG",
    "tag -l": "lakecli tag list",
    "tag create -s": "lakecli tag create TAG REF",
    "undo --all": _EARLIER,
    "undo …": _EARLIER,
    "usage": "sizes of objects: lakecli fs du PATH",
    "worktree": "another linked directory: lakecli local clone PATH DIRECTORY",
}
"""Patterns for the beginnings of invalid lines, with the hint for each.

A word matches itself; after the first word, a word of three or more letters also matches longer
words that begin with it. An option may follow anywhere, also within options such as ``-am``. ``-0``
matches any number. ``…`` matches surplus words, and a word that should be a URI but is not; ``+``
matches surplus words only. ``:`` matches any word that contains a colon, except URIs.
"""

_URI_SHOWS: Final = {
    "branch": "branch show",
    "config": "config get",
    "fs": "fs ls",
    "gc": "gc status",
    "op": "op log",
    "repo": "repo list",
    "show": "show commit",
    "tag": "tag show",
}
_TOO_MANY: Final = r"unexpected extra argument|not a lakefs:// URI: '[^/]*'$"


def meant_line(line: Sequence[str], error: str) -> str | None:
    """Return what to type instead of an invalid line, or ``None`` if that is unknown.

    Args:
        line: the command line without the name of the program.
        error: the message of the error.
    """
    words = " ".join(line[:-1])
    if list(line[-1:]) == ["help"] and (words in COMMANDS or words in GROUPS):
        return f"lakecli {words} --help"
    typed = [word for word in line if word not in {"help", "--json"}]
    if len(typed) > 1 and typed[1].startswith(SCHEME) and typed[0] in _URI_SHOWS:
        return f"did you mean lakecli {_URI_SHOWS[typed[0]]} {typed[1]}?"
    found = [each for each in HABITS if _begins(typed, each.split(), error)]
    return HABITS[max(found, key=len)] if found else None


def _begins(typed: Sequence[str], habit: Sequence[str], error: str) -> bool:
    """Return whether a line matches a pattern of `HABITS`.

    A valid command of a group, such as ``show commit``, does not match patterns for the group.
    """
    is_of_group = " ".join(typed[:2]) in COMMANDS and habit[0] in GROUPS
    return (not is_of_group or typed[:2] == habit[:2]) and _begins_with(typed, habit, error)


def _begins_with(typed: Sequence[str], habit: Sequence[str], error: str) -> bool:
    for place, word in enumerate(habit):
        if word == "…":
            return re.search(_TOO_MANY, error) is not None
        if word == "+":
            return "extra argument" in error
        if word == ":":
            return any(re.search(":(?!//)", each) for each in typed[place:])
        if word.startswith("-"):
            if not any(_is_option(each, word) for each in typed[place:]):
                return False
        elif place >= len(typed) or not _is_word(typed[place], word, is_first=place == 0):
            return False
    return True


def _is_option(typed: str, option: str) -> bool:
    if option.startswith("--"):
        return typed.partition("=")[0] == option
    if typed.startswith("--") or not typed.startswith("-"):
        return False
    letters = typed[1:] if len(typed) == 3 else typed[1:2]  # noqa: PLR2004 - as in -am, -rf
    return option[1] in letters or (option == "-0" and typed[1:].isdigit())


def _is_word(typed: str, word: str, *, is_first: bool) -> bool:
    return typed == word or (not is_first and len(word) > 2 and typed.startswith(word))  # noqa: PLR2004


def meant_repository(text: str, line: Sequence[str], context: Context) -> str | None:
    """Return a hint with the URI that a text without ``lakefs://`` probably means.

    The first word of the text resembles the name of a repository on this machine, or is the name of
    a repository to create.
    """
    name, _, rest = text.partition("/")
    known = [record.name for record in context.lake().repositories()]
    if list(line[:2]) == ["repo", "create"] and is_repository_name(text):
        known.append(name)
    near = get_close_matches(name, known, n=1)
    if near:
        return f"did you mean {SCHEME}{near[0]}{'/' + rest if rest else ''}?"
    is_use = list(line[:1]) == ["use"]
    return f"no repository {text!r} is here; list them: lakecli repo list" if is_use else None
