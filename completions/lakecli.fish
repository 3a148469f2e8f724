# fish completion for lakecli
# Written by `python -m lakecli.cli.manual.generate` from the command tree; do not edit.

# Print what may follow the words $argv[1], with summaries; fails where nothing does.
function __lakecli_words
    switch $argv[1]
        case ''
            printf '%s\t%s\n' \
                'annotate' 'Show the commit that last changed each object' \
                'approve' 'Approve the tree of a ref for a branch or tag, as a rule may require' \
                'bisect' 'Search history for the commit that introduced a problem' \
                'blame' 'Show the commit that last changed each object; the same as `lakecli annotate`' \
                'branch' 'Create, list, move and delete branches' \
                'branch-protect' 'Let branches take merges only' \
                'cat-sst' 'Show the records of a range, a metarange or a list of a refs dump' \
                'check' 'Check trees, and list what was checked and approved' \
                'check-ignore' 'List the files that .lakefsignore excludes' \
                'checkout' 'Bring a linked directory to another branch, tag or commit' \
                'cherry-pick' 'Apply the changes of one commit to a branch' \
                'clone' 'Clone a repository from its storage namespace onto this machine' \
                'commit' 'Commit the changes of a branch or of a linked directory' \
                'completion' 'Print the completion script of a shell' \
                'config' 'Read and change settings; alone on a terminal, ask for them' \
                'diff' 'List the paths that differ' \
                'doctor' 'Check a storage namespace, or a repository on this machine' \
                'export' 'Copy the committed objects of a ref to another bucket or directory' \
                'fetch' 'Fetch the branches, tags and commits of the bucket' \
                'find-merge-base' 'Show the commit that a merge of two refs would start from' \
                'fs' 'Read and write objects' \
                'fsck' 'Check that everything a repository refers to exists and is undamaged' \
                'gc' 'Find garbage, and delete it after a grace period' \
                'help' 'Show the help of a command or a topic' \
                'import' 'Import existing objects in one commit, without copying them' \
                'local' 'Work in a directory linked with a path of a ref' \
                'log' 'Show the history of a ref, newest commit first' \
                'merge' 'Merge a ref into a branch' \
                'op' 'Show the operation log, undo and redo' \
                'plugin' 'List plugins: programs that add commands' \
                'policy' 'Show and set the rules about branches and tags, for all clones' \
                'publish' 'Merge a ref into a branch and push the branch, if every check passes on the merged tree' \
                'pull' 'Update a branch from the bucket: fetch, then fast-forward or merge' \
                'push' 'Push a branch or tag, and its commits, to the bucket' \
                'quickstart' 'Create a small repository, and show each command as it runs' \
                'redo' 'Redo the last undone operation' \
                'reflog' 'Show how a branch or tag moved, newest move first' \
                'refs-dump' 'Dump the refs of a repository for lakeFS' \
                'refs-restore' 'Fill a repository with the refs of a lakeFS dump' \
                'repo' 'Create, list and delete repositories' \
                'restore' 'Give files of a linked directory their committed contents' \
                'rev-parse' 'Show the commit ID that a ref expression names' \
                'run' 'Run a job on a branch of its own, check and publish its result' \
                'run' 'Run a job on a branch of its own, check its result, and publish all of it or nothing' \
                'serve' 'Serve repositories to other programs: as S3, as lakeFS\'s API and as pages' \
                'show' 'Show a commit' \
                'status' 'Show unpushed commits and uncommitted changes' \
                'tag' 'Create, list and delete tags' \
                'undo' 'Undo the last operation on a repository' \
                'use' 'Set or show the default repository of commands without a URI' \
                'version' 'Print the version of lakecli'
        case 'bisect'
            printf '%s\t%s\n' \
                'bad' 'Record that a commit is bad: it has the problem' \
                'good' 'Record that commits are good: they do not have the problem' \
                'log' 'Show what was recorded in a bisect session' \
                'new' 'Record that commits are new: they have the change that is searched for' \
                'old' 'Record that commits are old: they do not have the change that is searched for' \
                'reset' 'End a bisect session' \
                'run' 'Search with a program that tests each commit' \
                'skip' 'Record that commits cannot be tested' \
                'start' 'Begin to search history for the first commit with a problem' \
                'view' 'Show the commits that may be the first bad one, newest first'
        case 'branch'
            printf '%s\t%s\n' \
                'create' 'Create a branch at the commit of another ref' \
                'delete' 'Delete branches of a repository with their uncommitted changes' \
                'list' 'List the branches of a repository, ordered by name' \
                'rename' 'Rename a branch' \
                'reset' 'Discard the uncommitted changes of a branch: all, below a prefix, or of one object' \
                'revert' 'Revert commits, with one new commit for each' \
                'show' 'Show the commit a branch points to'
        case 'branch-protect'
            printf '%s\t%s\n' \
                'add' 'Let branches accept only merges: no direct commits, and no staged changes' \
                'delete' 'Remove a pattern that branch-protect add has added' \
                'list' 'List the patterns of the branches that accept only merges'
        case 'check'
            printf '%s\t%s\n' \
                'list' 'List the checks that passed on the tree of a ref, and its approvals' \
                'run' 'Run a check on a ref, and state in the bucket that it passed'
        case 'config'
            printf '%s\t%s\n' \
                'get' 'Print the value of a setting' \
                'list' 'List all settings and their values' \
                'set' 'Change a setting in the configuration file' \
                'unset' 'Remove a setting from the configuration file'
        case 'fs'
            printf '%s\t%s\n' \
                'cat' 'Write the bytes of objects to standard output, one after the other' \
                'cp' 'Copy an object, or all objects below a path, to a branch of this or another repository' \
                'download' 'Download an object, or all objects below a path' \
                'du' 'Show the space that the objects below a prefix use, by directory' \
                'find' 'Find objects by name, size and time' \
                'ls' 'List the objects whose paths begin with a prefix' \
                'mv' 'Move an object, or all objects below a path, to a branch of this or another repository' \
                'presign' 'Print presigned URLs: temporary access without credentials' \
                'rm' 'Remove objects from a branch; with -r, all objects at and below the paths' \
                'stage' 'Add objects whose bytes are already in a bucket to a branch' \
                'stat' 'Show size, checksum, times and metadata of an object' \
                'update-metadata' 'Replace the metadata or the content type of objects' \
                'upload' 'Upload files, a directory or standard input to a branch'
        case 'gc'
            printf '%s\t%s\n' \
                'delete-config' 'Delete the retention rules: keep whatever branches and tags reach' \
                'get-config' 'Show the retention rules' \
                'run' 'Find garbage, and delete it after a grace period' \
                'set-config' 'Set the retention rules: how long commits keep their objects, per branch' \
                'status' 'Show the state of garbage collection, and the commands that are possible now' \
                'undo' 'Cancel the condemnation of garbage'
        case 'local'
            printf '%s\t%s\n' \
                'checkout' 'Undo the changes of a linked directory, and go to another ref' \
                'clone' 'Link a directory with a path of a ref, and download its objects' \
                'commit' 'Commit the changes of a linked directory to its branch' \
                'diff' 'List what has changed in a linked directory since it was last synced' \
                'init' 'Link a directory with a path of a branch, tag or commit' \
                'list' 'List the linked directories below a directory' \
                'pull' 'Update a linked directory with the changes of its ref' \
                'status' 'Show what has changed in a linked directory, and on its ref'
        case 'op'
            printf '%s\t%s\n' \
                'compact' 'Return the space of expired operations to the disk' \
                'log' 'Show the operation log of a repository, newest operation first' \
                'redo' 'Redo the last undone operation; the same as lakecli redo' \
                'restore' 'Restore a repository to its state right after an operation' \
                'show' 'Show one operation: what it changed, and the state before' \
                'undo' 'Undo the last operation on a repository; the same as lakecli undo'
        case 'plugin'
            printf '%s\t%s\n' \
                'list' 'List the plugins: programs in PATH whose names begin with lakecli-'
        case 'policy'
            printf '%s\t%s\n' \
                'edit' 'Edit the rules about branches and tags in an editor, and set them' \
                'log' 'List the versions of the rules, newest first: their number, when and by whom they were set' \
                'set' 'Replace the rules about branches and tags, for all clones' \
                'show' 'Show the rules about branches and tags, which hold for all clones'
        case 'repo'
            printf '%s\t%s\n' \
                'create' 'Create a repository in a storage namespace' \
                'delete' 'Delete a repository from this machine; the objects in its namespace stay' \
                'list' 'List the repositories on this machine, ordered by name'
        case 'run'
            printf '%s\t%s\n' \
                'abort' 'Remove a run that failed or was killed, with its branch; `undo` restores the branch' \
                'list' 'List the runs on this machine that are under way, were killed, or whose branch was kept' \
                'resume' 'Check and publish what a job has written, if the run failed or was killed after the job' \
                'show' 'Show a run, named by its branch'
        case 'show'
            printf '%s\t%s\n' \
                'commit' 'Show one commit'
        case 'tag'
            printf '%s\t%s\n' \
                'create' 'Create a tag: a name for a commit' \
                'delete' 'Delete tags of a repository; their commits stay' \
                'list' 'List the tags of a repository, ordered by name' \
                'show' 'Show the commit a tag points to'
        case '*'
            return 1
    end
