"""Standard output of the commands that lakectl has, too: byte for byte what lakectl prints.

A step is a command and what it writes. In an expected output, ``<first>`` and other lower-case
names stand for an ID: the first use records it, and later uses must have the same one. ``<DATE>``
stands for any time in Go's form, and ``<ANY>`` for the rest of a line. ``<TAB>`` is a tab.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from lakecli.cli.line import GLOBAL_OPTIONS, VERSION_FLAGS, Declaration
from lakecli.cli.manual import topics
from lakecli.cli.manual.tables import read_table
from lakecli.cli.manual.topics import find_topic
from lakecli.cli.tree import COMMANDS
from tests.support.lakectl import GLOBAL, SURFACE

if TYPE_CHECKING:
    from tests.support.demo import Demo
    from tests.support.golden import Cli


class Step(NamedTuple):
    """A command line, and what it must write to stdout."""

    line: str
    stdout: str = ""
    exit_code: int = 0


_VALUES: Final = {
    "DATE": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4} \w+",
    "ANY": r"[^\n]*",
    "UNIX": r"\d+",
    "SHORT": r"[0-9a-f]{16}",
    "SUM": r"[0-9a-f]{32,64}",
    "ADDRESS": r"local:///\S+/data/\S+",
}
_ID: Final = r"[0-9a-f]{64}"

REPOSITORY: Final = (
    Step(
        "repo create lakefs://demo local://$PWD/demo",
        """\
Repository: lakefs://demo
Repository 'demo' created:
storage namespace: local://$PWD/demo
default branch: main
timestamp: <UNIX>
""",
    ),
    Step("repo create lakefs://demo local://$PWD/again", "Repository: lakefs://demo\n", 7),
    Step("repo create lakefs://x local://$PWD/again", "", 2),
    Step(
        "repo create lakefs://side local://$PWD/side -d trunk",
        """\
Repository: lakefs://side
Repository 'side' created:
storage namespace: local://$PWD/side
default branch: trunk
timestamp: <UNIX>
""",
    ),
    Step(
        "repo list",
        """\
demo<TAB><DATE><TAB>main<TAB>demo<TAB>local://$PWD/demo
side<TAB><DATE><TAB>trunk<TAB>side<TAB>local://$PWD/side

""",
    ),
    Step("repo list --prefix d", "demo<TAB><DATE><TAB>main<TAB>demo<TAB>local://$PWD/demo\n\n"),
    Step("repo list --prefix none", "\n"),
    Step("repo delete lakefs://side -y", "Repository: lakefs://side\nRepository 'side' deleted\n"),
    Step("repo delete lakefs://side -y", "Repository: lakefs://side\n", 6),
    Step("repo delete side", "", 2),
    Step("repo list --amount 1", "demo<TAB><DATE><TAB>main<TAB>demo<TAB>local://$PWD/demo\n\n"),
)

HISTORY: Final = (
    Step(
        "log lakefs://demo/main",
        """\

ID:            <root>
Date:          <DATE>

<TAB>Repository created

""",
    ),
    Step("log lakefs://none/main", "", 6),
    Step("commit lakefs://demo/main", "", 2),
    Step('commit lakefs://demo/main -m " "', "", 2),
    Step("commit lakefs://demo/main -m nothing", "Branch: lakefs://demo/main\n", 11),
    Step("commit lakefs://demo/none -m x", "Branch: lakefs://demo/none\n", 6),
    Step("fs upload -s $PWD/one.txt lakefs://demo/main/a/one.txt", "<BLOCK>"),
    Step("diff lakefs://demo/main", "Ref: lakefs://demo/main\n+ added a/one.txt\n"),
    Step(
        "commit lakefs://demo/main -m first",
        """\
Branch: lakefs://demo/main
Commit for branch "main" completed.

ID: <first>
Message: first
Timestamp: <DATE>
Parents: <root>

""",
    ),
    Step("diff lakefs://demo/main", "Ref: lakefs://demo/main\n"),
    Step(
        'commit lakefs://demo/main -m " " --allow-empty-message --allow-empty-commit '
        "--meta k1=v1,key2=v2 --epoch-time-seconds 0",
        """\
