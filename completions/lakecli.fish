# fish completion for lakecli
# Written by `python -m lakecli.cli.generate` from the command tree; do not edit.

# Print what may follow the words $argv[1], with summaries; fails where nothing does.
function __lakecli_words
    switch $argv[1]
        case ''
            printf '%s\t%s\n' \
                'branch' 'Create, list, move and delete branches' \
                'cherry-pick' 'Repeat on a branch what one commit changed' \
                'clone' 'Make a repository of this machine out of what lies in a storage namespace' \
                'commit' 'Commit the uncommitted changes of a branch' \
                'completion' 'Print the completion script of a shell' \
                'config' 'Read and change settings' \
                'diff' 'Show what differs, path by path' \
                'doctor' 'Check a storage namespace by trying it out, and what a repository has on this machine' \
                'export' 'Copy the committed objects of a ref to another bucket or directory, under their names' \
                'fetch' 'Learn where the refs in the bucket stand, and bring their commits' \
                'find-merge-base' 'Show the commit that a merge of two refs would start from' \
                'fs' 'Read and write objects' \
                'fsck' 'Check that everything a repository refers to is there and is what it should be' \
                'gc' 'Find garbage, and delete it a grace period later' \
                'help' 'Show the help of a command, or a topic' \
                'import' 'Import objects that lie elsewhere, in one commit' \
                'log' 'Show the history of a ref, newest commit first' \
                'merge' 'Merge a ref into a branch' \
                'op' 'See what was done, and take it back' \
                'pull' 'Bring a branch up to where it stands in the bucket' \
                'push' 'Move a branch or a tag in the bucket to where it stands here' \
                'quickstart' 'Build a small lake out of real files, and show each command as it runs' \
                'redo' 'Do again what was undone last' \
                'reflog' 'Show how a branch or tag moved, newest move first' \
                'repo' 'Create, list and delete repositories' \
                'rev-parse' 'Show the commit ID that a ref expression names' \
                'show' 'Show a commit' \
                'status' 'Show how branches differ from the bucket\'s, and what is not committed on them' \
                'tag' 'Create, list and delete tags' \
                'undo' 'Take back the last operation on a repository' \
                'version' 'Print the version of lakecli'
        case 'branch'
            printf '%s\t%s\n' \
                'create' 'Create a branch at the commit of another ref' \
                'delete' 'Delete a branch with its uncommitted changes' \
                'list' 'List the branches of a repository, ordered by name' \
                'reset' 'Throw away the uncommitted changes of a branch: all, below a prefix, or of one object' \
                'revert' 'Take back what commits changed, with one new commit for each' \
                'show' 'Show a branch and the commit it stands on'
        case 'config'
            printf '%s\t%s\n' \
                'get' 'Print the value of a setting' \
                'list' 'List all settings and their values' \
                'set' 'Change a setting in the configuration file' \
                'unset' 'Remove a setting from the configuration file'
        case 'fs'
            printf '%s\t%s\n' \
                'cat' 'Write an object\'s bytes to standard output' \
                'cp' 'Copy an object, or all objects below a path, to a branch of the same repository' \
                'download' 'Download an object, or all objects below a path' \
                'ls' 'List the objects whose paths begin with a prefix' \
                'mv' 'Move an object, or all objects below a path, on a branch or to another one' \
                'presign' 'Print URLs that read objects without credentials, for a while' \
                'rm' 'Remove an object from a branch, or all objects at and below a path' \
                'stage' 'Stage an object whose bytes are in a bucket already' \
                'stat' 'Show what is recorded of an object' \
                'upload' 'Upload a file, a directory or standard input to a branch'
        case 'gc'
            printf '%s\t%s\n' \
                'delete-config' 'Delete the retention rules: from now on, whatever branches and tags reach is kept' \
                'get-config' 'Show the retention rules' \
                'run' 'Find garbage, and delete it a grace period later' \
                'set-config' 'Set the retention rules: for how long commits keep their objects, per branch' \
                'status' 'Show where garbage collection stands, and the commands that are possible now' \
                'undo' 'Take back what garbage collection has condemned'
        case 'op'
            printf '%s\t%s\n' \
                'log' 'Show what was done in a repository on this machine, the last operation first' \
                'redo' 'Do again what was undone last; the same as lakecli redo' \
                'restore' 'Make a repository what it was right after an operation' \
                'show' 'Show one operation: what it changed, and what was there before' \
                'undo' 'Take back the last operation on a repository; the same as lakecli undo'
        case 'repo'
            printf '%s\t%s\n' \
                'create' 'Create a repository in a storage namespace' \
                'delete' 'Delete a repository from this machine; the content of its namespace stays' \
                'list' 'List the repositories on this machine, ordered by name'
        case 'show'
            printf '%s\t%s\n' \
                'commit' 'Show one commit'
        case 'tag'
            printf '%s\t%s\n' \
                'create' 'Give a commit a name that stays' \
                'delete' 'Delete a tag; the commit it names stays' \
                'list' 'List the tags of a repository, ordered by name' \
                'show' 'Show a tag and the commit it names'
        case '*'
            return 1
    end