end

# Print the options of the command $argv[1], with summaries.
function __lakecli_options
    switch $argv[1]
        case 'annotate'
            printf '%s\t%s\n' \
                '--at-op' 'Read the state right after an operation; see op log' \
                '--first-parent' 'Name the merge that brought a change, not the merged commit' \
                '-r' 'All objects below the path' \
                '--recursive' 'All objects below the path'
        case 'approve'
            printf '%s\t%s\n' \
                '--for' 'Branch or tag for which the tree is approved'
        case 'blame'
            printf '%s\t%s\n' \
                '--at-op' 'Read the state right after an operation; see op log' \
                '--first-parent' 'Name the merge that brought a change, not the merged commit' \
                '-r' 'All objects below the path' \
                '--recursive' 'All objects below the path'
        case 'branch create'
            printf '%s\t%s\n' \
                '-s' 'Ref to start at, or lakefs://REPOSITORY/REF' \
                '--source' 'Ref to start at, or lakefs://REPOSITORY/REF'
        case 'branch delete'
            printf '%s\t%s\n' \
                '-y' 'Do not ask for confirmation' \
                '--yes' 'Do not ask for confirmation'
        case 'branch list'
            printf '%s\t%s\n' \
                '--after' 'Start after this name' \
                '--amount' 'Show at most N; 0 or -1 for all' \
                '--at-op' 'Read the state right after an operation; see op log' \
                '--long' 'Show the distance of each branch from the bucket, too' \
                '--prefix' 'Only what begins with this' \
                '-v' 'Show the distance of each branch from the bucket, too'
        case 'branch reset'
            printf '%s\t%s\n' \
                '--force-with-lease' 'Move the branch or tag even backwards, unless somebody else moved it in the bucket' \
                '--object' 'Only this object' \
                '--prefix' 'Only what begins with this' \
                '--to' 'Move the branch to this commit: a ref or its URI' \
                '-y' 'Do not ask for confirmation' \
                '--yes' 'Do not ask for confirmation'
        case 'branch revert'
            printf '%s\t%s\n' \
                '--allow-empty' 'Commit even if nothing changes' \
                '--allow-empty-commit' 'Commit even if nothing changes' \
                '-m' 'Compare a merge commit with its parent N, counted from 1' \
                '--parent-number' 'Compare a merge commit with its parent N, counted from 1' \
                '--table-logs' 'Resolve conflicts in logs of tables, too, and lose rows' \
                '--take' 'Resolve conflicts at matching paths: source:PATTERN or dest:PATTERN, as in .gitignore; the last match counts' \
                '-y' 'Do not ask for confirmation' \
                '--yes' 'Do not ask for confirmation'
        case 'branch show'
            printf '%s\t%s\n' \
                '--at-op' 'Read the state right after an operation; see op log'
        case 'branch-protect list'
            printf '%s\t%s\n' \
                '--amount' 'Show at most N; 0 or -1 for all'
        case 'cat-sst'
            printf '%s\t%s\n' \
                '--amount' 'Show at most N records; -1 shows all' \
                '-f' 'A file, the URI of an object in a storage namespace, or - for standard input' \
                '--file' 'A file, the URI of an object in a storage namespace, or - for standard input'
        case 'check list'
            printf '%s\t%s\n' \
                '--prefix' 'List what was stated below this prefix'
        case 'check run'
            printf '%s\t%s\n' \
                '--prefix' 'Check only what is below this prefix'
        case 'check-ignore'
            printf '%s\t%s\n' \
                '--why' 'Show the deciding pattern, and files that are not excluded'
        case 'checkout'
            printf '%s\t%s\n' \
                '-b' 'First create the branch REF at the ref of the directory' \
                '--create' 'First create the branch REF at the ref of the directory' \
                '-f' 'Overwrite changed files that differ in REF' \
                '--force' 'Overwrite changed files that differ in REF' \
                '--no-progress' 'Show no progress' \
                '-p' 'Transfer N objects at a time; default: 25 (transfer.parallelism)' \
                '--parallelism' 'Transfer N objects at a time; default: 25 (transfer.parallelism)'
        case 'cherry-pick'
            printf '%s\t%s\n' \
                '--allow-empty' 'Commit even if nothing changes' \
                '--allow-empty-commit' 'Commit even if nothing changes' \
                '-m' 'Compare a merge commit with its parent N, counted from 1' \
                '--parent-number' 'Compare a merge commit with its parent N, counted from 1' \
                '--table-logs' 'Resolve conflicts in logs of tables, too, and lose rows' \
                '--take' 'Resolve conflicts at matching paths: source:PATTERN or dest:PATTERN, as in .gitignore; the last match counts'
        case 'clone'
            printf '%s\t%s\n' \
                '--conf' 'Spark setting, as for spark-submit' \
                '-d' 'With --from-lakefs: the default branch' \
                '--default-branch' 'With --from-lakefs: the default branch' \
                '--engine' 'Where the work runs: local (this process), spark, or auto (by number of objects)' \
                '--from-lakefs' 'Clone a namespace of lakeFS from a refs dump' \
                '--master' 'Spark master; default: local[*], this machine' \
                '--rebuild' 'With --from-lakefs: rewrite the lists of paths of all branches now, not with the first commit on each' \
                '--refs' 'The manifest that `lakectl refs-dump` printed; - reads standard input' \
                '--take-over' 'With --from-lakefs: claim the namespace, to write to it and push'
        case 'commit'
            printf '%s\t%s\n' \
                '--allow-empty' 'Commit even if nothing changes' \
                '--allow-empty-commit' 'Commit even if nothing changes' \
                '--allow-empty-message' 'Commit without a message' \
                '-m' 'Commit message' \
                '--message' 'Commit message' \
                '--meta' 'Metadata to record; quote a pair whose value has a comma: \'"KEY=A,B"\'' \
                '--no-verify' 'Leave out hooks of this machine; the operation log says so' \
                '--path' 'Commit only this object, or what is below it' \
                '--prefix' 'Commit only paths that begin with this' \
                '--strategy' 'Resolve all conflicts: take the source\'s side or the destination\'s'
        case 'config list'
            printf '%s\t%s\n' \
                '--show-origin' 'Show where each value comes from'
        case 'diff'
            printf '%s\t%s\n' \
                '--at-op' 'Read the state right after an operation; see op log' \
                '--conf' 'Spark setting, as for spark-submit' \
                '--depth' 'With --stat, most directories in a prefix' \
                '--engine' 'Where the work runs: local (this process), spark, or auto (by number of objects)' \
                '--exit-code' 'Exit with 13 if there are differences' \
                '--master' 'Spark master; default: local[*], this machine' \
                '--name-only' 'Show only the paths' \
                '--null' 'Show only the paths, unquoted, each ended by NUL' \
                '--prefix' 'Only what begins with this' \
                '--stat' 'Count paths and bytes by prefix instead of listing paths' \
                '--two-way' 'Compare the two refs directly, without their common ancestor' \
                '-z' 'Show only the paths, unquoted, each ended by NUL'
        case 'doctor'
            printf '%s\t%s\n' \
                '--again' 'Repeat the whole test of conditional writes; a pass clears a failure'
        case 'export'
            printf '%s\t%s\n' \
                '--conf' 'Spark setting, as for spark-submit' \
                '--dry-run' 'Show what would be done, but do nothing' \
                '--engine' 'Where the work runs: local (this process), spark, or auto (by number of objects)' \
                '--master' 'Spark master; default: local[*], this machine' \
                '--no-progress' 'Show no progress' \
                '--no-success' 'Write no _SUCCESS at the end' \
                '--no-verify' 'Let the store copy objects unverified; compare sizes only' \
                '-p' 'Transfer N objects at a time; default: 25 (transfer.parallelism)' \
                '--parallelism' 'Transfer N objects at a time; default: 25 (transfer.parallelism)' \
                '--since' 'Only what differs from this ref, which was exported before' \
                '--symlink' 'Copy nothing: write manifests of addresses for Trino, Athena and Hive' \
                '--to-lakefs-import' 'Copy nothing: write a Parquet manifest of paths and addresses to the file DEST'
        case 'find-merge-base'
            printf '%s\t%s\n' \
                '--at-op' 'Read the state right after an operation; see op log'
        case 'fs cat'
            printf '%s\t%s\n' \
                '--at-op' 'Read the state right after an operation; see op log' \
                '--files-from' 'Only what FILE names, relative to the given path, one name a line; - for standard input' \
                '--null' 'Names of --files-from end with NUL, not with a newline' \
                '--verify' 'Verify large objects, too, before writing any bytes' \
                '-z' 'Names of --files-from end with NUL, not with a newline'
        case 'fs cp'
            printf '%s\t%s\n' \
                '--content-type' 'Content type of the copies' \
                '--delete' 'With -r, remove what is below DEST and not below PATH' \
                '--meta' 'Metadata of the copies; \'\' for none' \
                '--no-progress' 'Show no progress' \
                '-p' 'Transfer N objects at a time; default: 25 (transfer.parallelism)' \
                '--parallelism' 'Transfer N objects at a time; default: 25 (transfer.parallelism)' \
                '-r' 'All objects below the path' \
                '--recursive' 'All objects below the path'
        case 'fs download'
            printf '%s\t%s\n' \
                '--at-op' 'Read the state right after an operation; see op log' \
                '--delete' 'With -r, delete files in DEST that PATH lacks' \
                '--dry-run' 'Show what would be done, but do nothing' \
                '--exclude' 'Not paths that match, as in .gitignore' \
                '--files-from' 'Only what FILE names, relative to the given path, one name a line; - for standard input' \
                '--include' 'Only paths that match, as in .gitignore' \
                '--max-delete' 'Refuse to delete more than N files' \
                '--no-clobber' 'Refuse to replace a file that exists; not with -r' \
                '--no-progress' 'Show no progress' \
                '--null' 'Names of --files-from end with NUL, not with a newline' \
                '-p' 'Transfer N objects at a time; default: 25 (transfer.parallelism)' \
                '--parallelism' 'Transfer N objects at a time; default: 25 (transfer.parallelism)' \
                '--part-size' 'Fetch large objects of a bucket in parts of this size; default: 8388608' \
                '-r' 'All objects below the path' \
                '--recursive' 'All objects below the path' \
                '-z' 'Names of --files-from end with NUL, not with a newline'
        case 'fs du'
            printf '%s\t%s\n' \
                '--at-op' 'Read the state right after an operation; see op log' \
                '--depth' 'Levels of directories; 0 for the total' \
                '--shared' 'Also show how many of the bytes other branches and tags use'
        case 'fs find'
            printf '%s\t%s\n' \
                '--at-op' 'Read the state right after an operation; see op log' \
                '--max-size' 'Only objects of at most this size' \
                '--min-size' 'Only objects of at least this size' \
                '--name' 'Only names that match, such as \'*.csv\'' \
                '--null' 'End each URI by NUL, unquoted' \
                '--since' 'Only objects uploaded since this time' \
                '--until' 'Only objects uploaded until this time' \
                '-z' 'End each URI by NUL, unquoted'
        case 'fs ls'
            printf '%s\t%s\n' \
                '--after' 'Start after this path' \
                '--amount' 'Show at most N; 0 or -1 for all' \
                '--at-op' 'Read the state right after an operation; see op log' \
                '-r' 'All objects below the path' \
                '--recursive' 'All objects below the path' \
                '--summarize' 'Show the number and size of the listed objects at the end'
        case 'fs mv'
            printf '%s\t%s\n' \
                '--no-progress' 'Show no progress' \
                '-p' 'Transfer N objects at a time; default: 25 (transfer.parallelism)' \
                '--parallelism' 'Transfer N objects at a time; default: 25 (transfer.parallelism)' \
                '-r' 'All objects below the path' \
                '--recursive' 'All objects below the path'
        case 'fs presign'
            printf '%s\t%s\n' \
                '--check' 'Show which URLs expired and which objects changed' \
                '--count' 'With --put, number of URLs, for one object each' \
                '--expires' 'Lifetime of the URL: 90s, 30m, 12h or 7d; default: 15m (presign.expires)' \
                '--files-from' 'Only what FILE names, relative to the given path, one name a line; - for standard input' \
                '--format' 'With -r, format of the manifest; default: by its suffix' \
                '--inline' 'Let browsers display every object, even HTML and scripts' \
                '--manifest' 'With -r, write the URLs to this file' \
                '--max-size' 'With --put, largest size of an object; default: 5GiB' \
                '-n' 'With --put, number of URLs, for one object each' \
                '--null' 'Names of --files-from end with NUL, not with a newline' \
                '--page' 'Write a web page of the links; with --put, one that sends files' \
                '--put' 'Print a URL for uploading an object; see fs stage' \
                '-r' 'All objects below the path' \
                '--recursive' 'All objects below the path' \
                '--script' 'Write a shell script that downloads everything; with --put, one that sends files' \
                '--signed-by' 'Name the committer in a web page as its sender' \
                '--title' 'The title of a web page; default: PATH' \
                '-z' 'Names of --files-from end with NUL, not with a newline'
        case 'fs rm'
            printf '%s\t%s\n' \
                '--dry-run' 'Show what would be done, but do nothing' \
                '--files-from' 'Only what FILE names, relative to the given path, one name a line; - for standard input' \
                '--must-exist' 'Remove nothing and exit with 6 if a path has no object' \
                '--null' 'Names of --files-from end with NUL, not with a newline' \
                '-r' 'All objects below the path' \
                '--recursive' 'All objects below the path' \
                '-z' 'Names of --files-from end with NUL, not with a newline'
        case 'fs stage'
            printf '%s\t%s\n' \
                '--arrived' 'Stage what was sent to the pages and scripts of fs presign --put PATH' \
                '--checksum' 'With --location, the BLAKE3 or ETag of the object' \
                '--content-type' 'Content type; default: by the suffix of PATH' \
                '--dry-run' 'With --arrived, show what has arrived, but stage nothing' \
                '--incoming' 'Stage the object that was sent to this fs presign --put link' \
                '--location' 'Stage an object outside the storage namespace' \
                '--meta' 'Metadata to record; quote a pair whose value has a comma: \'"KEY=A,B"\'' \
                '--mtime' 'With --location, its modification time in unix seconds; default: now' \
                '--size' 'With --location, the size of the object'
        case 'fs stat'
            printf '%s\t%s\n' \
                '--at-op' 'Read the state right after an operation; see op log' \
                '--expires' 'Lifetime of the URL: 90s, 30m, 12h or 7d; default: 15m (presign.expires)' \
                '--files-from' 'Only what FILE names, relative to the given path, one name a line; - for standard input' \
                '--null' 'Names of --files-from end with NUL, not with a newline' \
                '--pre-sign' 'Show a URL that reads the object without credentials' \
                '-z' 'Names of --files-from end with NUL, not with a newline'
        case 'fs update-metadata'
            printf '%s\t%s\n' \
                '--content-type' 'The new content type' \
                '--meta' 'The new metadata; \'\' for none' \
                '--metadata' 'The new metadata; \'\' for none'
        case 'fs upload'
            printf '%s\t%s\n' \
                '--content-type' 'Content type; default: by the suffix of PATH' \
                '--delete' 'With -r, remove objects below PATH that SRC lacks' \
                '--dry-run' 'Show what would be done, but do nothing' \
                '--exclude' 'Not paths that match, as in .gitignore' \
                '--files-from' 'Only what FILE names, relative to the given path, one name a line; - for standard input' \
                '--follow' 'Follow symbolic links' \
                '--include' 'Only paths that match, as in .gitignore' \
                '--max-delete' 'Refuse to remove more than N objects' \
                '--meta' 'Metadata to record; quote a pair whose value has a comma: \'"KEY=A,B"\'' \
                '--no-progress' 'Show no progress' \
                '--null' 'Names of --files-from end with NUL, not with a newline' \
                '-p' 'Transfer N objects at a time; default: 25 (transfer.parallelism)' \
                '--parallelism' 'Transfer N objects at a time; default: 25 (transfer.parallelism)' \
                '-r' 'All files below the directory SRC' \
                '--recursive' 'All files below the directory SRC' \
                '-s' 'SRC as an option; PATH is then the only argument, and the whole path of a file' \
                '--skip' 'Skip symbolic links and special files' \
                '--source' 'SRC as an option; PATH is then the only argument, and the whole path of a file' \
                '-z' 'Names of --files-from end with NUL, not with a newline'
        case 'fsck'
            printf '%s\t%s\n' \
                '--conf' 'Spark setting, as for spark-submit' \
                '--data' 'Read and verify the contents of every data object' \
                '--dry-run' 'Show what would be done, but do nothing' \
                '--engine' 'Where the work runs: local (this process), spark, or auto (by number of objects)' \
                '--external' 'Check the objects outside the storage namespace, too' \
                '--from' 'With --repair, also look in this directory or copy of the namespace' \
                '--master' 'Spark master; default: local[*], this machine' \
                '--repair' 'Repair what can be repaired, and list what is lost' \
                '--sample' 'As --data, for a random sample such as 1%'
        case 'gc get-config'
            printf '%s\t%s\n' \
                '-p' 'Print the rules as JSON that gc set-config reads'
        case 'gc run'
            printf '%s\t%s\n' \
                '--accept-restored' 'Accept, once, that branches or tags are missing or older than they were' \
                '--conf' 'Spark setting, as for spark-submit' \
                '--dry-run' 'Show what would be done, but do nothing' \
                '--engine' 'Where the work runs: local (this process), spark, or auto (by number of objects)' \
                '--force-shared' 'Collect even if a lakeFS server may use the namespace' \
                '--grace' 'Minimum age of garbage, and delay until it is deleted; at least 24h; default: 14d (gc.grace)' \
                '--lakefs-stopped' 'Confirm, once, that lakeFS has stopped in a namespace that was taken over' \
                '--master' 'Spark master; default: local[*], this machine' \
                '--no-progress' 'Show no progress' \
                '-p' 'Transfer N objects at a time; default: 25 (transfer.parallelism)' \
                '--parallelism' 'Transfer N objects at a time; default: 25 (transfer.parallelism)' \
                '-y' 'Do not ask for confirmation' \
                '--yes' 'Do not ask for confirmation'
        case 'gc set-config'
            printf '%s\t%s\n' \
                '-f' 'File with the rules as JSON; - for standard input' \
                '--filename' 'File with the rules as JSON; - for standard input'
        case 'gc undo'
            printf '%s\t%s\n' \
                '--force' 'End an interrupted sweep, or replace a damaged state'
        case 'import'
            printf '%s\t%s\n' \
                '--allow-empty' 'Allow an empty directory or prefix' \
                '--allow-empty-commit' 'Commit even if nothing changes' \
                '--allow-empty-message' 'Commit without a message' \
                '--conf' 'Spark setting, as for spark-submit' \
                '--copy' 'Copy the bytes into the repository\'s namespace' \
                '--dry-run' 'Show what would be done, but do nothing' \
                '--engine' 'Where the work runs: local (this process), spark, or auto (by number of objects)' \
                '--follow' 'Follow symbolic links' \
                '--from' 'Directory, prefix of a bucket, manifest or S3 Inventory; must be given' \
                '-m' 'Commit message' \
                '--manifest' 'URI is a manifest, whatever its suffix' \
                '--master' 'Spark master; default: local[*], this machine' \
                '--message' 'Commit message' \
                '--meta' 'Metadata to record; quote a pair whose value has a comma: \'"KEY=A,B"\'' \
                '--mode' 'Replace everything below PREFIX, or merge into it' \
                '--no-progress' 'Show no progress' \
                '-p' 'Transfer N objects at a time; default: 25 (transfer.parallelism)' \
                '--parallelism' 'Transfer N objects at a time; default: 25 (transfer.parallelism)' \
                '--pin-versions' 'Record the current version of each object [default: as the destination has it]' \
                '--skip' 'Skip symbolic links and special files' \
                '--to' 'lakefs://REPOSITORY/BRANCH/[PREFIX]; must be given' \
                '--verify' 'Check which objects of a manifest exist with the listed size'
        case 'local checkout'
            printf '%s\t%s\n' \
                '--all' 'All linked directories below DIRECTORY' \
                '--follow' 'Follow symbolic links' \
                '--no-progress' 'Show no progress' \
                '-p' 'Transfer N objects at a time; default: 25 (transfer.parallelism)' \
                '--parallelism' 'Transfer N objects at a time; default: 25 (transfer.parallelism)' \
                '-r' 'Branch, tag or commit to go to' \
                '--ref' 'Branch, tag or commit to go to' \
                '--skip' 'Skip symbolic links and special files' \
                '-y' 'Do not ask for confirmation' \
                '--yes' 'Do not ask for confirmation'
        case 'local clone'
            printf '%s\t%s\n' \
                '--exclude' 'Not paths that match, as in .gitignore' \
                '--gitignore' 'In a Git work tree, have Git ignore the directory' \
                '--include' 'Only paths that match, as in .gitignore' \
                '--no-progress' 'Show no progress' \
                '-p' 'Transfer N objects at a time; default: 25 (transfer.parallelism)' \
                '--parallelism' 'Transfer N objects at a time; default: 25 (transfer.parallelism)'
        case 'local commit'
            printf '%s\t%s\n' \
                '--allow-empty-message' 'Commit without a message' \
                '--exclude' 'Not paths that match, as in .gitignore' \
                '--follow' 'Follow symbolic links' \
                '--include' 'Only paths that match, as in .gitignore' \
                '-m' 'Commit message' \
                '--message' 'Commit message' \
                '--meta' 'Metadata to record; quote a pair whose value has a comma: \'"KEY=A,B"\'' \
                '--no-progress' 'Show no progress' \
                '--ours' 'Commit the directory\'s file where others have changed it too' \
                '-p' 'Transfer N objects at a time; default: 25 (transfer.parallelism)' \
                '--parallelism' 'Transfer N objects at a time; default: 25 (transfer.parallelism)' \
                '--skip' 'Skip symbolic links and special files' \
                '-y' 'Do not ask for confirmation' \
                '--yes' 'Do not ask for confirmation'
        case 'local diff'
            printf '%s\t%s\n' \
                '--exclude' 'Not paths that match, as in .gitignore' \
                '--exit-code' 'Exit with 13 if there are differences' \
                '--follow' 'Follow symbolic links' \
                '--include' 'Only paths that match, as in .gitignore' \
                '--skip' 'Skip symbolic links and special files'
        case 'local init'
            printf '%s\t%s\n' \
                '--exclude' 'Not paths that match, as in .gitignore' \
                '--force' 'Link a directory again that is already linked' \
                '--gitignore' 'In a Git work tree, have Git ignore the directory' \
                '--include' 'Only paths that match, as in .gitignore'
        case 'local list'
            printf '%s\t%s\n' \
                '--prune' 'Delete the indexes of directories that are gone'
        case 'local pull'
            printf '%s\t%s\n' \
                '--follow' 'Follow symbolic links' \
                '--force' 'Overwrite changed files that the ref has changed too' \
                '--no-progress' 'Show no progress' \
                '-p' 'Transfer N objects at a time; default: 25 (transfer.parallelism)' \
                '--parallelism' 'Transfer N objects at a time; default: 25 (transfer.parallelism)' \
                '--skip' 'Skip symbolic links and special files'
        case 'local status'
            printf '%s\t%s\n' \
                '--exclude' 'Not paths that match, as in .gitignore' \
                '--follow' 'Follow symbolic links' \
                '--include' 'Only paths that match, as in .gitignore' \
                '-l' 'Show only what has changed in the directory' \
                '--local' 'Show only what has changed in the directory' \
                '--skip' 'Skip symbolic links and special files'
        case 'log'
            printf '%s\t%s\n' \
                '--after' 'Start after this commit' \
                '--amount' 'Show at most N; 0 or -1 for all' \
                '--at-op' 'Read the state right after an operation; see op log' \
                '--author' 'Only commits of committers that match' \
                '--dot' 'Write the history as a graph for Graphviz' \
                '--first-parent' 'Follow only the first parent of merge commits' \
                '--format' 'Show each commit as Git\'s --format does' \
                '--graph' 'Draw the graph of commits, one line each' \
                '--grep' 'Only commits whose message matches' \
                '--limit' 'With --amount, do not report that there are more commits' \
                '-n' 'Show at most N; 0 or -1 for all' \
                '--no-merges' 'Leave out merge commits' \
                '--objects' 'Only commits that changed these paths' \
                '--oneline' 'Show the short ID and the subject of each commit' \
                '--prefixes' 'Only commits that changed paths with these prefixes' \
                '--show-meta-range-id' 'Show the metarange ID too' \
                '--since' 'Only commits since this time' \
                '--stop-at' 'Stop at this commit' \
                '--until' 'Only commits until this time'
        case 'merge'
            printf '%s\t%s\n' \
                '--allow-empty' 'Merge even if the source has no new changes, unless both are at the same commit' \
                '--conflicts' 'Merge nothing, and write the conflicts to a file, or to - (stdout)' \
                '--depth' 'With --stat, most directories in a prefix' \
                '--dry-run' 'Show what would be done, but do nothing' \
                '--force' 'Merge even if the source has no new changes, unless both are at the same commit' \
                '-m' 'Commit message' \
                '--message' 'Commit message' \
                '--meta' 'Metadata to record; quote a pair whose value has a comma: \'"KEY=A,B"\'' \
                '--no-verify' 'Leave out hooks of this machine; the operation log says so' \
                '--plan' 'Resolve conflicts by an edited file from --conflicts' \
                '--squash' 'Commit the source\'s changes without its history' \
                '--stat' 'Count paths and bytes by prefix instead of listing paths' \
                '--strategy' 'Resolve all conflicts: take the source\'s side or the destination\'s' \
                '--table-logs' 'Resolve conflicts in logs of tables, too, and lose rows' \
                '--take' 'Resolve conflicts at matching paths: source:PATTERN or dest:PATTERN, as in .gitignore; the last match counts'
        case 'op log'
            printf '%s\t%s\n' \
                '--amount' 'Show at most N; 0 or -1 for all'
        case 'op restore'
            printf '%s\t%s\n' \
                '--remote' 'Move pushed refs back in the bucket, too' \
                '-y' 'Do not ask for confirmation' \
                '--yes' 'Do not ask for confirmation'
        case 'op show'
            printf '%s\t%s\n' \
                '--amount' 'Show at most N; 0 or -1 for all'
        case 'op undo'
            printf '%s\t%s\n' \
                '--remote' 'Move pushed refs back in the bucket, too'
        case 'policy edit'
            printf '%s\t%s\n' \
                '-y' 'Do not ask for confirmation' \
                '--yes' 'Do not ask for confirmation'
        case 'policy log'
            printf '%s\t%s\n' \
                '--amount' 'Show at most N; 0 or -1 for all'
        case 'policy set'
            printf '%s\t%s\n' \
                '-y' 'Do not ask for confirmation' \
                '--yes' 'Do not ask for confirmation'
        case 'policy show'
            printf '%s\t%s\n' \
                '--for' 'Print it for this person or role' \
                '--print-iam' 'Print what the bucket\'s permissions can enforce, for this cloud'
        case 'publish'
            printf '%s\t%s\n' \
                '--allow-empty' 'Merge even if the source has no new changes' \
                '--check' 'Publish only if this passes: the name of a check (checks.NAME), or a command' \
                '-m' 'Commit message' \
                '--message' 'Commit message' \
                '--meta' 'Metadata to record; quote a pair whose value has a comma: \'"KEY=A,B"\'' \
                '--no-verify' 'Leave out hooks of this machine; the operation log says so' \
                '--strategy' 'Resolve all conflicts: take the source\'s side or the destination\'s' \
                '--table-logs' 'Resolve conflicts in logs of tables, too, and lose rows' \
                '--take' 'Resolve conflicts at matching paths: source:PATTERN or dest:PATTERN, as in .gitignore; the last match counts'
        case 'pull'
            printf '%s\t%s\n' \
                '--dry-run' 'Show what would be done, but do nothing' \
                '--ff-only' 'Refuse a pull that needs a merge' \
                '-m' 'Commit message' \
                '--message' 'Commit message' \
                '--strategy' 'Resolve all conflicts: take the source\'s side or the destination\'s' \
                '--table-logs' 'Resolve conflicts in logs of tables, too, and lose rows' \
                '--take' 'Resolve conflicts at matching paths: source:PATTERN or dest:PATTERN, as in .gitignore; the last match counts'
        case 'push'
            printf '%s\t%s\n' \
                '--all' 'Push all branches and tags' \
                '-d' 'Delete the branch or tag in the bucket, not here' \
                '--delete' 'Delete the branch or tag in the bucket, not here' \
                '--dry-run' 'Show what would be done, but do nothing' \
                '--force-with-lease' 'Move the branch or tag even backwards, unless somebody else moved it in the bucket' \
                '--no-verify' 'Leave out hooks of this machine; the operation log says so'
        case 'reflog'
            printf '%s\t%s\n' \
                '--after' 'Start after this number' \
                '--amount' 'Show at most N; 0 or -1 for all'
        case 'refs-dump'
            printf '%s\t%s\n' \
                '--leave-out' 'Accept this loss: names, paths, uncommitted or unpushed; repeatable' \
                '-o' 'Write the manifest there; - is standard output' \
                '--output' 'Write the manifest there; - is standard output' \
                '--push-first' 'Push all branches and tags before dumping'
        case 'refs-restore'
            printf '%s\t%s\n' \
                '-m' 'The manifest that refs-dump printed; - reads standard input' \
                '--manifest' 'The manifest that refs-dump printed; - reads standard input' \
                '--update' 'Add what is new in the dump to a repository that has commits'
        case 'repo create'
            printf '%s\t%s\n' \
                '-d' 'Name of the first branch' \
                '--default-branch' 'Name of the first branch' \
                '--range-entries' 'Average paths per range, a power of two from 16; cannot be changed later'
        case 'repo delete'
            printf '%s\t%s\n' \
                '-y' 'Do not ask for confirmation' \
                '--yes' 'Do not ask for confirmation'
        case 'repo list'
            printf '%s\t%s\n' \
                '--after' 'Start after this name' \
                '--amount' 'Show at most N; 0 or -1 for all' \
                '--prefix' 'Only what begins with this'
        case 'restore'
            printf '%s\t%s\n' \
                '--from' 'Take the files of this branch, tag or commit; default: as last synced' \
                '--no-progress' 'Show no progress' \
                '-p' 'Transfer N objects at a time; default: 25 (transfer.parallelism)' \
                '--parallelism' 'Transfer N objects at a time; default: 25 (transfer.parallelism)' \
                '-s' 'Take the files of this branch, tag or commit; default: as last synced' \
                '--source' 'Take the files of this branch, tag or commit; default: as last synced'
        case 'rev-parse'
            printf '%s\t%s\n' \
                '--at-op' 'Read the state right after an operation; see op log' \
                '--stdin' 'Read refs from standard input, one a line'
        case 'run'
            printf '%s\t%s\n' \
                '--branch' 'Name of the branch of the run; default: a new one' \
                '--check' 'Publish only if this passes: the name of a check (checks.NAME), or a command' \
                '--keep' 'Keep the branch: always, on-failure or never' \
                '-m' 'Commit message' \
                '--message' 'Commit message' \
                '--no-verify' 'Leave out hooks of this machine; the operation log says so'
        case 'run resume'
            printf '%s\t%s\n' \
                '--no-verify' 'Leave out hooks of this machine; the operation log says so'
        case 'serve'
            printf '%s\t%s\n' \
                '--access-key' 'Access key; default: a new one, or serve.access-key' \
                '--committed' 'Leave out uncommitted changes when a branch is read' \
                '--host' 'Address to listen on; an address that other machines can reach needs TLS' \
                '--open' 'Open the pages in the browser' \
                '--port' 'Port; 0: any free one; default: 8000 if it is free, else any' \
                '--print' 'Print the lines for one client only (see `help serve`); with keys in the settings, do not serve' \
                '--read-only' 'Refuse all writes' \
                '--redirect' 'Redirect clients that follow redirects to the bucket for large objects' \
                '--tls-cert' 'Certificate, with its chain, in PEM' \
                '--tls-key' 'Key of the certificate, in PEM'
        case 'show commit'
            printf '%s\t%s\n' \
                '--at-op' 'Read the state right after an operation; see op log' \
                '--depth' 'With --stat, most directories in a prefix' \
                '--show-meta-range-id' 'Show the metarange ID too' \
                '--stat' 'Count paths and bytes by prefix instead of listing paths'
        case 'status'
            printf '%s\t%s\n' \
                '--at-op' 'Read the state right after an operation; see op log'
        case 'tag create'
            printf '%s\t%s\n' \
                '-f' 'Move the tag if it exists' \
                '--force' 'Move the tag if it exists'
        case 'tag delete'
            printf '%s\t%s\n' \
                '-y' 'Do not ask for confirmation' \
                '--yes' 'Do not ask for confirmation'
        case 'tag list'
            printf '%s\t%s\n' \
                '--after' 'Start after this name' \
                '--amount' 'Show at most N; 0 or -1 for all' \
                '--at-op' 'Read the state right after an operation; see op log' \
                '--prefix' 'Only what begins with this'
        case 'tag show'
            printf '%s\t%s\n' \
                '--at-op' 'Read the state right after an operation; see op log'
        case 'undo'
            printf '%s\t%s\n' \
                '--remote' 'Move pushed refs back in the bucket, too'
        case 'use'
            printf '%s\t%s\n' \
                '--unset' 'Remove the default'
    end
    printf '%s\t%s\n' \
        '--base-uri' 'Prefix of URIs that do not begin with lakefs://' \
        '-c' 'Use this configuration file' \
        '--config' 'Use this configuration file' \
        '-h' 'Show help' \
        '--help' 'Show help' \
        '--json' 'Answer in JSON' \
        '--log-format' 'Format of the log: text or json' \
        '--log-level' 'Log from this level on: debug, info, …' \
        '--log-output' 'Write the log to this file; - for standard error' \
        '--no-color' 'No colours or progress bars' \
        '--no-pager' 'Show long output without a pager' \
        '--no-trunc' 'Show IDs and cells of tables whole' \
        '-q' 'Show no progress and no notes' \
        '--quiet' 'Show no progress and no notes' \
        '--verbose' 'Show debug messages, the number of requests, tracebacks'