Branch: lakefs://demo/main
Commit for branch "main" completed.

ID: <second>
Message:  \

Timestamp: <DATE>
Parents: <first>

""",
    ),
    Step(
        "show commit lakefs://demo/main",
        """\

ID:            <second>
Author:        Ada <ada@example.com>
Date:          <DATE>

<TAB> \


Metadata:
<TAB>
<TAB>k1                 = v1
<TAB>
<TAB>key2               = v2
<TAB>
""",
    ),
    Step(
        "show commit lakefs://demo/main~1 --show-meta-range-id",
        """\

ID:            <first>
Author:        Ada <ada@example.com>
Date:          <DATE>
Meta Range ID: <metarange>

<TAB>first
""",
    ),
    Step("show commit lakefs://demo/none", "", 6),
    Step(
        "log lakefs://demo/main --amount 2",
        """\

ID:            <second>
Author:        Ada <ada@example.com>
Date:          <DATE>

<TAB> \


Metadata:
<TAB>
<TAB>k1                 = v1
<TAB>
<TAB>key2               = v2
<TAB>
ID:            <first>
Author:        Ada <ada@example.com>
Date:          <DATE>

<TAB>first

""",
    ),
    Step("log lakefs://demo/main --since 2999-01-01T00:00:00Z", "\n"),
    Step(
        "log lakefs://demo/main --first-parent --no-merges --stop-at main~1 --dot",
        """\