end

# Print the options of the command $argv[1], with summaries.
function __lakecli_options
    switch $argv[1]
        case 'branch create'
            printf '%s\t%s\n' \
                '-s' 'lakefs://REPOSITORY/REF to start from' \
                '--source' 'lakefs://REPOSITORY/REF to start from'
        case 'branch delete'
            printf '%s\t%s\n' \
                '-y' 'Do not ask' \
                '--yes' 'Do not ask'
        case 'branch list'
            printf '%s\t%s\n' \
                '--after' 'Show what follows this name' \
                '--amount' 'How many to show; 0 for all' \
                '--at-op' 'Read as of right after this operation' \
                '--prefix' 'Show what begins with this'
        case 'branch reset'
            printf '%s\t%s\n' \
                '--object' 'Only this path' \
                '--prefix' 'Only what begins with this' \
                '-y' 'Do not ask' \
                '--yes' 'Do not ask'
        case 'branch revert'
            printf '%s\t%s\n' \
                '--allow-empty' 'Commit even if nothing changes' \
                '--allow-empty-commit' 'Commit even if nothing changes' \
                '-m' 'Which parent of a merge commit it is compared with, from 1' \
                '--parent-number' 'Which parent of a merge commit it is compared with, from 1' \
                '-y' 'Do not ask' \
                '--yes' 'Do not ask'
        case 'branch show'
            printf '%s\t%s\n' \
                '--at-op' 'Read as of right after this operation'
        case 'cherry-pick'
            printf '%s\t%s\n' \
                '--allow-empty' 'Commit even if nothing changes' \
                '--allow-empty-commit' 'Commit even if nothing changes' \
                '-m' 'Which parent of a merge commit it is compared with, from 1' \
                '--parent-number' 'Which parent of a merge commit it is compared with, from 1'
        case 'commit'
            printf '%s\t%s\n' \
                '--allow-empty' 'Commit even if nothing changes' \
                '--allow-empty-commit' 'Commit even if nothing changes' \
                '--allow-empty-message' 'Commit without a message' \
                '-m' 'Commit message' \
                '--message' 'Commit message' \
                '--meta' 'Metadata to record' \
                '--strategy' 'Which side wins where both changed a path differently'
        case 'config list'
            printf '%s\t%s\n' \
                '--show-origin' 'Say where each value comes from'
        case 'diff'
            printf '%s\t%s\n' \
                '--at-op' 'Read as of right after this operation' \
                '--conf' 'Setting of Spark, as for spark-submit; may be repeated' \
                '--engine' 'What does the work: local (this process), spark, or auto by the number of objects' \
                '--exit-code' 'Exit with 13 if there are differences' \
                '--master' 'Where Spark runs; default: local[*], here' \
                '--prefix' 'Show what begins with this' \
                '--two-way' 'Compare the two refs as they are'
        case 'export'
            printf '%s\t%s\n' \
                '--conf' 'Setting of Spark, as for spark-submit; may be repeated' \
                '--dry-run' 'Show what would be done, and do nothing' \
                '--engine' 'What does the work: local (this process), spark, or auto by the number of objects' \
                '--master' 'Where Spark runs; default: local[*], here' \
                '--no-progress' 'Show no progress' \
                '--no-success' 'Write no _SUCCESS in the end' \
                '--no-verify' 'Let the store copy objects without reading them' \
                '-p' 'Objects moved at a time; default: transfer.parallelism' \
                '--parallelism' 'Objects moved at a time; default: transfer.parallelism' \
                '--since' 'Only what has changed since this ref'
        case 'find-merge-base'
            printf '%s\t%s\n' \
                '--at-op' 'Read as of right after this operation'
        case 'fs cat'
            printf '%s\t%s\n' \
                '--at-op' 'Read as of right after this operation' \
                '--verify' 'Verify a large object too before any of it is written'
        case 'fs cp'
            printf '%s\t%s\n' \
                '-r' 'All objects below the path' \
                '--recursive' 'All objects below the path'
        case 'fs download'
            printf '%s\t%s\n' \
                '--at-op' 'Read as of right after this operation' \
                '--dry-run' 'Show what would be done, and do nothing' \
                '--exclude' 'Not what matches, as in .gitignore; may be repeated' \
                '--include' 'Only what matches, as in .gitignore; may be repeated' \
                '--no-progress' 'Show no progress' \
                '-p' 'Objects moved at a time; default: transfer.parallelism' \
                '--parallelism' 'Objects moved at a time; default: transfer.parallelism' \
                '-r' 'All objects below the path' \
                '--recursive' 'All objects below the path'
        case 'fs ls'
            printf '%s\t%s\n' \
                '--after' 'Show what follows this path' \
                '--amount' 'How many to show; 0 for all' \
                '--at-op' 'Read as of right after this operation' \
                '-r' 'All objects below the path' \
                '--recursive' 'All objects below the path'
        case 'fs mv'
            printf '%s\t%s\n' \
                '-r' 'All objects below the path' \
                '--recursive' 'All objects below the path'
        case 'fs presign'
            printf '%s\t%s\n' \
                '--check' 'Tell what has ended or changed since a manifest' \
                '--count' 'With --put, how many' \
                '--expires' 'How long the URL works: 90s, 30m, 12h, 7d' \
                '--format' 'With -r, how to write the manifest; by its suffix' \
                '--inline' 'Let browsers show every object, even HTML and scripts' \
                '--manifest' 'With -r, write all URLs to a file' \
                '-n' 'With --put, how many' \
                '--put' 'Print a URL that takes an object, see fs stage' \
                '-r' 'All objects below the path' \
                '--recursive' 'All objects below the path' \
                '--script' 'With -r, write a script that downloads all: Python\'s if FILE ends in .py'
        case 'fs rm'
            printf '%s\t%s\n' \
                '--dry-run' 'Show what would be done, and do nothing' \
                '-r' 'All objects below the path' \
                '--recursive' 'All objects below the path'
        case 'fs stage'
            printf '%s\t%s\n' \
                '--checksum' 'With --location, its BLAKE3 or ETag' \
                '--content-type' 'Instead of what the suffix of PATH implies' \
                '--incoming' 'Take in what came by fs presign --put' \
                '--location' 'Record an object that lies elsewhere' \
                '--meta' 'Metadata to record' \
                '--mtime' 'With --location, when it was written, in unix seconds; by default now' \
                '--size' 'With --location, how large it is'
        case 'fs stat'
            printf '%s\t%s\n' \
                '--at-op' 'Read as of right after this operation' \
                '--expires' 'How long the URL works: 90s, 30m, 12h, 7d' \
                '--pre-sign' 'Show a URL that reads the object without credentials'
        case 'fs upload'
            printf '%s\t%s\n' \
                '--content-type' 'Instead of what the suffix of PATH implies' \
                '--dry-run' 'Show what would be done, and do nothing' \
                '--exclude' 'Not what matches, as in .gitignore; may be repeated' \
                '--follow' 'Upload what symbolic links in a directory point to' \
                '--include' 'Only what matches, as in .gitignore; may be repeated' \
                '--meta' 'Metadata to record' \
                '--no-progress' 'Show no progress' \
                '-p' 'Objects moved at a time; default: transfer.parallelism' \
                '--parallelism' 'Objects moved at a time; default: transfer.parallelism' \
                '-r' 'All files below the directory SRC' \
                '--recursive' 'All files below the directory SRC' \
                '-s' 'What to upload; PATH is then the only argument' \
                '--skip' 'Leave out symbolic links and special files' \
                '--source' 'What to upload; PATH is then the only argument'
        case 'fsck'
            printf '%s\t%s\n' \
                '--conf' 'Setting of Spark, as for spark-submit; may be repeated' \
                '--data' 'Read every data object and compare it with its name' \
                '--dry-run' 'Show what would be done, and do nothing' \
                '--engine' 'What does the work: local (this process), spark, or auto by the number of objects' \
                '--external' 'Ask for every object outside the namespace whether it changed' \
                '--from' 'Look for lost objects in this directory or copy of the namespace too; may be repeated' \
                '--master' 'Where Spark runs; default: local[*], here' \
                '--repair' 'Heal what can be healed, and say what is lost' \
                '--sample' 'As --data, for a random part of them, such as 1%'
        case 'gc run'
            printf '%s\t%s\n' \
                '--conf' 'Setting of Spark, as for spark-submit; may be repeated' \
                '--dry-run' 'Show what would be done, and do nothing' \
                '--engine' 'What does the work: local (this process), spark, or auto by the number of objects' \
                '--force-shared' 'Collect although a lakeFS may work in the namespace' \
                '--grace' 'How old garbage has to be, and how long it stays condemned; default: gc.grace' \
                '--master' 'Where Spark runs; default: local[*], here' \
                '--no-progress' 'Show no progress' \
                '-p' 'Objects moved at a time; default: transfer.parallelism' \
                '--parallelism' 'Objects moved at a time; default: transfer.parallelism' \
                '-y' 'Do not ask' \
                '--yes' 'Do not ask'
        case 'gc set-config'
            printf '%s\t%s\n' \
                '-f' 'Rules as JSON; - is standard input' \
                '--filename' 'Rules as JSON; - is standard input'
        case 'gc undo'
            printf '%s\t%s\n' \
                '--force' 'End an interrupted sweep, or replace a damaged state of the collection'
        case 'import'
            printf '%s\t%s\n' \
                '--allow-empty' 'Import an empty directory or prefix' \
                '--allow-empty-commit' 'Commit even if nothing changes' \
                '--allow-empty-message' 'Commit without a message' \
                '--conf' 'Setting of Spark, as for spark-submit; may be repeated' \
                '--copy' 'Copy the bytes into the repository\'s namespace' \
                '--dry-run' 'Show what would be done, and do nothing' \
                '--engine' 'What does the work: local (this process), spark, or auto by the number of objects' \
                '--follow' 'Import what symbolic links in a directory point to' \
                '--from' 'A directory, a prefix of a bucket, a manifest or an S3 Inventory' \
                '-m' 'Commit message' \
                '--manifest' 'URI is a list of objects, whatever it is called' \
                '--master' 'Where Spark runs; default: local[*], here' \
                '--message' 'Commit message' \
                '--meta' 'Metadata to record' \
                '--mode' 'What is below PREFIX: replace it, or merge into it' \
                '--no-progress' 'Show no progress' \
                '-p' 'Objects moved at a time; default: transfer.parallelism' \
                '--parallelism' 'Objects moved at a time; default: transfer.parallelism' \
                '--pin-versions' 'Record the current version of each object (S3)' \
                '--skip' 'Leave out symbolic links and special files' \
                '--to' 'lakefs://REPOSITORY/BRANCH/[PREFIX]'
        case 'log'
            printf '%s\t%s\n' \
                '--after' 'Show what comes after this commit' \
                '--amount' 'How many to show; 0 for all' \
                '--at-op' 'Read as of right after this operation' \
                '--dot' 'Write the history as a graph for Graphviz' \
                '--first-parent' 'Of a merge, follow the first parent only' \
                '--graph' 'Draw how the commits hang together, one line for each' \
                '--limit' 'Do not look whether there are more than --amount' \
                '--no-merges' 'Leave out merge commits' \
                '--objects' 'Only commits that changed these paths' \
                '--prefixes' 'Only commits that changed what begins with these' \
                '--show-meta-range-id' 'Show the ID of the tree too' \
                '--since' 'Leave out what is older; as RFC 3339' \
                '--stop-at' 'The last commit to show'
        case 'merge'
            printf '%s\t%s\n' \
                '--allow-empty' 'Merge even if the source has nothing new' \
                '--dry-run' 'Show what would be done, and do nothing' \
                '--force' 'Merge even if the source has nothing new' \
                '-m' 'Commit message' \
                '--message' 'Commit message' \
                '--meta' 'Metadata to record' \
                '--squash' 'Record the source\'s changes, but not its history' \
                '--strategy' 'Which side wins where both changed a path differently'
        case 'op log'
            printf '%s\t%s\n' \
                '--amount' 'How many to show; 0 for all'
        case 'op restore'
            printf '%s\t%s\n' \
                '--remote' 'Take it back in the bucket too, if it was pushed' \
                '-y' 'Do not ask' \
                '--yes' 'Do not ask'
        case 'op show'
            printf '%s\t%s\n' \
                '--amount' 'How many to show; 0 for all'
        case 'op undo'
            printf '%s\t%s\n' \
                '--remote' 'Take it back in the bucket too, if it was pushed'
        case 'pull'
            printf '%s\t%s\n' \
                '--dry-run' 'Show what would be done, and do nothing' \
                '--ff-only' 'Refuse what would need a merge' \
                '-m' 'Commit message' \
                '--message' 'Commit message' \
                '--strategy' 'Which side wins where both changed a path differently'
        case 'push'
            printf '%s\t%s\n' \
                '--all' 'Push every branch and every tag' \
                '-d' 'Delete it in the bucket; what is here stays' \
                '--delete' 'Delete it in the bucket; what is here stays' \
                '--dry-run' 'Show what would be done, and do nothing' \
                '--force-with-lease' 'Move it whatever it is, if it still stands where it was last seen, or on COMMIT'
        case 'reflog'
            printf '%s\t%s\n' \
                '--after' 'Show what comes after this' \
                '--amount' 'How many to show; 0 for all'
        case 'repo create'
            printf '%s\t%s\n' \
                '-d' 'The first branch' \
                '--default-branch' 'The first branch' \
                '--range-entries' 'Entries in a range, about: a power of two from 16 on; cannot be changed later'
        case 'repo delete'
            printf '%s\t%s\n' \
                '-y' 'Do not ask' \
                '--yes' 'Do not ask'
        case 'repo list'
            printf '%s\t%s\n' \
                '--after' 'Show what follows this name' \
                '--amount' 'How many to show; 0 for all' \
                '--prefix' 'Show what begins with this'
        case 'rev-parse'
            printf '%s\t%s\n' \
                '--at-op' 'Read as of right after this operation'
        case 'show commit'
            printf '%s\t%s\n' \
                '--at-op' 'Read as of right after this operation' \
                '--show-meta-range-id' 'Show the ID of the tree too'
        case 'status'
            printf '%s\t%s\n' \
                '--at-op' 'Read as of right after this operation'
        case 'tag create'
            printf '%s\t%s\n' \
                '-f' 'Move the tag if it exists already' \
                '--force' 'Move the tag if it exists already'
        case 'tag delete'
            printf '%s\t%s\n' \
                '-y' 'Do not ask' \
                '--yes' 'Do not ask'
        case 'tag list'
            printf '%s\t%s\n' \
                '--after' 'Show what follows this name' \
                '--amount' 'How many to show; 0 for all' \
                '--at-op' 'Read as of right after this operation' \
                '--prefix' 'Show what begins with this'
        case 'tag show'
            printf '%s\t%s\n' \
                '--at-op' 'Read as of right after this operation'
        case 'undo'
            printf '%s\t%s\n' \
                '--remote' 'Take it back in the bucket too, if it was pushed'
    end
    printf '%s\t%s\n' \
        '--base-uri' 'Put before every URI without lakefs://' \
        '-c' 'Use this configuration file' \
        '--config' 'Use this configuration file' \
        '-h' 'Show the help of a command' \
        '--help' 'Show the help of a command' \
        '--json' 'Answer in JSON' \
        '--no-color' 'No colours, no boxed tables, no bars' \
        '-q' 'Show no progress and no notes' \
        '--quiet' 'Show no progress and no notes' \
        '--verbose' 'Show debug messages and tracebacks'