end

# Print what completes the value of option $argv[2] of the command $argv[1]; fails where it
# takes none.
function __lakecli_value
    switch "$argv[1] $argv[2]"
        case 'annotate --at-op'
            echo 'operation'
        case 'approve --for'
            echo 'ref'
        case 'blame --at-op'
            echo 'operation'
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
        case 'branch reset --force-with-lease'
            echo 'nothing'
        case 'branch reset --object'
            echo 'nothing'
        case 'branch reset --prefix'
            echo 'nothing'
        case 'branch reset --to'
            echo 'ref'
        case 'branch revert -m'
            echo 'nothing'
        case 'branch revert --parent-number'
            echo 'nothing'
        case 'branch revert --take'
            echo 'nothing'
        case 'branch show --at-op'
            echo 'operation'
        case 'branch-protect list --amount'
            echo 'nothing'
        case 'cat-sst --amount'
            echo 'nothing'
        case 'cat-sst -f'
            echo 'file'
        case 'cat-sst --file'
            echo 'file'
        case 'check list --prefix'
            echo 'nothing'
        case 'check run --prefix'
            echo 'nothing'
        case 'checkout -p'
            echo 'nothing'
        case 'checkout --parallelism'
            echo 'nothing'
        case 'cherry-pick -m'
            echo 'nothing'
        case 'cherry-pick --parent-number'
            echo 'nothing'
        case 'cherry-pick --take'
            echo 'nothing'
        case 'clone --conf'
            echo 'nothing'
        case 'clone -d'
            echo 'nothing'
        case 'clone --default-branch'
            echo 'nothing'
        case 'clone --engine'
            echo '=auto local spark'
        case 'clone --master'
            echo 'nothing'
        case 'clone --refs'
            echo 'file'
        case 'commit -m'
            echo 'nothing'
        case 'commit --message'
            echo 'nothing'
        case 'commit --meta'
            echo 'nothing'
        case 'commit --path'
            echo 'nothing'
        case 'commit --prefix'
            echo 'nothing'
        case 'commit --strategy'
            echo '=source-wins dest-wins'
        case 'diff --at-op'
            echo 'operation'
        case 'diff --conf'
            echo 'nothing'
        case 'diff --depth'
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
        case 'fs cat --files-from'
            echo 'file'
        case 'fs cp --content-type'
            echo 'nothing'
        case 'fs cp --meta'
            echo 'nothing'
        case 'fs cp -p'
            echo 'nothing'
        case 'fs cp --parallelism'
            echo 'nothing'
        case 'fs download --at-op'
            echo 'operation'
        case 'fs download --exclude'
            echo 'nothing'
        case 'fs download --files-from'
            echo 'file'
        case 'fs download --include'
            echo 'nothing'
        case 'fs download --max-delete'
            echo 'nothing'
        case 'fs download -p'
            echo 'nothing'
        case 'fs download --parallelism'
            echo 'nothing'
        case 'fs download --part-size'
            echo 'nothing'
        case 'fs du --at-op'
            echo 'operation'
        case 'fs du --depth'
            echo 'nothing'
        case 'fs find --at-op'
            echo 'operation'
        case 'fs find --max-size'
            echo 'nothing'
        case 'fs find --min-size'
            echo 'nothing'
        case 'fs find --name'
            echo 'nothing'
        case 'fs find --since'
            echo 'nothing'
        case 'fs find --until'
            echo 'nothing'
        case 'fs ls --after'
            echo 'nothing'
        case 'fs ls --amount'
            echo 'nothing'
        case 'fs ls --at-op'
            echo 'operation'
        case 'fs mv -p'
            echo 'nothing'
        case 'fs mv --parallelism'
            echo 'nothing'
        case 'fs presign --check'
            echo 'file'
        case 'fs presign --count'
            echo 'nothing'
        case 'fs presign --expires'
            echo 'nothing'
        case 'fs presign --files-from'
            echo 'file'
        case 'fs presign --format'
            echo '=json csv html'
        case 'fs presign --manifest'
            echo 'file'
        case 'fs presign --max-size'
            echo 'nothing'
        case 'fs presign -n'
            echo 'nothing'
        case 'fs presign --page'
            echo 'file'
        case 'fs presign --script'
            echo 'file'
        case 'fs presign --title'
            echo 'nothing'
        case 'fs rm --files-from'
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
        case 'fs stat --files-from'
            echo 'file'
        case 'fs update-metadata --content-type'
            echo 'nothing'
        case 'fs update-metadata --meta'
            echo 'nothing'
        case 'fs update-metadata --metadata'
            echo 'nothing'
        case 'fs upload --content-type'
            echo 'nothing'
        case 'fs upload --exclude'
            echo 'nothing'
        case 'fs upload --files-from'
            echo 'file'
        case 'fs upload --include'
            echo 'nothing'
        case 'fs upload --max-delete'
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
        case 'import --verify'
            echo '=none sample all'
        case 'local checkout -p'
            echo 'nothing'
        case 'local checkout --parallelism'
            echo 'nothing'
        case 'local checkout -r'
            echo 'ref'
        case 'local checkout --ref'
            echo 'ref'
        case 'local clone --exclude'
            echo 'nothing'
        case 'local clone --include'
            echo 'nothing'
        case 'local clone -p'
            echo 'nothing'
        case 'local clone --parallelism'
            echo 'nothing'
        case 'local commit --exclude'
            echo 'nothing'
        case 'local commit --include'
            echo 'nothing'
        case 'local commit -m'
            echo 'nothing'
        case 'local commit --message'
            echo 'nothing'
        case 'local commit --meta'
            echo 'nothing'
        case 'local commit -p'
            echo 'nothing'
        case 'local commit --parallelism'
            echo 'nothing'
        case 'local diff --exclude'
            echo 'nothing'
        case 'local diff --include'
            echo 'nothing'
        case 'local init --exclude'
            echo 'nothing'
        case 'local init --include'
            echo 'nothing'
        case 'local pull -p'
            echo 'nothing'
        case 'local pull --parallelism'
            echo 'nothing'
        case 'local status --exclude'
            echo 'nothing'
        case 'local status --include'
            echo 'nothing'
        case 'log --after'
            echo 'nothing'
        case 'log --amount'
            echo 'nothing'
        case 'log --at-op'
            echo 'operation'
        case 'log --author'
            echo 'nothing'
        case 'log --format'
            echo 'nothing'
        case 'log --grep'
            echo 'nothing'
        case 'log -n'
            echo 'nothing'
        case 'log --objects'
            echo 'nothing'
        case 'log --prefixes'
            echo 'nothing'
        case 'log --since'
            echo 'nothing'
        case 'log --stop-at'
            echo 'nothing'
        case 'log --until'
            echo 'nothing'
        case 'merge --conflicts'
            echo 'file'
        case 'merge --depth'
            echo 'nothing'
        case 'merge -m'
            echo 'nothing'
        case 'merge --message'
            echo 'nothing'
        case 'merge --meta'
            echo 'nothing'
        case 'merge --plan'
            echo 'file'
        case 'merge --strategy'
            echo '=source-wins dest-wins'
        case 'merge --take'
            echo 'nothing'
        case 'op log --amount'
            echo 'nothing'
        case 'op show --amount'
            echo 'nothing'
        case 'policy log --amount'
            echo 'nothing'
        case 'policy show --for'
            echo 'nothing'
        case 'policy show --print-iam'
            echo '=aws gcs azure'
        case 'publish --check'
            echo 'nothing'
        case 'publish -m'
            echo 'nothing'
        case 'publish --message'
            echo 'nothing'
        case 'publish --meta'
            echo 'nothing'
        case 'publish --strategy'
            echo '=source-wins dest-wins'
        case 'publish --take'
            echo 'nothing'
        case 'pull -m'
            echo 'nothing'
        case 'pull --message'
            echo 'nothing'
        case 'pull --strategy'
            echo '=source-wins dest-wins'
        case 'pull --take'
            echo 'nothing'
        case 'push --force-with-lease'
            echo 'nothing'
        case 'reflog --after'
            echo 'nothing'
        case 'reflog --amount'
            echo 'nothing'
        case 'refs-dump --leave-out'
            echo 'nothing'
        case 'refs-dump -o'
            echo 'file'
        case 'refs-dump --output'
            echo 'file'
        case 'refs-restore -m'
            echo 'file'
        case 'refs-restore --manifest'
            echo 'file'
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
        case 'restore --from'
            echo 'ref'
        case 'restore -p'
            echo 'nothing'
        case 'restore --parallelism'
            echo 'nothing'
        case 'restore -s'
            echo 'ref'
        case 'restore --source'
            echo 'ref'
        case 'rev-parse --at-op'
            echo 'operation'
        case 'run --branch'
            echo 'nothing'
        case 'run --check'
            echo 'nothing'
        case 'run --keep'
            echo '=always on-failure never'
        case 'run -m'
            echo 'nothing'
        case 'run --message'
            echo 'nothing'
        case 'serve --access-key'
            echo 'nothing'
        case 'serve --host'
            echo 'nothing'
        case 'serve --port'
            echo 'nothing'
        case 'serve --print'
            echo '=env aws boto3 duckdb polars spark rclone delta pyarrow obstore s5cmd lakectl'
        case 'serve --tls-cert'
            echo 'file'
        case 'serve --tls-key'
            echo 'file'
        case 'show commit --at-op'
            echo 'operation'
        case 'show commit --depth'
            echo 'nothing'
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
        case '* --log-format'
            echo 'nothing'
        case '* --log-level'
            echo 'nothing'
        case '* --log-output'
            echo 'nothing'
        case '*'
            return 1
    end