digraph {
<TAB>rankdir="BT"

<TAB>"<second>" [shape=note label=< <ANY>
<TAB>"<first>" -> "<second>";

<TAB>"<first>" [shape=note label=< <ANY>
<TAB>"<root>" -> "<first>";

}
""",
    ),
)

BRANCHES: Final = (
    Step(
        "branch create lakefs://demo/dev -s lakefs://demo/main",
        "Source ref: lakefs://demo/main\ncreated branch 'dev' <second>\n",
    ),
    Step(
        "branch create lakefs://demo/dev -s lakefs://demo/main",
        "Source ref: lakefs://demo/main\n",
        7,
    ),
    Step(
        "branch create lakefs://demo/other -s lakefs://demo/none",
        "Source ref: lakefs://demo/none\n",
        6,
    ),
    Step("branch list lakefs://demo", "dev<TAB><second>\nmain<TAB><second>\n\n"),
    Step("branch list lakefs://demo --amount 1", "dev<TAB><second>\n\n"),
    Step("branch list lakefs://demo --prefix none", "\n"),
    Step("branch list lakefs://none", "", 6),
    Step("branch show lakefs://demo/dev", "Branch: lakefs://demo/dev\nCommit ID: <second>\n"),
    Step("branch show lakefs://demo/none", "Branch: lakefs://demo/none\n", 6),
    Step("fs upload -s $PWD/two.txt lakefs://demo/dev/b.txt", "<BLOCK>"),
    Step("fs upload -s $PWD/two.txt lakefs://demo/dev/c.txt", "<BLOCK>"),
    Step("branch reset lakefs://demo/dev --object c.txt -y", "Branch: lakefs://demo/dev\n"),
    Step("branch reset lakefs://demo/none -y", "Branch: lakefs://demo/none\n", 6),
    Step(
        "commit lakefs://demo/dev -m 'on dev'",
        """\
Branch: lakefs://demo/dev
Commit for branch "dev" completed.

ID: <dev>
Message: on dev
Timestamp: <DATE>
Parents: <second>

""",
    ),
    Step(
        "diff lakefs://demo/main lakefs://demo/dev",
        "Left ref: lakefs://demo/main\nRight ref: lakefs://demo/dev\n+ added b.txt\n",
    ),
    Step(
        "diff --two-way lakefs://demo/dev lakefs://demo/main",
        "Left ref: lakefs://demo/dev\nRight ref: lakefs://demo/main\n- removed b.txt\n",
    ),
    Step(
        "diff lakefs://demo/none lakefs://demo/dev",
        "Left ref: lakefs://demo/none\nRight ref: lakefs://demo/dev\n",
        6,
    ),
    Step(
        "find-merge-base lakefs://demo/dev lakefs://demo/main",
        """\
Source: lakefs://demo/dev
Destination: lakefs://demo/main
Found base "<second>" when merging "<dev>" into "<second>".
""",
    ),
    Step(
        "merge lakefs://demo/dev lakefs://demo/main -m merged --meta k=v",
        """\
Source: lakefs://demo/dev
Destination: lakefs://demo/main
Merged "dev" into "main" to get "<merge>".
""",
    ),
    Step(
        "merge lakefs://demo/dev lakefs://demo/main",
        "Source: lakefs://demo/dev\nDestination: lakefs://demo/main\n",
        11,
    ),
    Step(
        "log lakefs://demo/main --amount 1",
        """\

ID:            <merge>
Author:        Ada <ada@example.com>
Date:          <DATE>
Merge:         <second>, <dev>

<TAB>merged

Metadata:
<TAB>
<TAB>.lakefs.merge.strategy = default
<TAB>
<TAB>k                  = v
<TAB>
""",
    ),
    Step(
        "branch revert lakefs://demo/main main -m 1 -y",
        "Branch: lakefs://demo/main\ncommit main successfully reverted\n",
    ),
    Step("branch revert lakefs://demo/main main~1 -y", "Branch: lakefs://demo/main\n", 7),
    Step(
        "cherry-pick lakefs://demo/dev lakefs://demo/main",
        """\
Branch: lakefs://demo/main
Commit for branch "main" completed.

ID: <picked>
Message: on dev
Timestamp: <DATE>
Parents: <revert>

""",
    ),
    Step("cherry-pick lakefs://demo/dev lakefs://demo/main", "Branch: lakefs://demo/main\n", 11),
    Step("branch delete lakefs://demo/dev -y", "Branch: lakefs://demo/dev\n"),
    Step("branch delete lakefs://demo/dev -y", "Branch: lakefs://demo/dev\n", 6),
    Step("branch delete lakefs://demo/main -y", "Branch: lakefs://demo/main\n", 7),
)

TAGS: Final = (
    Step("tag list lakefs://demo", "\n"),
    Step("tag create lakefs://demo/v1.0 lakefs://demo/main", "Created tag 'v1.0' (<picked>)\n"),
    Step("tag create lakefs://demo/v1.0 lakefs://demo/main", "", 7),
    Step("tag create lakefs://demo/v2.0 lakefs://demo/main~1", "Created tag 'v2.0' (<revert>)\n"),
    Step("tag list lakefs://demo", "v1.0<TAB><picked>\nv2.0<TAB><revert>\n\n"),
    Step("tag list lakefs://demo --amount -1", "v1.0<TAB><picked>\nv2.0<TAB><revert>\n\n"),
    Step("tag list lakefs://demo --amount 1 --after v1.0", "v2.0<TAB><revert>\n\n"),
    Step("tag show lakefs://demo/v1.0", "v1.0 <picked>\n"),
    Step("tag show lakefs://demo/none", "", 6),
    Step("tag delete lakefs://demo/v2.0 -y"),
    Step("tag delete lakefs://demo/v2.0 -y", "", 6),
)

OBJECTS: Final = (
    Step(
        "fs upload -s $PWD/one.txt lakefs://demo/main/stat.txt --content-type text/x-one",
        """\
Path: stat.txt
Modified Time: <DATE>
Size: 1024 bytes
Human Size: 1.0 kB
Physical Address: <ADDRESS>
Checksum: <SUM>
Content-Type: text/x-one
Metadata:
<TAB>
<TAB>::lakefs::client-mtime = <UNIX>
""",
    ),
    Step("fs upload -s $PWD/none lakefs://demo/main/none", "", 6),
    Step(
        "fs stage lakefs://demo/main/staged --location local://$PWD/one.txt --size 1024 "
        "--checksum 0123456789abcdef0123456789abcdef --mtime 0 --content-type text/plain "
        "--meta k1=v1,k2=v2",
        """\
Path: staged
Modified Time: <DATE>
Size: 1024 bytes
Human Size: 1.0 kB
Physical Address: local://$PWD/one.txt
Checksum: 0123456789abcdef0123456789abcdef
Content-Type: text/plain
Metadata:
<TAB>
<TAB>k1                 = v1
<TAB>k2                 = v2
""",
    ),
    Step(
        "fs stat lakefs://demo/main/staged",
        """\
Path: staged
Modified Time: <DATE>
Size: 1024 bytes
Human Size: 1.0 kB
Physical Address: local://$PWD/one.txt
Checksum: 0123456789abcdef0123456789abcdef
Content-Type: text/plain
Metadata:
<TAB>
<TAB>k1                 = v1
<TAB>k2                 = v2
""",
    ),
    Step("fs stat lakefs://demo/main/none", "", 6),
    Step("fs update-metadata lakefs://demo/main/staged --metadata k=v"),
    Step("fs update-metadata lakefs://demo/main/none --metadata k=v", "", 6),
    Step("fs rm lakefs://demo/main/staged"),
    Step("fs rm lakefs://demo/main/staged"),
    Step("fs rm -r lakefs://demo/main/none"),
    Step("fs upload -s $PWD/two.txt lakefs://demo/main/a/b/two.txt", "<BLOCK>"),
    Step(
        "fs ls lakefs://demo/main/",
        """\
common_prefix                                                    a/
object          <DATE>    1.7 MB          b.txt
object          <DATE>    1.0 kB          stat.txt
""",
    ),
    Step("fs ls lakefs://demo/main/none"),
    Step(
        "fs ls -r lakefs://demo/main/a",
        """\
object          <DATE>    1.7 MB          a/b/two.txt
object          <DATE>    1.0 kB          a/one.txt
""",
    ),
    Step(
        "fs ls lakefs://demo/main/a/",
        """\
common_prefix                                                    b/
object          <DATE>    1.0 kB          one.txt
""",
    ),
    Step("fs cat lakefs://demo/main/a/one.txt", "1" * 1024),
    Step("fs cat lakefs://demo/main/none", "", 6),
    Step("fs presign lakefs://demo/main/none", "", 6),
    Step(
        "fs download lakefs://demo/main/a/one.txt $PWD/got/",
        "download: lakefs://demo/main/a/one.txt to $PWD/got/one.txt\n",
    ),
    Step("fs download lakefs://demo/main/none $PWD/got/", "", 6),
    Step(
        "fs download -r lakefs://demo/main/a $PWD/tree",
        "\nDownload Summary:\n\nDownloaded: 2\nUploaded: 0\nRemoved: 0\n\n",
    ),
    Step("fs download -r lakefs://demo/main/none $PWD/tree", "", 6),
    Step(
        "fs upload -r -s $PWD/tree lakefs://demo/main/copy/",
        """\

diff 'local://$PWD/tree/' <--> 'lakefs://demo/main/copy/'...

Upload Summary:

Downloaded: 0
Uploaded: 2
Removed: 0

""",
    ),
    Step(
        "fs upload -r -s $PWD/tree lakefs://demo/main/copy/",
        """\

diff 'local://$PWD/tree/' <--> 'lakefs://demo/main/copy/'...

Upload Summary:

No changes
""",
    ),
    Step("fs upload -s $PWD/tree lakefs://demo/main/copy/", "", 2),
    Step("fs upload -r -s $PWD/one.txt lakefs://demo/main/copy/file", "<BLOCK>"),
    Step(
        "fs upload -s /dev/null lakefs://demo/main/marker/",
        """\
Path: marker/
Modified Time: <DATE>
Size: 0 bytes
Human Size: 0 B
Physical Address: <ADDRESS>
Checksum: <SUM>
Content-Type: application/octet-stream
""",
    ),
    Step("fs upload -s $PWD/one.txt lakefs://demo/main/marker/", "<BLOCK>"),
    Step("fs stat lakefs://demo/main/marker/", "<BLOCK>"),
    Step("fs rm lakefs://demo/main/marker/"),
    Step("fs rm lakefs://demo/main/marker/"),
    Step("fs ls lakefs://demo/main/marker"),
    Step("fs rm lakefs://demo/main/copy"),
    Step("fs rm -r lakefs://demo/main/copy/"),
    Step("fs ls lakefs://demo/main/copy/"),
    Step("branch reset lakefs://demo/main -y", "Branch: lakefs://demo/main\n"),
)

IMPORT: Final = (
    Step(
        "import --from $PWD/tree --to lakefs://demo/main/taken/",
        """\
Import of 2 object(s) into "main" completed.
MetaRange ID: <taken metarange>
Commit ID: <taken>
Message: Import objects
Timestamp: <DATE>
Parents: <picked>
""",
    ),
    Step("import --from $PWD/none --to lakefs://demo/main/taken/", "", 6),
)

MAINTENANCE: Final = (
    Step("gc get-config lakefs://demo", "", 6),
    Step("gc set-config lakefs://demo -f $PWD/rules.json"),
    Step(
        "gc get-config lakefs://demo",
        """\
Default Retention Days: 21
Branch Rules: \

  - Branch: dev
    Retention Days: 7
  - Branch: main
    Retention Days: 28
""",
    ),
    Step(
        "gc get-config lakefs://demo -p",
        """\
{
  "default_retention_days": 21,
  "branches": [
    {
      "branch_id": "dev",
      "retention_days": 7
    },
    {
      "branch_id": "main",
      "retention_days": 28
    }
  ]
}
""",
    ),
    Step("gc delete-config lakefs://demo"),
    Step("push --all lakefs://demo", "<BLOCK>"),
    Step("refs-dump lakefs://demo -o $PWD/refs.json", "Writing refs to $PWD/refs.json\n"),
    Step(
        "refs-dump lakefs://demo",
        """\
{
  "commits_meta_range_id": "<commits>",
  "tags_meta_range_id": "<tags>",
  "branches_meta_range_id": "<branches>"
}
""",
    ),
    Step("refs-restore lakefs://demo --manifest $PWD/refs.json", "Repository: lakefs://demo\n", 7),
    Step("cat-sst -f $PWD/demo/_lakefs/<branches>", "<ANY><TAB><ANY><TAB><ANY>\n"),
)

WORK: Final = (
    Step("repo create lakefs://work local://$PWD/work", "<BLOCK>"),
    Step("fs upload -s $PWD/one.txt lakefs://work/main/images/1.png", "<BLOCK>"),
    Step("fs upload -s $PWD/one.txt lakefs://work/main/images/sub/2.png", "<BLOCK>"),
    Step("fs upload -s $PWD/one.txt lakefs://work/main/top", "<BLOCK>"),
    Step("commit lakefs://work/main -m 'commit #1'", "<BLOCK>"),
    Step("fs upload -s $PWD/two.txt lakefs://work/main/images/3.png", "<BLOCK>"),
    Step("commit lakefs://work/main -m 'commit #2'", "<BLOCK>"),
)

ANNOTATE: Final = (
    Step(
        "annotate lakefs://work/main/",
        """\
images/         Ada <ada@example.com> <SHORT>     <DATE>  commit #2
top             Ada <ada@example.com> <SHORT>     <DATE>  commit #1
""",
    ),
    Step(
        "blame lakefs://work/main/images/ -r",
        """\
images/1.png    Ada <ada@example.com> <SHORT>     <DATE>  commit #1
images/3.png    Ada <ada@example.com> <SHORT>     <DATE>  commit #2
images/sub/2.png Ada <ada@example.com> <SHORT>     <DATE>  commit #1
""",
    ),
    Step(
        "annotate lakefs://work/main~1/images/",
        """\
images/1.png    Ada <ada@example.com> <SHORT>     <DATE>  commit #1
images/sub/     Ada <ada@example.com> <SHORT>     <DATE>  commit #1
""",
    ),
    Step("annotate lakefs://work/main/top --first-parent", "<BLOCK>"),
    Step("annotate lakefs://work/main/none", "", 6),
    Step("annotate lakefs://none/main/", "", 6),
)

LOCAL: Final = (
    Step("local list $PWD"),
    Step("local pull $PWD", "", 6),
    Step("local commit -m test $PWD", "", 6),
    Step("local status $PWD", "", 6),
    Step("local init lakefs://none/main/ $PWD/linked", "", 6),
    Step("local init lakefs://work/none/ $PWD/linked", "", 6),
    Step("local init lakefs://work/main/top $PWD/linked", "", 2),
    Step(
        "local init lakefs://work/main/ $PWD/linked",
        "Successfully linked local directory '$PWD/linked' with remote 'lakefs://work/main/'\n",
    ),
    Step("local init lakefs://work/main/ $PWD/linked", "", 7),
    Step(
        "local init lakefs://work/main/images $PWD/linked --force",
        "Successfully linked local directory '$PWD/linked' with remote "
        "'lakefs://work/main/images/'\n",
    ),
    Step("local list $PWD", "linked<TAB>lakefs://work/main/images/<TAB><images>\n"),
    Step("local list $PWD/linked", ".<TAB>lakefs://work/main/images/<TAB><images>\n"),
    Step("local clone lakefs://work/main/ $PWD", "", 7),
    Step("local clone lakefs://work/none/ $PWD/cloned", "", 6),
    Step(
        "local clone lakefs://work/main/images/ $PWD/cloned --pre-sign=false -p 2",
        """\

Successfully cloned lakefs://work/main/images/ to $PWD/cloned.

Clone Summary:

Downloaded: 3
Uploaded: 0
Removed: 0

""",
    ),
    Step(
        "local status $PWD/cloned",
        """\

diff 'local://$PWD/cloned' <--> 'lakefs://work/<images>/images/'...
diff 'lakefs://work/<images>/images/' <--> 'lakefs://work/main/images/'...

No diff found.
""",
    ),
    Step(
        "local pull $PWD/cloned", "\nSuccessfully synced changes!\n\nPull Summary:\n\nNo changes\n"
    ),
    Step("local commit -m nothing $PWD/cloned", "\nGetting branch: main\n", 11),
    Step("local commit $PWD/cloned", "", 2),
    Step("fs upload -s $PWD/two.txt lakefs://work/main/images/1.png", "<BLOCK>"),
    Step("fs rm lakefs://work/main/images/sub/2.png"),
    Step("commit lakefs://work/main -m theirs", "<BLOCK>"),
    Step(
        "local status $PWD/cloned",
        """\

diff 'local://$PWD/cloned' <--> 'lakefs://work/<images>/images/'...
diff 'lakefs://work/<images>/images/' <--> 'lakefs://work/main/images/'...

remote<TAB>modified<TAB>1.png
remote<TAB>removed<TAB>sub/2.png
""",
    ),
    Step(
        "local pull $PWD/cloned",
        """\

Successfully synced changes!

Pull Summary:

Downloaded: 1
Uploaded: 0
Removed: 1

""",
    ),
    Step("fs download lakefs://work/main/top $PWD/cloned/new.txt", "<BLOCK>"),
    Step(
        "local status -l $PWD/cloned",
        """\

diff 'local://$PWD/cloned' <--> 'lakefs://work/<theirs>/images/'...

local<TAB>added<TAB>new.txt
""",
    ),
    Step("local commit $PWD/cloned -m ' '", "", 2),
    Step(
        "local commit $PWD/cloned -m mine --meta k=v --force -y",
        """\

Getting branch: main

Sync Summary:

Downloaded: 0
Uploaded: 1
Removed: 0

Finished syncing changes. Perform commit on branch...
Commit for branch "main" completed.

ID: <mine>
Message: mine
Timestamp: <DATE>
Parents: <theirs>

""",
    ),
    Step("fs download lakefs://work/main/top $PWD/cloned/1.png", "<BLOCK>"),
    Step("fs rm lakefs://work/main/images/1.png"),
    Step("commit lakefs://work/main -m conflict", "<BLOCK>"),
    Step("local commit $PWD/cloned -m conflict", "\nGetting branch: main\n", 4),
    Step("local checkout $PWD/cloned", "", 7),
    Step(
        "local checkout $PWD/cloned -y",
        """\

Checkout Summary:

Downloaded: 1
Uploaded: 0
Removed: 0

""",
    ),
    Step(
        "local checkout $PWD/cloned -r main~3",
        """\

Checkout Summary:

Downloaded: 2
Uploaded: 0
Removed: 1

""",
    ),
    Step("local checkout $PWD/cloned -r none -y", "", 6),
    Step("local checkout $PWD/cloned --all -r main", "", 2),
    Step(
        "local checkout $PWD --all -y",
        """\

Checkout Summary:

No changes

Checkout Summary:

Downloaded: 3
Uploaded: 0
Removed: 0

""",
    ),
)

BISECT: Final = (
    Step("bisect reset"),
    Step("bisect log", "", 6),
    Step("bisect good", "", 6),
    Step("bisect start lakefs://work/main", "<BLOCK>"),
    Step("bisect reset", "Cleared bisect session\n"),
    Step("bisect start lakefs://work/main lakefs://side/main", "", 2),
    Step(
        "bisect start lakefs://work/main lakefs://work/main~4",
        """\
Repository: work
Bisecting: 1 commits left to test after this (roughly 1 steps)
Current commit lakefs://work/<theirs> theirs
""",
    ),
    Step(
        "bisect good",
        """\
Repository: work
Bisecting: 0 commits left to test after this (roughly 0 steps)
Current commit lakefs://work/<mine> mine
""",
    ),
    Step(
        "bisect view",
        """\

ID:            <conflict>
Author:        Ada <ada@example.com>
Date:          <DATE>
Meta Range ID: <conflict metarange>

<TAB>conflict

ID:            <mine>
Author:        Ada <ada@example.com>
Date:          <DATE>
Meta Range ID: <mine metarange>

<TAB>mine

Metadata:
<TAB>
<TAB>k                  = v
<TAB>
""",
    ),
    Step("bisect bad", "Repository: work\nFound commit lakefs://work/<mine> mine\n"),
    Step("bisect log", "<BLOCK>"),
    Step("bisect start lakefs://work/main lakefs://work/main~4", "<BLOCK>"),
    Step(
        "bisect run false",
        """\
== Commit [<theirs>] theirs
-- BAD [<theirs>] theirs
== Commit [<images>] commit #2
-- BAD [<images>] commit #2
Repository: work
Found commit lakefs://work/<images> commit #2
""",
    ),
    Step("bisect start lakefs://work/main", "<BLOCK>"),
    Step(
        "bisect good lakefs://work/main~1",
        "Repository: work\nFound commit lakefs://work/<conflict> conflict\n",
    ),
    Step("bisect reset", "Cleared bisect session\n"),
    Step("bisect start lakefs://work", "Repository: work\nMissing both good and bad commits\n"),
    Step(
        "bisect new main",
        "Repository: work\nNew commit lakefs://work/<conflict>, waiting for old commit\n",
    ),
    Step("bisect reset", "Cleared bisect session\n"),
)

PLUGINS: Final = (Step("plugin list"),)

NOT_COMPARED: Final = {
    "branch-protect": "has tests of its own",
    "completion": "writes scripts of lakecli's own words",
    "config": "asks other questions",
    "doctor": "checks other things",
    "fs presign": "a directory has no URLs; compared in test_s3.py",
}
"""Commands, or their first words, whose output is not compared here, and why."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with some files, and a committer."""
    (tmp_path / "one.txt").write_text("1" * 1024)
    (tmp_path / "two.txt").write_text("2" * 1_700_000)
    rules = {
        "default_retention_days": 21,
        "branches": [
            {"branch_id": "dev", "retention_days": 7},
            {"branch_id": "main", "retention_days": 28},
        ],
    }
    (tmp_path / "rules.json").write_text(json.dumps(rules))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKECLI_USER_NAME", "Ada")
    monkeypatch.setenv("LAKECLI_USER_EMAIL", "ada@example.com")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return tmp_path


ALL: Final = (
    *(*REPOSITORY, *HISTORY, *BRANCHES, *TAGS, *OBJECTS, *IMPORT, *MAINTENANCE),
    *(*WORK, *ANNOTATE, *LOCAL, *BISECT, *PLUGINS),
)


def test_stdout_is_that_of_lakectl(cli: Cli, place: Path) -> None:
    known: dict[str, str] = {}
    for step in ALL:
        line = expand(step.line, place, known)
        result = cli(*shlex.split(line))
        assert result.exit_code == step.exit_code, (line, result)
        compare(line, step.stdout, result.stdout, place, known)


def expand(text: str, place: Path, known: dict[str, str]) -> str:
    """Return a text with the working directory and the recorded values."""
    text = text.replace("$PWD", os.fspath(place))
    return re.sub(r"<([a-z ]+)>", lambda name: known.get(name[1], name[0]), text)


def compare(line: str, expected: str, actual: str, place: Path, known: dict[str, str]) -> None:
    """Compare an output, and record the values in it that are new."""
    if expected == "<BLOCK>":  # the same command is compared elsewhere, or is lakecli's own
        assert actual, line
        return
    pattern = ""
    names: list[str] = []
    for piece in re.split(r"(<[A-Za-z ]+>)", expand(expected, place, known)):
        name = piece[1:-1]
        if piece == "<TAB>":
            pattern += "\t"
        elif piece.startswith("<") and name in _VALUES:
            pattern += _VALUES[name]
        elif re.fullmatch(r"<[a-z ]+>", piece):
            names.append(name)
            pattern += f"({_ID})"
        else:
            pattern += re.escape(piece)
    found = re.fullmatch(pattern, actual)
    assert found is not None, f"{line}\n--- expected\n{expected}\n--- actual\n{actual}"
    known.update(zip(names, found.groups(), strict=True))


def test_every_common_command_is_compared() -> None:
    def is_left_out(words: str) -> bool:
        return words in NOT_COMPARED or words.split(maxsplit=1)[0] in NOT_COMPARED

    compared = {
        words for step in ALL for words in COMMANDS if f"{step.line} ".startswith(f"{words} ")
    }
    common = {words for words in COMMANDS if words in SURFACE and not is_left_out(words)}
    assert common - compared == set()


TOPIC: Final = find_topic("lakectl")
PAGE: Final = "\n".join(block.text for block in TOPIC.blocks) if TOPIC else ""
GAPS: Final = [
    name
    for kind in ("commands", "options")
    for names, _ in read_table(Path(topics.__file__).with_name(f"lakectl_{kind}.txt"))
    for name in names
]
LISTED: Final = frozenset(GAPS)
"""What the page names as lacking."""


def options_present() -> set[str]:
    """Return all options of lakecli; each is preceded by its command, except global options."""
    present = {flag for option in GLOBAL_OPTIONS for flag in option.flags}
    for words, command in COMMANDS.items():
        for option in Declaration(command.load()).options:
            present |= {f"{words} {flag}" for flag in option.flags}
    return present


def test_the_page_names_every_command_that_is_lacking() -> None:
    lacking = set(SURFACE) - set(COMMANDS)
    assert lacking <= LISTED
    assert not LISTED & set(COMMANDS)
    assert {name for name in lacking if f"`{name}`" not in PAGE} == set()


def test_the_page_names_every_option_that_is_lacking() -> None:
    present = options_present() | set(VERSION_FLAGS)
    everywhere = {flag for flag in present if flag.startswith("-")}
    needed = GLOBAL | {
        f"{words} {flag}"
        for words in SURFACE.keys() & COMMANDS.keys()
        for flag in SURFACE[words] - everywhere
    }
    assert needed - present <= LISTED
    assert not LISTED & present
    assert {name for name in needed - present if f"`{name}`" not in PAGE} == set()


def test_nothing_is_listed_that_lakectl_has_not() -> None:
    options = {f"{words} {flag}" for words, flags in SURFACE.items() for flag in flags}
    known = set(SURFACE) | GLOBAL | options
    assert known >= LISTED
    assert len(GAPS) == len(LISTED)


def test_the_page_is_shown_by_help(cli: Cli) -> None:
    shown = cli.ok("help", "lakectl").stdout
    assert "bin/lakectl" in shown
    assert "repo create-bare" in shown


def test_a_script_of_lakectl_runs_by_a_link(demo: Demo, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "lakectl").symlink_to(Path(sys.executable).with_name("lakecli"))
    script = tmp_path / "nightly.sh"
    script.write_text("#!/bin/sh -e\nlakectl branch create lakefs://demo/n -s lakefs://demo/main\n")
    path = f"{programs}:{os.environ['PATH']}"
    subprocess.run(["sh", script], env={**os.environ, "PATH": path}, check=True)
    assert demo.cli.ok("rev-parse", "lakefs://demo/n").stdout == (
        demo.cli.ok("rev-parse", "lakefs://demo/main").stdout
    )