end

# Print what completes the value of option $argv[2] of the command $argv[1]; fails where it
# takes none.
function __lakecli_value
    switch "$argv[1] $argv[2]"
        case 'branch create -s'
            echo 'ref'
        case 'branch create --source'
            echo 'ref'
        case 'branch list --after'
            echo 'nothing'
        case 'branch list --amount'
            echo 'nothing'
        case 'branch list --at-op'
            echo 'operation'
        case 'branch list --prefix'
            echo 'nothing'
        case 'branch reset --object'
            echo 'nothing'
        case 'branch reset --prefix'
            echo 'nothing'
        case 'branch revert -m'
            echo 'nothing'
        case 'branch revert --parent-number'
            echo 'nothing'
        case 'branch show --at-op'
            echo 'operation'
        case 'cherry-pick -m'
            echo 'nothing'
        case 'cherry-pick --parent-number'
            echo 'nothing'
        case 'commit -m'
            echo 'nothing'
        case 'commit --message'
            echo 'nothing'
        case 'commit --meta'
            echo 'nothing'
        case 'commit --strategy'
            echo '=source-wins dest-wins'
        case 'diff --at-op'
            echo 'operation'
        case 'diff --conf'
            echo 'nothing'
        case 'diff --engine'
            echo '=auto local spark'
        case 'diff --master'
            echo 'nothing'
        case 'diff --prefix'
            echo 'nothing'
        case 'export --conf'
            echo 'nothing'
        case 'export --engine'
            echo '=auto local spark'
        case 'export --master'
            echo 'nothing'
        case 'export -p'
            echo 'nothing'
        case 'export --parallelism'
            echo 'nothing'
        case 'export --since'
            echo 'nothing'
        case 'find-merge-base --at-op'
            echo 'operation'
        case 'fs cat --at-op'
            echo 'operation'
        case 'fs download --at-op'
            echo 'operation'
        case 'fs download --exclude'
            echo 'nothing'
        case 'fs download --include'
            echo 'nothing'
        case 'fs download -p'
            echo 'nothing'
        case 'fs download --parallelism'
            echo 'nothing'
        case 'fs ls --after'
            echo 'nothing'
        case 'fs ls --amount'
            echo 'nothing'
        case 'fs ls --at-op'
            echo 'operation'
        case 'fs presign --check'
            echo 'file'
        case 'fs presign --count'
            echo 'nothing'
        case 'fs presign --expires'
            echo 'nothing'
        case 'fs presign --format'
            echo '=json csv curl aria2 html'
        case 'fs presign --manifest'
            echo 'file'
        case 'fs presign -n'
            echo 'nothing'
        case 'fs presign --script'
            echo 'file'
        case 'fs stage --checksum'
            echo 'nothing'
        case 'fs stage --content-type'
            echo 'nothing'
        case 'fs stage --incoming'
            echo 'nothing'
        case 'fs stage --location'
            echo 'nothing'
        case 'fs stage --meta'
            echo 'nothing'
        case 'fs stage --mtime'
            echo 'nothing'
        case 'fs stage --size'
            echo 'nothing'
        case 'fs stat --at-op'
            echo 'operation'
        case 'fs stat --expires'
            echo 'nothing'
        case 'fs upload --content-type'
            echo 'nothing'
        case 'fs upload --exclude'
            echo 'nothing'
        case 'fs upload --include'
            echo 'nothing'
        case 'fs upload --meta'
            echo 'nothing'
        case 'fs upload -p'
            echo 'nothing'
        case 'fs upload --parallelism'
            echo 'nothing'
        case 'fs upload -s'
            echo 'file'
        case 'fs upload --source'
            echo 'file'
        case 'fsck --conf'
            echo 'nothing'
        case 'fsck --engine'
            echo '=auto local spark'
        case 'fsck --from'
            echo 'nothing'
        case 'fsck --master'
            echo 'nothing'
        case 'fsck --sample'
            echo 'nothing'
        case 'gc run --conf'
            echo 'nothing'
        case 'gc run --engine'
            echo '=auto local spark'
        case 'gc run --grace'
            echo 'nothing'
        case 'gc run --master'
            echo 'nothing'
        case 'gc run -p'
            echo 'nothing'
        case 'gc run --parallelism'
            echo 'nothing'
        case 'gc set-config -f'
            echo 'file'
        case 'gc set-config --filename'
            echo 'file'
        case 'import --conf'
            echo 'nothing'
        case 'import --engine'
            echo '=auto local spark'
        case 'import --from'
            echo 'directory'
        case 'import -m'
            echo 'nothing'
        case 'import --master'
            echo 'nothing'
        case 'import --message'
            echo 'nothing'
        case 'import --meta'
            echo 'nothing'
        case 'import --mode'
            echo '=replace merge'
        case 'import -p'
            echo 'nothing'
        case 'import --parallelism'
            echo 'nothing'
        case 'import --to'
            echo 'path'
        case 'log --after'
            echo 'nothing'
        case 'log --amount'
            echo 'nothing'
        case 'log --at-op'
            echo 'operation'
        case 'log --objects'
            echo 'nothing'
        case 'log --prefixes'
            echo 'nothing'
        case 'log --since'
            echo 'nothing'
        case 'log --stop-at'
            echo 'nothing'
        case 'merge -m'
            echo 'nothing'
        case 'merge --message'
            echo 'nothing'
        case 'merge --meta'
            echo 'nothing'
        case 'merge --strategy'
            echo '=source-wins dest-wins'
        case 'op log --amount'
            echo 'nothing'
        case 'op show --amount'
            echo 'nothing'
        case 'pull -m'
            echo 'nothing'
        case 'pull --message'
            echo 'nothing'
        case 'pull --strategy'
            echo '=source-wins dest-wins'
        case 'push --force-with-lease'
            echo 'nothing'
        case 'reflog --after'
            echo 'nothing'
        case 'reflog --amount'
            echo 'nothing'
        case 'repo create -d'
            echo 'nothing'
        case 'repo create --default-branch'
            echo 'nothing'
        case 'repo create --range-entries'
            echo 'nothing'
        case 'repo list --after'
            echo 'nothing'
        case 'repo list --amount'
            echo 'nothing'
        case 'repo list --prefix'
            echo 'nothing'
        case 'rev-parse --at-op'
            echo 'operation'
        case 'show commit --at-op'
            echo 'operation'
        case 'status --at-op'
            echo 'operation'
        case 'tag list --after'
            echo 'nothing'
        case 'tag list --amount'
            echo 'nothing'
        case 'tag list --at-op'
            echo 'operation'
        case 'tag list --prefix'
            echo 'nothing'
        case 'tag show --at-op'
            echo 'operation'
        case '* --base-uri'
            echo 'nothing'
        case '* -c'
            echo 'file'
        case '* --config'
            echo 'file'
        case '*'
            return 1
    end