end

# Print what completes argument $argv[2] of the command $argv[1].
function __lakecli_argument
    switch "$argv[1] $argv[2]"
        case 'annotate 1'
            echo 'path-or-file@'
        case 'approve 1'
            echo 'ref'
        case 'bisect bad *'
            echo 'ref'
        case 'bisect good *'
            echo 'ref'
        case 'bisect log 1'
            echo 'repository'
        case 'bisect new *'
            echo 'ref'
        case 'bisect old *'
            echo 'ref'
        case 'bisect reset 1'
            echo 'repository'
        case 'bisect run *'
            echo 'file'
        case 'bisect skip *'
            echo 'ref'
        case 'bisect start 1'
            echo 'ref'
        case 'bisect start *'
            echo 'ref'
        case 'bisect view 1'
            echo 'repository'
        case 'blame 1'
            echo 'path-or-file@'
        case 'branch create 1'
            echo 'branch'
        case 'branch delete *'
            echo 'branch'
        case 'branch list 1'
            echo 'repository@'
        case 'branch rename 1'
            echo 'branch'
        case 'branch rename 2'
            echo 'nothing'
        case 'branch reset 1'
            echo 'branch'
        case 'branch revert 1'
            echo 'branch'
        case 'branch revert *'
            echo 'ref'
        case 'branch show 1'
            echo 'branch@'
        case 'branch-protect add 1'
            echo 'repository'
        case 'branch-protect add 2'
            echo 'nothing'
        case 'branch-protect delete 1'
            echo 'repository'
        case 'branch-protect delete 2'
            echo 'nothing'
        case 'branch-protect list 1'
            echo 'repository'
        case 'check list 1'
            echo 'ref'
        case 'check run 1'
            echo 'nothing'
        case 'check run 2'
            echo 'ref'
        case 'check-ignore *'
            echo 'file'
        case 'checkout 1'
            echo 'ref'
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
            echo 'setting'
        case 'config set 1'
            echo 'setting'
        case 'config set 2'
            echo 'nothing'
        case 'config unset 1'
            echo 'setting'
        case 'diff 1'
            echo 'ref-or-own-file@'
        case 'diff 2'
            echo 'ref-or-own-file@'
        case 'doctor 1'
            echo 'repository'
        case 'export 1'
            echo 'path'
        case 'export 2'
            echo 'directory'
        case 'fetch 1'
            echo 'repository'
        case 'find-merge-base 1'
            echo 'ref@'
        case 'find-merge-base 2'
            echo 'ref@'
        case 'fs cat *'
            echo 'path@'
        case 'fs cp 1'
            echo 'path'
        case 'fs cp 2'
            echo 'path'
        case 'fs download 1'
            echo 'path@'
        case 'fs download 2'
            echo 'file'
        case 'fs du 1'
            echo 'path@'
        case 'fs find 1'
            echo 'path@'
        case 'fs ls 1'
            echo 'path@'
        case 'fs mv 1'
            echo 'path'
        case 'fs mv 2'
            echo 'path'
        case 'fs presign *'
            echo 'path@'
        case 'fs rm *'
            echo 'path'
        case 'fs stage 1'
            echo 'path'
        case 'fs stat 1'
            echo 'path@'
        case 'fs update-metadata *'
            echo 'path'
        case 'fs upload 1'
            echo 'file'
        case 'fs upload *'
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
        case 'local checkout 1'
            echo 'directory'
        case 'local clone 1'
            echo 'path'
        case 'local clone 2'
            echo 'directory'
        case 'local commit 1'
            echo 'directory'
        case 'local diff 1'
            echo 'directory'
        case 'local init 1'
            echo 'path'
        case 'local init 2'
            echo 'directory'
        case 'local list 1'
            echo 'directory'
        case 'local pull 1'
            echo 'directory'
        case 'local status 1'
            echo 'directory'
        case 'log 1'
            echo 'ref-or-file@'
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
        case 'policy edit 1'
            echo 'repository'
        case 'policy log 1'
            echo 'repository'
        case 'policy set 1'
            echo 'repository'
        case 'policy set 2'
            echo 'file'
        case 'policy show 1'
            echo 'repository'
        case 'publish 1'
            echo 'ref'
        case 'publish 2'
            echo 'branch'
        case 'pull 1'
            echo 'ref'
        case 'push 1'
            echo 'ref'
        case 'quickstart 1'
            echo 'directory'
        case 'redo 1'
            echo 'repository'
        case 'reflog 1'
            echo 'ref@'
        case 'refs-dump 1'
            echo 'repository'
        case 'refs-restore 1'
            echo 'repository'
        case 'repo create 1'
            echo 'repository'
        case 'repo create 2'
            echo 'directory'
        case 'repo delete 1'
            echo 'repository'
        case 'restore *'
            echo 'file-of-ref'
        case 'rev-parse *'
            echo 'ref@'
        case 'run 1'
            echo 'branch'
        case 'run *'
            echo 'nothing'
        case 'run abort 1'
            echo 'branch'
        case 'run list 1'
            echo 'repository'
        case 'run resume 1'
            echo 'branch'
        case 'run show 1'
            echo 'branch'
        case 'serve *'
            echo 'repository'
        case 'show commit 1'
            echo 'ref@'
        case 'status 1'
            echo 'branch'
        case 'tag create 1'
            echo 'tag'
        case 'tag create 2'
            echo 'ref'
        case 'tag delete *'
            echo 'tag'
        case 'tag list 1'
            echo 'repository@'
        case 'tag show 1'
            echo 'tag@'
        case 'undo 1'
            echo 'repository'
        case 'use 1'
            echo 'ref'
        case 'help 1'
            echo '=annotate approve bisect blame branch branch-protect cat-sst check check-ignore checkout cherry-pick clone clouds commit completion config diff doctor exit-codes export fetch find-merge-base fs fsck gc handoff import json lakectl lakefs layout libraries local log merge op plugin policy publish pull push python quickstart recipes redo reflog refs-dump refs-restore remotes repo restore rev-parse revisions run security serve show spark status tag tutorial undo use version working-directory'
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
            command lakecli __complete $argv[1] "$argv[2]" 2>/dev/null
    end
end

function __lakecli_complete
    set -l tokens (commandline --tokenize --cut-at-cursor --current-process)
    set -l current (commandline --current-token --cut-at-cursor)
    # Without quotes and backslashes; an unfinished quote is no part of the value.
    set -l typed (string unescape -- $current)
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