end

# Print what completes argument $argv[2] of the command $argv[1].
function __lakecli_argument
    switch "$argv[1] $argv[2]"
        case 'branch create 1'
            echo 'branch'
        case 'branch delete 1'
            echo 'branch'
        case 'branch list 1'
            echo 'repository'
        case 'branch reset 1'
            echo 'branch'
        case 'branch revert 1'
            echo 'branch'
        case 'branch revert *'
            echo 'ref'
        case 'branch show 1'
            echo 'branch'
        case 'cherry-pick 1'
            echo 'ref'
        case 'cherry-pick 2'
            echo 'branch'
        case 'clone 1'
            echo 'directory'
        case 'clone 2'
            echo 'repository'
        case 'commit 1'
            echo 'branch'
        case 'completion 1'
            echo '=bash zsh fish'
        case 'config get 1'
            echo '=user.name user.email base_uri cache.size transfer.parallelism gc.grace presign.expires sync trust.addresses'
        case 'config set 1'
            echo '=user.name user.email base_uri cache.size transfer.parallelism gc.grace presign.expires sync trust.addresses'
        case 'config set 2'
            echo 'nothing'
        case 'config unset 1'
            echo '=user.name user.email base_uri cache.size transfer.parallelism gc.grace presign.expires sync trust.addresses'
        case 'diff 1'
            echo 'ref'
        case 'diff 2'
            echo 'ref'
        case 'doctor 1'
            echo 'repository'
        case 'export 1'
            echo 'path'
        case 'export 2'
            echo 'directory'
        case 'fetch 1'
            echo 'repository'
        case 'find-merge-base 1'
            echo 'ref'
        case 'find-merge-base 2'
            echo 'ref'
        case 'fs cat 1'
            echo 'path'
        case 'fs cp 1'
            echo 'path'
        case 'fs cp 2'
            echo 'path'
        case 'fs download 1'
            echo 'path'
        case 'fs download 2'
            echo 'file'
        case 'fs ls 1'
            echo 'path'
        case 'fs mv 1'
            echo 'path'
        case 'fs mv 2'
            echo 'path'
        case 'fs presign 1'
            echo 'path'
        case 'fs rm 1'
            echo 'path'
        case 'fs stage 1'
            echo 'path'
        case 'fs stat 1'
            echo 'path'
        case 'fs upload 1'
            echo 'file'
        case 'fs upload 2'
            echo 'path'
        case 'fsck 1'
            echo 'repository'
        case 'gc delete-config 1'
            echo 'repository'
        case 'gc get-config 1'
            echo 'repository'
        case 'gc run 1'
            echo 'repository'
        case 'gc set-config 1'
            echo 'repository'
        case 'gc status 1'
            echo 'repository'
        case 'gc undo 1'
            echo 'repository'
        case 'log 1'
            echo 'ref'
        case 'merge 1'
            echo 'ref'
        case 'merge 2'
            echo 'branch'
        case 'op log 1'
            echo 'repository'
        case 'op redo 1'
            echo 'repository'
        case 'op restore 1'
            echo 'repository'
        case 'op restore 2'
            echo 'operation'
        case 'op show 1'
            echo 'repository'
        case 'op show 2'
            echo 'operation'
        case 'op undo 1'
            echo 'repository'
        case 'pull 1'
            echo 'ref'
        case 'push 1'
            echo 'ref'
        case 'quickstart 1'
            echo 'directory'
        case 'redo 1'
            echo 'repository'
        case 'reflog 1'
            echo 'ref'
        case 'repo create 1'
            echo 'repository'
        case 'repo create 2'
            echo 'directory'
        case 'repo delete 1'
            echo 'repository'
        case 'rev-parse *'
            echo 'ref'
        case 'show commit 1'
            echo 'ref'
        case 'status 1'
            echo 'branch'
        case 'tag create 1'
            echo 'tag'
        case 'tag create 2'
            echo 'ref'
        case 'tag delete 1'
            echo 'tag'
        case 'tag list 1'
            echo 'repository'
        case 'tag show 1'
            echo 'tag'
        case 'undo 1'
            echo 'repository'
        case 'help 1'
            echo '=branch cherry-pick clone clouds commit completion config diff doctor exit-codes export fetch find-merge-base fs fsck gc handoff import json layout log merge op pull push python quickstart redo reflog remotes repo rev-parse revisions security show status tag tutorial undo version'
        case '*'
            echo nothing
    end
end

# Print what completes $argv[2] as $argv[1] says.
function __lakecli_offer
    switch $argv[1]
        case '=*'
            string split ' ' -- (string sub --start 2 -- $argv[1])
        case file
            __fish_complete_path $argv[2]
        case directory
            __fish_complete_directories $argv[2]
        case nothing
        case '*'
            command lakecli __complete $argv[1] $argv[2] 2>/dev/null
    end
end

function __lakecli_complete
    set -l tokens (commandline --tokenize --cut-at-cursor --current-process)
    set -l current (commandline --current-token --cut-at-cursor)
    # An unfinished quote is no part of the value.
    set -l typed (string replace --regex -- '^["\']' '' $current)
    set -l line ''
    set -l wanted ''
    set -l ended ''
    set -l position 1
    for word in $tokens[2..]
        if test -n "$wanted"
            set wanted ''
        else if test -n "$ended"
            set position (math $position + 1)
        else if test "$word" = --
            set ended yes
        else if string match --quiet -- '-*' $word
            if not string match --quiet -- '*=*' $word
                set wanted (__lakecli_value "$line" $word; or echo '')
            end
        else if set -l names (__lakecli_words "$line")
            # Every word but the last two stands in the tree, or there is nothing to complete.
            contains -- $word (string replace --regex '\t.*' '' -- $names); or return
            set line (string trim -- "$line $word")
        else
            set position (math $position + 1)
        end
    end
    if test -n "$wanted"
        __lakecli_offer $wanted $typed
    else if test -z "$ended"; and string match --quiet -- '--*=*' $typed
        set -l option (string split --max 1 = -- $typed)
        set -l value (__lakecli_value "$line" $option[1]); or return
        printf '%s\n' $option[1]=(__lakecli_offer $value $option[2])
    else if test -z "$ended"; and string match --quiet -- '-*' $typed
        __lakecli_options "$line"
    else if not __lakecli_words "$line"
        __lakecli_offer (__lakecli_argument "$line" $position) "$typed"
    end
end

complete --command lakecli --no-files --arguments '(__lakecli_complete)'
